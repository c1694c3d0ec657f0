// Requests that may become far longer than is planned for them: they run together, and where they
// do outgrow the KV cache, the youngest are put aside and come back, with the same answers.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "core/bytes.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

const TestModel& tiny() {
  static const TestModel model(tiny_llama_config());
  return model;
}

constexpr int kSequences = 8;

// Room for eight sequences of 24 positions; of 128, the longest, for one.
TestSetup small_cache(PerTier<double> kv = {0, 1, 0}, double link = 0) {
  TestSetup setup;
  setup.policy.gpu_batch_size = kSequences / 2;
  setup.policy.kv_positions = 24;
  setup.policy.kv = kv;
  setup.emulate_link = link;
  return setup;
}

GenerationRequest request(int i, int max_tokens) {
  GenerationRequest r;
  r.prompt.assign(static_cast<std::size_t>(2 + i % 5), i);
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  r.sampling.temperature = 1;
  r.sampling.seed = static_cast<std::uint64_t>(i);
  return r;
}

// Prompts of 2 to 59 tokens, answers of 40 to 64; of some prompts the log-probabilities.
std::vector<GenerationRequest> long_job() {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(request(i, 40 + 7 * i % 25));
    requests.back().prompt.resize(static_cast<std::size_t>(2 + 3 * i), 7 * i);
    requests.back().prompt_logprobs = i % 3 == 1;
  }
  return requests;
}

struct Seen {
  std::size_t running = 0;
  std::vector<std::size_t> tokens;
};

// All want 120 tokens but stop after ten; how many ran at once.
Seen run_early_ends(Engine& engine) {
  Seen seen;
  seen.tokens.resize(2 * kSequences);
  std::vector<std::promise<void>> ends(seen.tokens.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    GenerationRequest r = request(static_cast<int>(i), 120);
    r.on_token = [&, i](const SampledToken&) {
      seen.running = std::max(seen.running, engine.stats().running);
      return ++seen.tokens[i] < 10;
    };
    r.on_done = [&end = ends[i]](FinishReason, const std::string&) { end.set_value(); };
    engine.submit(std::move(r));
  }
  for (auto& end : ends) end.get_future().wait();
  return seen;
}

TEST(OverCommit, RequestsWithoutALimitRunTogetherWhereTheyEndAsPlanned) {
  TestEngine test(tiny(), small_cache());
  const Seen seen = run_early_ends(*test.engine);
  EXPECT_THAT(seen.tokens, testing::Each(10u));
  EXPECT_EQ(seen.running, static_cast<std::size_t>(kSequences));
  EXPECT_EQ(test.engine->stats().swaps, 0u);
}

TEST(OverCommit, RunsOneAfterTheOtherWhereItIsNotAllowed) {
  TestSetup setup = small_cache();
  setup.policy.over_commit = false;
  TestEngine test(tiny(), setup);
  const Seen seen = run_early_ends(*test.engine);
  EXPECT_THAT(seen.tokens, testing::Each(10u));
  EXPECT_EQ(seen.running, 1u);
}

struct Homes {
  const char* name;
  PerTier<double> kv;
  double link;
};

void PrintTo(const Homes& homes, std::ostream* out) { *out << homes.name; }

class OverCommitHomes : public testing::TestWithParam<Homes> {};

TEST_P(OverCommitHomes, WhoIsPutAsideAnswersAsIfNothingHadHappened) {
  TestSetup ample = small_cache();
  ample.policy.kv_positions = 0;
  TestEngine with_room(tiny(), ample);
  const auto expected = run_all(*with_room.engine, long_job());
  EXPECT_EQ(with_room.engine->stats().swaps, 0u);

  TestEngine test(tiny(), small_cache(GetParam().kv, GetParam().link));
  const auto answers = run_all(*test.engine, long_job());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_EQ(answers[i].error, "") << "line " << i;
    EXPECT_EQ(answers[i].reason, FinishReason::kLength) << "line " << i;
    EXPECT_EQ(answers[i].ids(), expected[i].ids()) << "line " << i;
    EXPECT_EQ(answers[i].prompt.size(), expected[i].prompt.size()) << "line " << i;
    EXPECT_EQ(answers[i].hash(), expected[i].hash()) << "line " << i;
  }
  const EngineStats stats = test.engine->stats();
  EXPECT_GT(stats.swaps, stats.replays);
  EXPECT_EQ(stats.swapped + stats.running + stats.waiting, 0u);
  for (const Tier tier : kTiers) EXPECT_EQ(stats.kv_bytes[tier], 0u) << name_of(tier);
}

// Sanitizers, which take ten times as long, see those that have the most threads.
INSTANTIATE_TEST_SUITE_P(All, OverCommitHomes,
                         testing::Values(Homes{"Disk", {0, 0, 1}, 0},
                                         Homes{"LinkHostAndDisk", {0, 0.5, 0.5}, 4e9}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Slow, OverCommitHomes,
                         testing::Values(Homes{"Host", {0, 1, 0}, 0},
                                         Homes{"HostAndDisk", {0, 0.5, 0.5}, 0},
                                         Homes{"LinkDevice", {1, 0, 0}, 4e9},
                                         Homes{"LinkHost", {0, 1, 0}, 4e9},
                                         Homes{"LinkDeviceAndHost", {0.5, 0.5, 0}, 4e9}),
                         [](const auto& info) { return info.param.name; });

// Eight sequences of two tokens and more, none of which ever ends by itself, until
// `when_swapped` is called, in the engine's thread, while some are put aside.
struct Endless {
  std::vector<std::promise<FinishReason>> ends{kSequences};
  std::vector<Engine::RequestId> ids;
  std::vector<int> tokens = std::vector<int>(kSequences);
  std::promise<void> submitted;
  std::shared_future<void> all_submitted = submitted.get_future().share();

  template <typename WhenSwapped>
  void run(Engine& engine, WhenSwapped when_swapped) {
    for (int i = 0; i < kSequences; ++i) {
      GenerationRequest r = request(0, 100);
      r.on_token = [this, i, &engine, when_swapped](const SampledToken&) {
        all_submitted.wait();
        ++tokens[static_cast<std::size_t>(i)];
        return i != 0 || engine.stats().swapped == 0 || when_swapped();
      };
      r.on_done = [&end = ends[static_cast<std::size_t>(i)]](
                      FinishReason reason, const std::string&) { end.set_value(reason); };
      ids.push_back(engine.submit(std::move(r)));
    }
    submitted.set_value();
  }
};

TEST(OverCommit, CancelsWhoIsPutAside) {
  for (const double link : {0., 4e9}) {
    TestEngine test(
        tiny(),
        small_cache(link > 0 ? PerTier<double>{0.5, 0.5, 0} : PerTier<double>{0, 0.5, 0.5}, link));
    Endless job;
    bool told = false;
    job.run(*test.engine, [&] {
      if (!std::exchange(told, true)) test.engine->cancel(job.ids.back());  // the first to go
      return true;
    });
    EXPECT_EQ(job.ends.back().get_future().get(), FinishReason::kCancelled);
    for (int i = 0; i + 1 < kSequences; ++i) {
      EXPECT_EQ(job.ends[static_cast<std::size_t>(i)].get_future().get(), FinishReason::kLength);
      EXPECT_EQ(job.tokens[static_cast<std::size_t>(i)], 100);
    }
    EXPECT_LT(job.tokens.back(), job.tokens.front());
    const EngineStats stats = test.engine->stats();
    for (const Tier tier : kTiers) EXPECT_EQ(stats.kv_bytes[tier], 0u) << name_of(tier);
  }
}

TEST(OverCommit, EndsWhoIsPutAsideAsCancelledWhenTheEngineIsDestroyed) {
  Endless job;
  TestEngine test(tiny(), small_cache());
  std::promise<void> swapped;
  bool told = false;
  job.run(*test.engine, [&] {
    if (!std::exchange(told, true)) swapped.set_value();
    return true;
  });
  swapped.get_future().wait();
  test.engine.reset();  // hundreds of sweeps too early
  for (auto& end : job.ends)
    EXPECT_EQ(end.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_LT(job.tokens.back(), 100);
  EXPECT_EQ(test.budgets.disk.used(), 0u);
}

// Without room on disk for all that is put aside, the rest is computed again.
TEST(OverCommit, ComputesAgainWhatTheDiskHasNoRoomFor) {
  TestSetup setup = small_cache();
  setup.policy.gpu_batch_size = 8;
  setup.policy.kv_positions = 10;
  std::vector<GenerationRequest> requests, again;
  for (int i = 0; i < 16; ++i) {
    requests.push_back(request(i, 110));
    requests.back().prompt_logprobs = i % 2 == 0;
  }
  again = requests;
  TestEngine test(tiny(), setup);
  const auto answers = run_all(*test.engine, std::move(requests));
  EXPECT_GT(test.engine->stats().replays, 0u);
  setup.policy.kv_positions = 0;
  TestEngine with_room(tiny(), setup);
  const auto expected = run_all(*with_room.engine, std::move(again));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_EQ(answers[i].error, "") << "line " << i;
    EXPECT_EQ(answers[i].ids(), expected[i].ids()) << "line " << i;
    EXPECT_EQ(answers[i].hash(), expected[i].hash()) << "line " << i;
  }
}

}  // namespace
}  // namespace barge
