// Inputs of products in 8 bits: how far that moves a model's logits.
#include <gmock/gmock.h>

#include "quant/codec.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

// Logits of 12 positions after one prompt, all given the same tokens.
std::vector<float> logits_of(const TestModel& model, const TestSetup& setup) {
  GenerationRequest request;
  request.prompt = {5, 200, 17, 31, 8, 99, 250};
  request.forced = {4, 8, 15, 16, 23, 42, 4, 8, 15, 16, 23, 42};
  request.max_tokens = static_cast<int>(request.forced.size());
  request.ignore_eos = true;
  TestEngine test(model, setup);
  const auto answers = run_all(*test.engine, {std::move(request)}, /*keep_logits=*/true);
  EXPECT_EQ(answers[0].error, "");
  std::vector<float> all;
  for (const auto& logits : answers[0].logits) all.insert(all.end(), logits.begin(), logits.end());
  return all;
}

// Each product is off by about half a percent (CodeLinearTest), and some ten follow on each other,
// whose errors add up as independent ones do.
TEST(ActivationBits, MoveLogitsByAFewPercentWhereInputsAreRoundedTo8) {
  if (tests_on_cuda()) GTEST_SKIP() << "CUDA takes no notice of activation_bits";
  for (const int weight_bits : {4, 8}) {
    const TestModel model(tiny_grouped_config(), weight_bits);
    const auto in_16 = logits_of(model, {});
    const auto in_8 = logits_of(model, {.activation_bits = 8});
    const auto by_reference = logits_of(model, {.activation_bits = 8, .reference_kernels = true});
    ASSERT_EQ(in_8.size(), 12u * 300u);
    EXPECT_GT(relative_rms_error(in_16, in_8), 1e-3) << weight_bits;
    EXPECT_LT(relative_rms_error(in_16, in_8), 0.03) << weight_bits;
    // A code that lies near the border of two may be rounded to the other one.
    EXPECT_LT(relative_rms_error(by_reference, in_8), 0.005) << weight_bits;
  }
}

TEST(ActivationBits, DontMatterWhereWeightsHave16Bits) {
  const TestModel model(tiny_grouped_config(), 16);
  EXPECT_EQ(logits_of(model, {}), logits_of(model, {.activation_bits = 8}));
}

}  // namespace
}  // namespace barge
