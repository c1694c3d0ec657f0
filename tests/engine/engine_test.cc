#include "engine/engine.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>

#include "core/bytes.h"
#include "core/errors.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const TestModel& tiny() {
  static const TestModel model(tiny_llama_config());
  return model;
}

GenerationRequest request(std::vector<TokenId> prompt, int max_tokens) {
  GenerationRequest r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  r.sampling.temperature = 0;
  return r;
}

TestAnswer run_one(Engine& engine, GenerationRequest r) {
  std::vector<GenerationRequest> one;
  one.push_back(std::move(r));
  return std::move(run_all(engine, std::move(one)).front());
}

TEST(Engine, GivesAsManyTokensAsWereAskedForAndCountsThem) {
  TestEngine test(tiny());
  const TestAnswer answer = run_one(*test.engine, request({1, 2, 3}, 7));
  EXPECT_EQ(answer.reason, FinishReason::kLength);
  EXPECT_EQ(answer.tokens.size(), 7u);
  const EngineStats stats = test.engine->stats();
  EXPECT_EQ(stats.prompt_tokens, 3u);
  EXPECT_EQ(stats.generated_tokens, 7u);
  EXPECT_EQ(stats.sweeps, 7u);
  EXPECT_EQ(test.engine->failure(), "");
}

TEST(Engine, EndsAtAnEndTokenUnlessItIsToldToIgnoreIt) {
  TestEngine free(tiny());
  const auto ids = run_one(*free.engine, request({1, 2, 3}, 8)).ids();
  TestSetup setup;
  setup.eos = {ids[3]};
  const auto first = std::find(ids.begin(), ids.end(), ids[3]) - ids.begin();
  TestEngine ending(tiny(), setup);
  GenerationRequest r = request({1, 2, 3}, 8);
  EXPECT_EQ(run_one(*ending.engine, std::move(r)).tokens.size(), 8u);
  r = request({1, 2, 3}, 8);
  r.ignore_eos = false;
  const TestAnswer answer = run_one(*ending.engine, std::move(r));
  EXPECT_EQ(answer.reason, FinishReason::kStop);
  EXPECT_EQ(answer.ids().back(), ids[3]);  // reported, as vLLM counts it
  EXPECT_EQ(answer.tokens.size(), static_cast<std::size_t>(first) + 1);
}

TEST(Engine, EndsWhereTheCallbackSaysSo) {
  TestEngine test(tiny());
  std::promise<FinishReason> end;
  GenerationRequest r = request({5}, 100);
  int tokens = 0;
  r.on_token = [&tokens](const SampledToken&) { return ++tokens < 4; };
  r.on_done = [&end](FinishReason reason, const std::string&) { end.set_value(reason); };
  test.engine->submit(std::move(r));
  EXPECT_EQ(end.get_future().get(), FinishReason::kStop);
  EXPECT_EQ(tokens, 4);
}

TEST(Engine, AThrowingCallbackEndsItsOwnRequestOnly) {
  TestEngine test(tiny());
  std::promise<std::string> end;
  GenerationRequest bad = request({5}, 100);
  bad.on_token = [](const SampledToken&) -> bool { throw std::runtime_error("no more paper"); };
  bad.on_done = [&end](FinishReason reason, const std::string& error) {
    end.set_value(reason == FinishReason::kError ? error : "no error");
  };
  test.engine->submit(std::move(bad));
  EXPECT_EQ(run_one(*test.engine, request({1, 2, 3}, 9)).tokens.size(), 9u);
  EXPECT_EQ(end.get_future().get(), "no more paper");
  EXPECT_EQ(test.engine->failure(), "");
}

// When a short urgent request ends that comes after so many others: its place, from 0.
std::ptrdiff_t place_of_urgent(Engine& engine, int others, int max_tokens) {
  std::mutex mutex;
  std::vector<bool> ends;  // whether the urgent one was it
  std::promise<void> all;
  for (int i = 0; i <= others; ++i) {
    const bool urgent = i == others;
    GenerationRequest r = request({5, 1 + i % 200}, urgent ? 3 : max_tokens);
    r.urgent = urgent;
    r.on_done = [&, urgent](FinishReason, const std::string&) {
      const std::lock_guard lock(mutex);
      ends.push_back(urgent);
      if (ends.size() == static_cast<std::size_t>(others) + 1) all.set_value();
    };
    engine.submit(std::move(r));
  }
  all.get_future().wait();
  const std::lock_guard lock(mutex);  // the last callback is through with it
  return std::find(ends.begin(), ends.end(), true) - ends.begin();
}

TEST(Engine, AnswersUrgentRequestsBeforeThoseThatWait) {
  TestEngine test(tiny());
  EXPECT_LT(place_of_urgent(*test.engine, 400, 20), 200);
}

TEST(Engine, KeepsReservedPlacesOfItsBlockForUrgentRequests) {
  TestSetup setup;
  setup.reserved_sequences = 2;
  TestEngine test(tiny(), setup);
  EXPECT_EQ(place_of_urgent(*test.engine, 12, 100), 0);
}

TEST(Engine, ScoresAPromptWithoutAnsweringIt) {
  TestEngine test(tiny());
  std::vector<TokenId> prompt;
  for (int i = 0; i < 45; ++i) prompt.push_back((i * 37) % 300);
  GenerationRequest scored = request(prompt, 0);
  scored.prompt_logprobs = true;
  scored.sampling.logprobs = 3;
  const TestAnswer answer = run_one(*test.engine, std::move(scored));
  EXPECT_EQ(answer.reason, FinishReason::kLength);
  EXPECT_TRUE(answer.tokens.empty());
  ASSERT_EQ(answer.prompt.size(), 44u);
  // Forced generation from the first token on sees the same logits up to the rounding of prefill
  // against decode attention: 1e-4 is far above f32's and far below what a shift by one would do.
  GenerationRequest forced = request({prompt[0]}, 44);
  forced.forced.assign(prompt.begin() + 1, prompt.end());
  forced.sampling.logprobs = 3;
  const TestAnswer stepwise = run_one(*test.engine, std::move(forced));
  for (std::size_t i = 0; i < 44; ++i) {
    EXPECT_EQ(answer.prompt[i].id, prompt[i + 1]);
    EXPECT_EQ(answer.prompt[i].top.size(), 3u);
    EXPECT_NEAR(answer.prompt[i].logprob, stepwise.tokens[i].logprob, 1e-4) << i;
  }
}

TEST(Engine, EndsAPromptThatWantsNothing) {
  TestEngine test(tiny());
  const TestAnswer answer = run_one(*test.engine, request({1, 2, 3}, 0));
  EXPECT_EQ(answer.reason, FinishReason::kLength);
  EXPECT_TRUE(answer.tokens.empty());
}

TEST(Engine, ReplaysForcedTokensAsIfItHadSampledThem) {
  TestEngine test(tiny());
  GenerationRequest r = request({9, 8, 7}, 20);
  r.sampling.temperature = 2;
  r.sampling.seed = 77;
  GenerationRequest replay = r;
  const TestAnswer first = run_one(*test.engine, std::move(r));
  const auto ids = first.ids();
  replay.forced.assign(ids.begin(), ids.begin() + 11);
  const TestAnswer second = run_one(*test.engine, std::move(replay));
  EXPECT_EQ(second.ids(), ids);
  EXPECT_EQ(second.hash(), first.hash());
}

TEST(Engine, RefusesWhatCanNeverRunAndNamesTheNumbers) {
  TestEngine test(tiny());
  Engine& engine = *test.engine;
  EXPECT_EQ(engine.max_positions(), 128);
  EXPECT_THAT([&] { engine.submit(request({}, 1)); },
              ThrowsMessage<RequestError>(HasSubstr("no tokens")));
  EXPECT_THAT(
      [&] {
        engine.submit(request({1, 300}, 1));
      },
      ThrowsMessage<RequestError>(testing::AllOf(HasSubstr("300"), HasSubstr("vocabulary"))));
  EXPECT_THAT([&] { engine.submit(request({-1}, 1)); }, testing::Throws<RequestError>());
  EXPECT_THAT([&] { engine.submit(request(std::vector<TokenId>(100, 1), 29)); },
              ThrowsMessage<RequestError>(testing::AllOf(HasSubstr("128"), HasSubstr("129"))));
  GenerationRequest biased = request({1}, 1);
  biased.sampling.logit_bias[300] = 1;
  EXPECT_THAT([&] { engine.submit(std::move(biased)); }, testing::Throws<RequestError>());
  GenerationRequest cold = request({1}, 1);
  cold.sampling.temperature = -1;
  EXPECT_THAT([&] { engine.submit(std::move(cold)); }, testing::Throws<RequestError>());
  EXPECT_EQ(run_one(engine, request(std::vector<TokenId>(100, 1), 28)).tokens.size(), 28u);
}

TEST(Engine, RefusesASweepThatHasNoRowForEachSequence) {
  TestSetup setup;
  setup.policy.sweep_tokens = 5;  // of six sequences
  EXPECT_THAT([&] { TestEngine(tiny(), setup); },
              ThrowsMessage<ConfigError>(testing::AllOf(HasSubstr("5"), HasSubstr("6"))));
}

TEST(Engine, RunsMoreRequestsThanTheBlockHasRoomForInTurn) {
  TestEngine test(tiny());
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(request({i, i + 1}, 1 + i));
  const auto answers = run_all(*test.engine, std::move(requests));
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(answers[i].tokens.size(), 1 + i);
  const EngineStats stats = test.engine->stats();
  EXPECT_EQ(stats.finished, 20u);
  EXPECT_EQ(stats.running + stats.waiting, 0u);
}

TEST(Engine, TakesRequestsWhileOthersRun) {
  TestEngine test(tiny());
  std::promise<void> ends[2];
  std::vector<TokenId> late;
  GenerationRequest first = request({1}, 60);
  int tokens = 0;
  first.on_token = [&](const SampledToken&) {
    if (++tokens == 10) {
      GenerationRequest second = request({2}, 5);
      second.on_token = [&](const SampledToken& token) {
        late.push_back(token.id);
        EXPECT_LT(tokens, 60) << "the second waited for the first to end";
        return true;
      };
      second.on_done = [&](FinishReason, const std::string&) { ends[1].set_value(); };
      test.engine->submit(std::move(second));
    }
    return true;
  };
  first.on_done = [&](FinishReason, const std::string&) { ends[0].set_value(); };
  test.engine->submit(std::move(first));
  for (auto& end : ends) end.get_future().wait();
  EXPECT_EQ(late, run_one(*test.engine, request({2}, 5)).ids());
}

TEST(Engine, CancelsWhatRunsAndWhatWaits) {
  TestSetup setup;
  setup.policy.gpu_batch_size = setup.policy.num_gpu_batches = 1;
  TestEngine test(tiny(), setup);
  std::promise<FinishReason> ends[2];
  std::promise<Engine::RequestId> ids[2];
  auto first_id = ids[0].get_future().share(), second_id = ids[1].get_future().share();
  GenerationRequest first = request({1}, 120), second = request({2}, 3);
  first.on_token = [&](const SampledToken&) {
    test.engine->cancel(second_id.get());  // waits behind the first
    test.engine->cancel(first_id.get());
    test.engine->cancel(12345);
    return true;
  };
  first.on_done = [&](FinishReason reason, const std::string&) { ends[0].set_value(reason); };
  second.on_done = [&](FinishReason reason, const std::string&) { ends[1].set_value(reason); };
  ids[0].set_value(test.engine->submit(std::move(first)));
  ids[1].set_value(test.engine->submit(std::move(second)));
  EXPECT_EQ(ends[0].get_future().get(), FinishReason::kCancelled);
  EXPECT_EQ(ends[1].get_future().get(), FinishReason::kCancelled);
  EXPECT_EQ(run_one(*test.engine, request({1}, 4)).tokens.size(), 4u);
}

TEST(Engine, EndsWhatRunsAsCancelledWhenItIsDestroyed) {
  std::vector<FinishReason> reasons;
  std::promise<void> running;
  bool told = false;
  {
    TestEngine test(tiny());
    for (int i = 0; i < 8; ++i) {
      GenerationRequest r = request({i}, 127);
      r.on_token = [&](const SampledToken&) {
        if (!std::exchange(told, true)) running.set_value();
        return true;
      };
      r.on_done = [&](FinishReason reason, const std::string&) { reasons.push_back(reason); };
      test.engine->submit(std::move(r));
    }
    running.get_future().wait();
  }
  EXPECT_EQ(reasons.size(), 8u);
  EXPECT_THAT(reasons, testing::Contains(FinishReason::kCancelled));
}

TEST(Engine, AFlippedByteOnDiskEndsAllRequestsWithTheTensorsName) {
  const TestModel model(tiny_llama_config());
  const PackTensor& tensor =
      model.pack().tensors()[static_cast<std::size_t>(model.pack().find("layers.1.down"))];
  const PackPanel& panel = tensor.panels.front();
  {
    std::fstream file(model.pack().file(panel.file).path(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(panel.offset) + 77);
    const char flipped = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(panel.offset) + 77);
    file.put(flipped);
  }
  TestSetup setup;
  setup.policy.weights = {.device = 0, .host = 0, .disk = 1};
  TestEngine test(model, setup);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 9; ++i) requests.push_back(request({i}, 5));
  for (const TestAnswer& answer : run_all(*test.engine, std::move(requests))) {
    EXPECT_EQ(answer.reason, FinishReason::kError);
    EXPECT_THAT(answer.error, HasSubstr("layers.1.down"));
  }
  EXPECT_THAT(test.engine->failure(), HasSubstr("layers.1.down"));
  EXPECT_EQ(run_one(*test.engine, request({1}, 2)).reason, FinishReason::kError);
}

TEST(Engine, NamesTheDirectoryThatCannotHoldTheKvCache) {
  TestSetup setup;
  setup.policy.kv = {.device = 0, .host = 0.5, .disk = 0.5};
  setup.disk_directory = tiny().directory() / "absent";
  EXPECT_THAT([&] { TestEngine(tiny(), setup); }, ThrowsMessage<IoError>(HasSubstr("absent")));
}

TEST(Engine, AllocatesWhatTheFootprintSays) {
  struct Case {
    double link;
    PerTier<double> weights, kv;
    bool cpu_attention = false;
  };
  for (const Case& c :
       {Case{0, {0, 1, 0}, {0, 1, 0}}, Case{0, {0, 0.5, 0.5}, {0, 0.5, 0.5}},
        Case{0, {0, 0, 1}, {0, 1, 0}}, Case{1e9, {1, 0, 0}, {1, 0, 0}},
        Case{1e9, {0.25, 0.25, 0.5}, {0.25, 0.25, 0.5}}, Case{1e9, {0, 1, 0}, {0, 1, 0}},
        Case{1e9, {0, 0, 1}, {0, 0, 1}}, Case{1e9, {0, 0.5, 0.5}, {0, 1, 0}, true},
        Case{1e9, {0.25, 0.25, 0.5}, {0.5, 0.25, 0.25}, true}}) {
    TestSetup setup;
    setup.emulate_link = c.link;
    setup.policy.weights = c.weights;
    setup.policy.kv = c.kv;
    setup.policy.cpu_attention = c.cpu_attention;
    setup.reference_kernels = false;
    TestEngine test(tiny(), setup);
    const KernelLimits limits = kernel_limits(tiny().family(), setup.policy, DType::kF32);
    ModelShape shape = shape_of(
        tiny().family(), [](const TensorSpec&) { return WeightFormat{.encoding = Encoding::kF32}; },
        32, 64, limits, test.backend->workspace_bytes(limits));
    shape.attention_workspace_bytes = attention_workspace_bytes(tiny().family().config(), 1);
    const bool unified = setup.unified();
    const Footprint planned = footprint(shape, setup.policy, unified);
    for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
      const std::size_t plan = planned.total(tier, unified);
      std::string tags = concat("link ", c.link, ", weights on host ", c.weights.host, ": ");
      for (const auto& [tag, bytes] : test.budgets[tier].by_tag())
        tags += concat(tag, " ", bytes, ", ");
      EXPECT_EQ(test.budgets[tier].used(), plan) << tags;
    }
  }
}

// A KV cache with room for a few of the block's sequences at their full length.
TEST(Engine, NeverOverflowsAKvCacheThatIsTooSmallForTheBlock) {
  TestSetup setup;
  setup.policy.gpu_batch_size = 8;
  setup.policy.kv_positions = 24;
  setup.policy.kv = {.device = 0, .host = 0.5, .disk = 0.5};
  TestEngine test(tiny(), setup);
  std::mt19937 random(3);
  std::vector<GenerationRequest> requests;
  std::vector<std::size_t> wanted;
  for (int i = 0; i < 40; ++i) {
    const int prompt = 1 + static_cast<int>(random() % 60);
    wanted.push_back(1 + random() % 60);
    requests.push_back(request(std::vector<TokenId>(static_cast<std::size_t>(prompt), i),
                               static_cast<int>(wanted.back())));
  }
  const auto answers = run_all(*test.engine, std::move(requests));
  for (std::size_t i = 0; i < answers.size(); ++i)
    EXPECT_EQ(answers[i].tokens.size(), wanted[i]) << answers[i].error;
  EXPECT_EQ(test.engine->failure(), "");
}

}  // namespace
}  // namespace barge
