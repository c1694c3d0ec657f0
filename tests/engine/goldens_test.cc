// Teacher-forced logits against what Hugging Face's transformers computed.
#include "tests/support/goldens.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/test_data.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

const std::filesystem::path kDirectory = test_data() / "goldens";
// f32 and f64 differ by 2e-5 in the tiny models and by 1e-4 in SmolLM2: room for another order of
// summation.
constexpr float kTolerance = 1e-3f;

std::vector<GenerationRequest> forced_requests(const Goldens& goldens) {
  std::vector<GenerationRequest> requests;
  for (const Golden& golden : goldens.sequences) {
    GenerationRequest request;
    request.prompt.assign(golden.prompt.begin(), golden.prompt.end());
    request.forced.assign(golden.tokens.begin(), golden.tokens.end());
    request.max_tokens = static_cast<int>(golden.tokens.size());
    request.ignore_eos = true;
    requests.push_back(std::move(request));
  }
  return requests;
}

// Golden logits may list an id twice; the largest is the list's first or any.
void expect_same(const Golden::Position& golden, const std::vector<float>& logits) {
  double sum = 0, largest = *std::max_element(logits.begin(), logits.end());
  for (const float x : logits) sum += std::exp(x - largest);
  ASSERT_NEAR(largest + std::log(sum), golden.logsumexp, kTolerance);
  std::pair<int, float> first{-1, -INFINITY}, second{-1, -INFINITY};
  for (const auto& [id, logit] : golden.logits) {
    ASSERT_NEAR(logits[static_cast<std::size_t>(id)], logit, kTolerance) << "token " << id;
    if (id == first.first || id == second.first) continue;
    if (logit > first.second)
      second = std::exchange(first, {id, logit});
    else if (logit > second.second)
      second = {id, logit};
  }
  if (first.second - second.second <= kTolerance) return;  // a near tie: either may win
  const auto greedy = std::max_element(logits.begin(), logits.end()) - logits.begin();
  EXPECT_EQ(greedy, first.first);
}

void compare(const Goldens& goldens, const TestModel& model, const TestSetup& setup) {
  ASSERT_EQ(model.family().config().vocab, goldens.vocab);
  TestEngine test(model, setup);
  const auto answers = run_all(*test.engine, forced_requests(goldens), /*keep_logits=*/true);
  for (std::size_t s = 0; s < answers.size(); ++s) {
    ASSERT_EQ(answers[s].reason, FinishReason::kLength) << answers[s].error;
    ASSERT_EQ(answers[s].logits.size(), goldens.sequences[s].positions.size());
    for (std::size_t i = 0; i < answers[s].logits.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "sequence " << s << ", position " << i);
      expect_same(goldens.sequences[s].positions[i], answers[s].logits[i]);
      if (testing::Test::HasFailure()) return;
    }
  }
}

class TinyGoldens : public testing::TestWithParam<std::string> {};

TEST_P(TinyGoldens, LogitsAreThoseOfHuggingFaceInMemory) {
  const Goldens goldens = read_goldens(kDirectory, GetParam());
  compare(goldens, TestModel(goldens.model), {});
}

TEST_P(TinyGoldens, LogitsAreThoseOfHuggingFaceFromDisk) {
  const Goldens goldens = read_goldens(kDirectory, GetParam());
  TestSetup setup;
  setup.policy.weights = setup.policy.kv = {.device = 0.2, .host = 0.3, .disk = 0.5};
  setup.policy.gpu_batch_size = 2;
  setup.policy.sweep_tokens = 17;
  setup.emulate_link = 1e9;
  setup.reference_kernels = true;  // so that both tables are held against it
  compare(goldens, TestModel(goldens.model), setup);
}

TEST_P(TinyGoldens, LogitsAreThoseOfHuggingFaceWhereTheCpuAttends) {
  const Goldens goldens = read_goldens(kDirectory, GetParam());
  TestSetup setup;
  setup.policy.cpu_attention = true;
  setup.policy.weights = setup.policy.kv = {.device = 0, .host = 1, .disk = 0};
  setup.policy.gpu_batch_size = 2;
  setup.policy.num_gpu_batches = 3;
  setup.emulate_link = 1e9;
  compare(goldens, TestModel(goldens.model), setup);
}

std::vector<std::string> tiny_names() {
  std::vector<std::string> names = golden_names(kDirectory);
  std::erase(names, "smollm2");
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, TinyGoldens, testing::ValuesIn(tiny_names()), [](auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST(SmolLm2Goldens, LogitsAreThoseOfHuggingFace) {
  const char* model = std::getenv("BARGE_TEST_MODEL");
  if (model == nullptr)
    GTEST_SKIP() << "BARGE_TEST_MODEL doesn't name SmolLM2's GGUF (scripts/fetch_model)";
  TestSetup setup;
  setup.policy.gpu_batch_size = 12;
  setup.policy.sweep_tokens = 128;
  setup.policy.max_positions = 512;
  setup.policy.weights = setup.policy.kv = {.device = 0, .host = 0.5, .disk = 0.5};
  setup.threads = 2;
  compare(read_goldens(kDirectory, "smollm2"), TestModel(model, /*weight_bits=*/0), setup);
}

}  // namespace
}  // namespace barge
