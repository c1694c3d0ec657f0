#include "policy/prediction.h"

#include <gtest/gtest.h>

#include "policy/footprint.h"
#include "policy/placement.h"
#include "tests/policy/sample.h"

namespace barge {
namespace {

Policy block_of(int sequences, int rows) {
  Policy policy;
  policy.gpu_batch_size = sequences;
  policy.sweep_tokens = rows;
  return policy;
}

TEST(Prediction, OfOneBlockIsItsPrefillAndItsDecode) {
  const Prediction p = predict(machine(), model(), {128, 32, 8}, block_of(8, 512));
  // 8 x 128 prompt tokens: 512, 512; the second sweep also decodes the four that are through.
  EXPECT_EQ(p.sweeps, 2 + 1 + 31);
  EXPECT_NEAR(p.generated_tokens_per_s * p.seconds, 8 * 32, 1e-6);
  EXPECT_NEAR(p.total_tokens_per_s * p.seconds, 8 * (128 + 32), 1e-6);
}

TEST(Prediction, OfManyBlocksApproachesTheSteadyState) {
  const Workload job{128, 32, 6400};
  Policy policy = block_of(64, steady_rows(job, 64));
  const Profile profile = machine();
  const SweepPricer pricer(profile, model(), policy);
  const double steady = pricer.seconds(steady_load(job, policy)).longest() / 64;
  EXPECT_NEAR(1 / predict(profile, model(), job, policy).generated_tokens_per_s / steady, 1, 0.05);
}

TEST(Prediction, GoesOnBeyondTheBlocksThatItWalks) {
  const Policy policy = block_of(16, 128);
  const double some = predict(machine(), model(), {100, 20, 16 * 16}, policy).seconds;
  const double many = predict(machine(), model(), {100, 20, 160 * 16}, policy).seconds;
  EXPECT_NEAR(many / some, 10, 0.5);
}

TEST(Prediction, FollowsTheLinesThatItIsGiven) {
  Workload job{100, 20, 64};
  job.lines = {{180, 4}, {20, 36}};
  const Policy policy = block_of(16, 256);
  const Prediction mixed = predict(machine(), model(), job, policy);
  EXPECT_NEAR(mixed.generated_tokens_per_s * mixed.seconds, 64 * 20, 1e-6);
  EXPECT_GT(mixed.sweeps, 36);
  job.lines = {{1, 1}};
  EXPECT_EQ(predict(machine(), model(), {1, 1, 64}, policy).sweeps,
            predict(machine(), model(), job, policy).sweeps);
}

TEST(Prediction, ComputesACommonBeginningOnce) {
  Workload job{730, 16, 1000};
  const Policy policy = block_of(64, 256);
  const double alone = predict(machine(), model(), job, policy).seconds;
  job.shared_prefix = 700;
  const Prediction shared = predict(machine(), model(), job, policy);
  EXPECT_GT(alone / shared.seconds, 3);
  EXPECT_LT(steady_rows(job, 64), steady_rows({730, 16, 1000}, 64) / 5);
  job.shared_prefix = 5000;  // more than there is: one token is always a line's own
  EXPECT_GT(predict(machine(), model(), job, policy).sweeps, 16);
}

TEST(Prediction, NamesWhatMostTimeIsWaitedFor) {
  Policy policy = block_of(8, 128);
  EXPECT_STREQ(predict(machine(), model(), {128, 32, 100}, policy).bottleneck, "compute");
  policy.weights = {0, 0, 1};
  Profile slow = machine();
  slow.disk_read = Curve({{65536, 2e8}});
  const Prediction p = predict(slow, model(), {128, 32, 100}, policy);
  EXPECT_STREQ(p.bottleneck, "disk");
  EXPECT_NEAR(p.sweep.disk_read, static_cast<double>(model().weight_bytes()) / 2e8, 1e-6);
  EXPECT_GE(p.sweep_seconds, p.sweep.disk());
}

TEST(Prediction, NamesTheCpuWhereItsAttentionIsWaitedFor) {
  Profile slow = machine();
  slow.unified = false;
  slow.link_down = slow.link_up = 1e11;
  slow.host_attention[16] = {1e7, 1e12};
  Policy policy = block_of(32, 128);
  policy.cpu_attention = true;
  const Prediction p = predict(slow, model(), {128, 32, 100}, policy);
  EXPECT_STREQ(p.bottleneck, "CPU attention");
  EXPECT_GT(p.sweep.host_attention, p.sweep.compute);
  policy.kv = {1, 0, 0};  // all layers are the device's
  EXPECT_EQ(predict(slow, model(), {128, 32, 100}, policy).sweep.host_attention, 0);
}

}  // namespace
}  // namespace barge
