#include "probe/limits.h"

#include <gmock/gmock.h>

#include "core/errors.h"
#include "probe/sweep_limits.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

// Two layers of one matrix of 100 x 50 numbers, the first on disk; 1000 tokens.
ModelShape model() {
  ModelShape shape{.layers = 2, .hidden = 50, .heads = 2, .kv_heads = 1, .head_dim = 25};
  shape.vocab = 1000;
  shape.kv_record_bytes = 64;
  for (int layer = 0; layer < 2; ++layer)
    shape.matrices.push_back(
        {.name = "m", .part = layer, .rows = 100, .cols = 50, .panel_bytes = {4096}});
  shape.matrices.push_back(
      {.name = "output", .part = 2, .rows = 1000, .cols = 50, .panel_bytes = {8192, 8192}});
  shape.matrices.push_back({.name = "embedding",
                            .rows = 1000,
                            .cols = 50,
                            .panel_bytes = {16384},
                            .table = true,
                            .visited = false});
  return shape;
}

constexpr double kOps = 1e9;

MachineLimits machine() {
  return {.matrix_ops = {{50, kOps}}, .memory_read = 0, .disk_read = 1e6, .disk_write = 5e5};
}

Policy everything_on(Tier tier) {
  Policy policy;
  policy.weights = {0, 0, 0};
  policy.weights[tier] = 1;
  return policy;
}

TEST(SweepLimits, CountsLayersByRowsTheOutputByLogitsAndAttentionByKeys) {
  const SweepLimits limits(machine(), model(), everything_on(Tier::kHost), /*unified=*/true);
  const SweepRecord sweep{.prompt_rows = 6, .answer_rows = 1, .logit_rows = 3, .keys = 10};
  const double ops = 7 * 2 * (2 * 100 * 50) + 3 * 2 * (1000 * 50) + 10 * 4 * 2 * 25 * 2;
  EXPECT_DOUBLE_EQ(limits.operations(sweep), ops);
  EXPECT_DOUBLE_EQ(limits.of(sweep).compute, ops / kOps);
  EXPECT_EQ(limits.of(sweep).disk, 0);
  EXPECT_EQ(limits.of(sweep).bottleneck(), "compute");
}

TEST(SweepLimits, ReadsWeightsOfTheDiskOnceAndTablesNotAtAll) {
  const SweepLimits limits(machine(), model(), everything_on(Tier::kDisk), /*unified=*/true);
  const SweepRecord sweep{.answer_rows = 1, .kv_read_bytes = 1000, .kv_written_bytes = 500};
  EXPECT_DOUBLE_EQ(limits.of(sweep).disk, (2 * 4096 + 2 * 8192 + 1000) / 1e6 + 500 / 5e5);
  EXPECT_DOUBLE_EQ(limits.of(sweep).longest(), limits.of(sweep).disk);
  EXPECT_EQ(limits.of(sweep).bottleneck(), "disk");
}

TEST(SweepLimits, ReadsAllWeightsAndTheAnswersKeysFromMemory) {
  MachineLimits fast = machine();
  fast.memory_read = 1e3;
  const SweepLimits limits(fast, model(), everything_on(Tier::kHost), /*unified=*/true);
  const SweepRecord sweep{.answer_rows = 1, .read_positions = 5};
  EXPECT_DOUBLE_EQ(limits.of(sweep).memory, (2 * 4096 + 2 * 8192 + 5 * 64 * 2) / 1e3);
  EXPECT_EQ(limits.of(sweep).bottleneck(), "memory");
}

TEST(SweepLimits, TakesTheBusierDirectionOfTheLink) {
  MachineLimits linked = machine();
  linked.link_down = 1e3;
  linked.link_up = 1e2;
  const SweepLimits limits(linked, model(), everything_on(Tier::kHost), /*unified=*/false);
  EXPECT_DOUBLE_EQ(limits.of({.kv_down_bytes = 24, .kv_up_bytes = 10}).link,
                   (2 * 4096 + 2 * 8192 + 24) / 1e3);
  EXPECT_DOUBLE_EQ(limits.of({.kv_up_bytes = 10000}).link, 100);
}

TEST(MachineLimits, FallsBackOnTheBestRateForInputsThatWerentMeasured) {
  const MachineLimits limits{.matrix_ops = {{64, 1e9}, {128, 2e9}}};
  EXPECT_EQ(limits.matrix_ops_of(64), 1e9);
  EXPECT_EQ(limits.matrix_ops_of(100), 2e9);
}

TEST(MachineLimits, HoldAttentionAgainstProductsIn16Bits) {
  MachineLimits machine{.matrix_ops = {{64, 4e9}}, .matrix_ops_in_16_bits = {{64, 2e9}}};
  const SweepLimits in_8_bits(machine, model(), everything_on(Tier::kHost), /*unified=*/true);
  const SweepLimits in_16_bits(machine.in_16_bits(), model(), everything_on(Tier::kHost),
                               /*unified=*/true);
  EXPECT_EQ(in_8_bits.of({.keys = 100}).compute, in_16_bits.of({.keys = 100}).compute);
  EXPECT_EQ(2 * in_8_bits.of({.prompt_rows = 100}).compute,
            in_16_bits.of({.prompt_rows = 100}).compute);
  machine.matrix_ops_in_16_bits.clear();
  EXPECT_EQ(machine.in_16_bits().best_matrix_ops(), 4e9);
}

TEST(MachineLimits, AreMeasuredInAMoment) {
  const test::TempDirectory directory;
  const std::vector<std::int64_t> inputs{64, 96};
  for (const int activation_bits : {16, 8}) {
    const auto ops = measure_matrix_ops(DType::kF32, activation_bits, 2, inputs, 0.02);
    EXPECT_GT(ops.at(64), 1e7);
    EXPECT_GT(ops.at(96), 1e7);
  }
  EXPECT_GT(measure_memory_read(2, 0.01), 1e7);
  EXPECT_GT(measure_disk_write(directory.path(), 0.05), 1e5);
}

TEST(MachineLimits, SayWhichDiskCouldNotBeMeasured) {
  EXPECT_THAT([] { measure_disk_write("/nowhere", 0.01); },
              testing::ThrowsMessage<IoError>(testing::HasSubstr("/nowhere")));
}

}  // namespace
}  // namespace barge
