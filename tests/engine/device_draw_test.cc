// Tokens that a discrete device draws from logits which stay there.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <future>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "engine/buffers.h"
#include "tests/support/forwarding_backend.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

using testing::HasSubstr;

constexpr int kTokens = 7;  // of an answer

const TestModel& tiny() {
  static const TestModel model(tiny_llama_config());
  return model;
}

// Nothing but what is drawn crosses the link upwards.
TestSetup discrete_setup() {
  TestSetup setup;
  setup.emulate_link = 4e9;
  setup.policy.weights = setup.policy.kv = {.device = 1, .host = 0, .disk = 0};
  setup.hash_logits = false;
  return setup;
}

// Requests of one length, each unlike the others, that want nothing but tokens.
std::vector<GenerationRequest> plain_requests(std::size_t count) {
  std::vector<GenerationRequest> requests(count);
  for (std::size_t i = 0; i < count; ++i) {
    GenerationRequest& r = requests[i];
    for (std::size_t t = 0; t < 6; ++t) r.prompt.push_back(static_cast<TokenId>(i * 23 + 7 * t));
    r.max_tokens = kTokens;
    r.ignore_eos = true;
    r.sampling.temperature = std::array{0.0f, 0.7f, 1.5f}[i % 3];
    r.sampling.seed = i;
    if (i % 4 == 1) r.sampling.top_p = 0.8f;
    if (i % 5 == 2) r.sampling.top_k = 20;
  }
  return requests;
}

// Every second one's logits are wanted on the host, for another reason each.
std::vector<GenerationRequest> mixed_requests() {
  std::vector<GenerationRequest> requests = plain_requests(12);
  requests[1].sampling.logprobs = 2;
  requests[3].sampling.frequency_penalty = 0.5f;
  requests[5].sampling.logit_bias = {{17, 9.0f}};
  requests[7].forced = {11, 12};
  requests[9].prompt_logprobs = true;
  requests[11].sampling.presence_penalty = 1;
  return requests;
}

// All are there when their first sweep begins: the end of one before them, that draws nothing,
// holds the engine up until then.
std::vector<TestAnswer> run_together(Engine& engine, std::vector<GenerationRequest> requests) {
  GenerationRequest first;
  first.prompt = {0};
  first.max_tokens = 0;
  std::promise<void> held;
  first.on_done = [&, count = requests.size()](FinishReason, const std::string&) {
    held.set_value();
    while (engine.stats().waiting < count) std::this_thread::yield();
  };
  engine.submit(std::move(first));
  held.get_future().wait();
  return run_all(engine, std::move(requests));
}

std::vector<TestAnswer> run(const TestSetup& setup, std::vector<GenerationRequest> requests) {
  TestEngine test(tiny(), setup);
  return run_together(*test.engine, std::move(requests));
}

void expect_same(const TestAnswer& got, const TestAnswer& want) {
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.ids(), want.ids());
  ASSERT_EQ(got.prompt.size(), want.prompt.size());
  for (std::size_t t = 0; t < want.prompt.size(); ++t)
    EXPECT_EQ(got.prompt[t].logprob, want.prompt[t].logprob);
  for (std::size_t t = 0; t < want.tokens.size(); ++t)
    EXPECT_EQ(got.tokens[t].logprob, want.tokens[t].logprob);
}

TEST(DeviceDraw, GivesTheTokensThatTheHostDraws) {
  if (tests_on_cuda()) GTEST_SKIP() << "a GPU rounds otherwise near the border of two tokens";
  TestSetup setup = discrete_setup();
  const auto drawn_there = run(setup, mixed_requests());
  setup.hash_logits = true;
  const auto drawn_here = run(setup, mixed_requests());
  for (std::size_t i = 0; i < drawn_here.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(drawn_here[i].tokens.size(), kTokens);
    expect_same(drawn_there[i], drawn_here[i]);
  }
}

TEST(DeviceDraw, ARequestsBytesDoNotDependOnItsCompany) {
  TestSetup setup = discrete_setup();
  const auto together = run(setup, mixed_requests());
  std::vector<std::size_t> order(together.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  std::vector<GenerationRequest> shuffled;
  for (const std::size_t i : order) shuffled.push_back(mixed_requests()[i]);
  const auto in_another_order = run(setup, std::move(shuffled));
  setup.policy.gpu_batch_size = setup.policy.num_gpu_batches = 1;
  const auto alone = run(setup, mixed_requests());
  for (std::size_t i = 0; i < order.size(); ++i) {
    SCOPED_TRACE(order[i]);
    ASSERT_EQ(together[i].tokens.size(), kTokens);
    expect_same(alone[i], together[i]);
    expect_same(in_another_order[i], together[order[i]]);
  }
}

TEST(DeviceDraw, OnlyLogitsThatTheHostLooksAtCrossTheLink) {
  const std::size_t row_bytes = padded_row_bytes(tiny_llama_config().vocab, DType::kF32);
  const std::size_t id_bytes = sizeof(std::int32_t);
  TestSetup setup = discrete_setup();
  for (const std::size_t others : {0, 2, 6}) {
    std::vector<GenerationRequest> requests = plain_requests(6);  // one block
    for (std::size_t i = 0; i < others; ++i) requests[2 * i % 6 + i / 3].sampling.logprobs = 0;
    TestEngine test(tiny(), setup);
    for (const TestAnswer& answer : run_together(*test.engine, std::move(requests)))
      EXPECT_EQ(answer.error, "");
    EXPECT_EQ(test.engine->stats().link.up_bytes,
              kTokens * (others * row_bytes + (others < 6 ? 6 * id_bytes : 0)));
  }
}

TEST(DeviceDraw, LogitsThatAreNoNumbersEndTheirOwnRequestOnly) {
  if (tests_on_cuda()) GTEST_SKIP() << "the test spoils logits from the host";
  Budgets budgets(std::size_t{1} << 30, std::size_t{1} << 30, std::size_t{1} << 30);
  ForwardingBackend device(make_reference_backend({.threads = 1, .emulate_link = 4e9}, budgets));
  device.before_draw = [&device](MatrixView logits) {
    device.device().compute().call([logits] {
      if (logits.rows == 6)  // all of them, and so the second request's row
        logits.row_as<float>(1)[200] = std::numeric_limits<float>::quiet_NaN();
    });
  };
  TestSetup setup = discrete_setup();
  setup.device = &device;
  const auto answers = run(setup, plain_requests(6));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].tokens.size(), i == 1 ? 0 : kTokens);
    EXPECT_EQ(answers[i].reason, i == 1 ? FinishReason::kError : FinishReason::kLength);
  }
  EXPECT_THAT(answers[1].error, HasSubstr("no finite numbers"));
}

}  // namespace
}  // namespace barge
