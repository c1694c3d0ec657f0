// Prompts that begin alike: computed and stored once, with the same answers as if they weren't.
#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <random>
#include <utility>

#include "tests/support/test_model.h"

namespace barge {
namespace {

// ThreadSanitizer takes a hundred times as long.
constexpr unsigned kTrees = kReferenceKernels ? 3 : 8, kPairs = kReferenceKernels ? 3 : 12;

const TestModel& tiny() {
  static const TestModel model(tiny_llama_config());
  return model;
}

std::vector<TokenId> tokens(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (TokenId& id : ids) id = std::uniform_int_distribution<TokenId>(0, 299)(random);
  return ids;
}

GenerationRequest request(std::vector<TokenId> prompt, int max_tokens, std::uint64_t seed = 1) {
  GenerationRequest r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  r.sampling.temperature = 1;
  r.sampling.seed = seed;
  return r;
}

GenerationRequest request(int common, unsigned own_seed, int own, int max_tokens) {
  std::vector<TokenId> prompt = tokens(1000, common);
  const std::vector<TokenId> rest = tokens(own_seed, own);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  prompt[static_cast<std::size_t>(common)] = static_cast<TokenId>(own_seed);  // surely differs
  return request(std::move(prompt), max_tokens, own_seed);
}

TestSetup without_sharing(TestSetup setup) {
  setup.policy.prefix_sharing = false;
  return setup;
}

void expect_same(const std::vector<TestAnswer>& answers, const std::vector<TestAnswer>& expected) {
  ASSERT_EQ(answers.size(), expected.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_EQ(answers[i].error, expected[i].error) << "line " << i;
    EXPECT_EQ(answers[i].ids(), expected[i].ids()) << "line " << i;
    EXPECT_EQ(answers[i].hash(), expected[i].hash()) << "line " << i;
  }
}

void expect_nothing_in_use(const EngineStats& stats) {
  EXPECT_EQ(stats.swapped + stats.running + stats.waiting, 0u);
  for (const Tier tier : kTiers) EXPECT_EQ(stats.kv_bytes[tier], 0u) << name_of(tier);
}

struct Variant {
  const char* name;
  PerTier<double> kv{0, 1, 0};
  double link = 0;
  int kv_bits = 32, sweep_tokens = 40;
  bool cpu_attention = false;
  int page_positions = 8;

  TestSetup setup() const {
    TestSetup s;
    s.policy.kv = kv;
    s.policy.kv_bits = kv_bits;
    s.policy.sweep_tokens = sweep_tokens;
    s.policy.cpu_attention = cpu_attention;
    s.policy.page_positions = page_positions;
    s.emulate_link = link;
    return s;
  }
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class PrefixSharing : public testing::TestWithParam<Variant> {};

// 70 tokens: eight pages and six positions of the next.
TEST_P(PrefixSharing, ComputesWhatIsCommonOnceAndAnswersAsIfItDidNot) {
  constexpr int kCommon = 70, kOwn = 5, kLines = 15;
  const auto job = [&] {
    std::vector<GenerationRequest> requests;
    for (unsigned i = 0; i < kLines; ++i) requests.push_back(request(kCommon, i, kOwn, 3 + i % 9));
    return requests;
  };
  TestEngine alone(tiny(), without_sharing(GetParam().setup()));
  const auto expected = run_all(*alone.engine, job());
  EXPECT_EQ(alone.engine->stats().prompt_tokens, std::size_t{kLines * (kCommon + kOwn)});
  EXPECT_EQ(alone.engine->stats().shared_prompt_tokens, 0u);

  TestEngine test(tiny(), GetParam().setup());
  expect_same(run_all(*test.engine, job()), expected);
  const EngineStats stats = test.engine->stats();
  // Where the cache is full, which depends on who arrived before the first sweep, a line may get
  // whole pages only: those that others hold anyhow.
  const auto page_rest = static_cast<std::size_t>(kCommon % GetParam().page_positions);
  const auto least = std::size_t{kCommon + kLines * kOwn};
  EXPECT_GE(stats.prompt_tokens, least);
  EXPECT_LE(stats.prompt_tokens, least + (kLines - 1) * page_rest);
  EXPECT_EQ(stats.prompt_tokens + stats.shared_prompt_tokens,
            std::size_t{kLines * (kCommon + kOwn)});
  expect_nothing_in_use(stats);
}

TEST_P(PrefixSharing, KeepsPromptsForThoseWhoComeLater) {
  TestEngine alone(tiny(), without_sharing(GetParam().setup()));
  TestEngine test(tiny(), GetParam().setup());
  std::size_t computed = 0;
  // A prompt; one that begins like it; both again; one that goes on after the first; another.
  for (const auto& [common, own_seed, own, new_tokens] :
       {std::array{40, 1, 20, 60}, std::array{40, 2, 17, 17}, std::array{40, 1, 20, 1},
        std::array{40, 2, 17, 1}, std::array{40, 1, 27, 7}, std::array{0, 3, 50, 50}}) {
    const auto job = [&] {
      std::vector<GenerationRequest> requests;
      requests.push_back(request(common, static_cast<unsigned>(own_seed), own, 5));
      return requests;
    };
    expect_same(run_all(*test.engine, job()), run_all(*alone.engine, job()));
    computed += static_cast<std::size_t>(new_tokens);
    EXPECT_EQ(test.engine->stats().prompt_tokens, computed) << "after " << own_seed << ", " << own;
    expect_nothing_in_use(test.engine->stats());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PrefixSharing,
    testing::Values(
        Variant{.name = "Host"}, Variant{.name = "Disk", .kv = {0, 0, 1}},
        Variant{.name = "HostAndDisk4Bits", .kv = {0, 0.5, 0.5}, .kv_bits = 4},
        Variant{.name = "SmallChunks", .sweep_tokens = 7},
        Variant{.name = "PagesOfOne", .kv = {0, 0.5, 0.5}, .page_positions = 1},
        Variant{.name = "LargePages", .kv = {0, 0.5, 0.5}, .page_positions = 64},
        Variant{.name = "LinkThreeTiers", .kv = {0.3, 0.3, 0.4}, .link = 4e9},
        Variant{.name = "LinkDevice4Bits", .kv = {1, 0, 0}, .link = 4e9, .kv_bits = 4},
        Variant{.name = "LinkDiskChunks", .kv = {0, 0, 1}, .link = 4e9, .sweep_tokens = 11},
        Variant{.name = "CpuAttends", .kv = {0, 0.5, 0.5}, .link = 4e9, .cpu_attention = true}),
    [](const auto& info) { return info.param.name; });

TEST(PrefixSharingOfChoices, ComputesAPromptOnceButForItsLastToken) {
  const auto job = [] {
    std::vector<GenerationRequest> requests;
    for (int choice = 0; choice < 4; ++choice) {
      requests.push_back(request(tokens(5, 61), 9));
      requests.back().sampling.choice = choice;
    }
    return requests;
  };
  TestEngine alone(tiny(), without_sharing({})), test(tiny());
  const auto answers = run_all(*test.engine, job());
  expect_same(answers, run_all(*alone.engine, job()));
  EXPECT_NE(answers[0].ids(), answers[1].ids());
  EXPECT_EQ(test.engine->stats().prompt_tokens, 61u + 3);
}

TEST(PrefixSharingOfScores, ComputesAllOfAPromptWhoseLogprobsAreWanted) {
  const auto job = [] {
    std::vector<GenerationRequest> requests;
    for (unsigned i = 0; i < 3; ++i) {
      requests.push_back(request(50, i, 6, 4));
      requests.back().prompt_logprobs = i > 0;
    }
    return requests;
  };
  TestEngine alone(tiny(), without_sharing({})), test(tiny());
  const auto answers = run_all(*test.engine, job());
  expect_same(answers, run_all(*alone.engine, job()));
  EXPECT_EQ(answers[1].prompt.size(), 55u);
  EXPECT_GE(test.engine->stats().prompt_tokens, 2u * 56);
}

// Eight times 26 positions: two sequences of 100, or one and what others add to its first 80.
TEST(PrefixSharingOfRoom, LetsMoreInWhereTheyStoreLess) {
  TestSetup setup;
  setup.policy.max_positions = 104;
  setup.policy.gpu_batch_size = 1;
  setup.policy.num_gpu_batches = 8;
  setup.policy.kv_positions = 26;
  setup.policy.over_commit = false;
  const auto most_running = [](const TestSetup& setup) {
    TestEngine test(tiny(), setup);
    std::size_t most = 0;
    std::vector<std::promise<void>> ends(8);
    for (unsigned i = 0; i < ends.size(); ++i) {
      GenerationRequest r = request(80, i, 4, 16);
      r.on_token = [&](const SampledToken&) {
        most = std::max(most, test.engine->stats().running);
        return true;
      };
      r.on_done = [&end = ends[i]](FinishReason, const std::string&) { end.set_value(); };
      test.engine->submit(std::move(r));
    }
    for (auto& end : ends) end.get_future().wait();
    return most;
  };
  EXPECT_EQ(most_running(without_sharing(setup)), 2u);
  EXPECT_GE(most_running(setup), 5u);
}

// What is kept never stands in the way of what runs, whatever came before.
TEST(PrefixSharingOfRoom, GivesBackWhatIsKeptBeforeAnybodyWaitsOrIsRefused) {
  for (const PerTier<double> kv : {PerTier<double>{0, 1, 0}, PerTier<double>{0, 0.4, 0.6}}) {
    TestSetup setup;
    setup.policy.kv = kv;
    setup.policy.gpu_batch_size = 2;
    setup.policy.num_gpu_batches = 1;
    setup.policy.over_commit = false;
    TestEngine test(tiny(), setup);
    for (unsigned i = 0; i < kPairs; ++i) {
      std::vector<GenerationRequest> two;
      two.push_back(request(0, 2 * i, 120, 8));
      two.push_back(request(0, 2 * i + 1, 120, 8));
      for (const TestAnswer& answer : run_all(*test.engine, std::move(two)))
        ASSERT_EQ(answer.error, "");
    }
    const EngineStats stats = test.engine->stats();
    EXPECT_LE(stats.sweeps, kPairs * (6 + 8 + 2)) << "they didn't run together";
    expect_nothing_in_use(stats);
  }
}

// Trees of prompts, sequences that outgrow what is planned for them, a KV cache for few of them.
TEST(PrefixSharingUnderPressure, AnswersAlikeWhereSequencesArePutAside) {
  std::size_t swaps = 0, shared = 0;
  for (unsigned round = 0; round < kTrees; ++round) {
    SCOPED_TRACE(round);
    std::mt19937 random(round);
    const auto draw = [&random](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const auto job = [&random, round] {
      random.seed(round + 100);
      const auto draw = [&random](int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random);
      };
      std::vector<GenerationRequest> requests;
      for (int i = 0; i < 24; ++i) {
        std::vector<TokenId> prompt;
        if (i > 0 && draw(0, 4) > 0) {
          const auto& of = requests[static_cast<std::size_t>(draw(0, i - 1))].prompt;
          prompt.assign(of.begin(), of.begin() + draw(0, static_cast<int>(of.size())));
        }
        const auto own = tokens(round * 100 + static_cast<unsigned>(i), draw(1, 40));
        prompt.insert(prompt.end(), own.begin(), own.end());
        prompt.resize(std::min<std::size_t>(prompt.size(), 80));
        requests.push_back(request(std::move(prompt), draw(1, 45), static_cast<unsigned>(i)));
        requests.back().prompt_logprobs = draw(0, 7) == 0;
      }
      return requests;
    };
    TestSetup setup;
    setup.policy.gpu_batch_size = draw(2, 4);
    setup.policy.num_gpu_batches = draw(2, 3);
    setup.policy.page_positions = std::array{1, 4, 8, 32}[static_cast<std::size_t>(draw(0, 3))];
    setup.policy.sweep_tokens = draw(14, 60);
    setup.policy.kv_positions = draw(4, 30);
    setup.policy.over_commit = round % 5 != 4;
    setup.policy.kv = std::array<PerTier<double>, 4>{
        {{0, 1, 0}, {0, 0.5, 0.5}, {0, 0, 1}, {0.3, 0.3, 0.4}}}[round % 4];
    if (round % 3 == 0) setup.emulate_link = 4e9;
    if (setup.unified()) setup.policy.kv.host += std::exchange(setup.policy.kv.device, 0);
    TestSetup ample = without_sharing(setup);
    ample.policy.kv_positions = 0;
    TestEngine alone(tiny(), ample), test(tiny(), setup);
    expect_same(run_all(*test.engine, job()), run_all(*alone.engine, job()));
    const EngineStats stats = test.engine->stats();
    expect_nothing_in_use(stats);
    swaps += stats.swaps - stats.replays;
    shared += stats.shared_prompt_tokens;
  }
  EXPECT_GT(swaps, 0u);
  EXPECT_GT(shared, 30u * kTrees);
}

// Without room on disk for all that is put aside, prompts are computed again, or shared again.
TEST(SlowPrefixSharing, SharesAgainWhatIsComputedAgain) {
  for (const double link : {0., 4e9}) {
    TestSetup setup;
    setup.policy.gpu_batch_size = 8;
    setup.policy.kv_positions = 10;
    setup.emulate_link = link;
    const auto job = [] {
      std::vector<GenerationRequest> requests;
      for (unsigned i = 0; i < 16; ++i) requests.push_back(request(24 + 3 * (i % 2), i, 2, 90));
      return requests;
    };
    TestSetup ample = without_sharing(setup);
    ample.policy.kv_positions = 0;
    TestEngine alone(tiny(), ample), test(tiny(), setup);
    expect_same(run_all(*test.engine, job()), run_all(*alone.engine, job()));
    const EngineStats stats = test.engine->stats();
    EXPECT_GT(stats.replays, 0u);
    EXPECT_GT(stats.shared_prompt_tokens, 15u * 24) << "no replay shared";
    expect_nothing_in_use(stats);
  }
}

TEST(PrefixSharingOfWhatIsComing, GoesOnWhenWhoComputesItIsCancelled) {
  TestSetup setup;
  setup.policy.sweep_tokens = 8;  // many sweeps for the common part
  TestEngine test(tiny(), setup);
  std::promise<FinishReason> first;
  GenerationRequest r = request(90, 1, 5, 30);
  r.max_tokens = 30;  // the longest: enters first
  r.on_done = [&](FinishReason reason, const std::string&) { first.set_value(reason); };
  const auto id = test.engine->submit(std::move(r));
  std::vector<GenerationRequest> others;
  for (unsigned i = 2; i < 6; ++i) others.push_back(request(90, i, 5, 4));
  test.engine->cancel(id);
  for (const TestAnswer& answer : run_all(*test.engine, std::move(others))) {
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.tokens.size(), 4u);
  }
  EXPECT_EQ(first.get_future().get(), FinishReason::kCancelled);
  expect_nothing_in_use(test.engine->stats());
}

}  // namespace
}  // namespace barge
