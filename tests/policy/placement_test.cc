#include "policy/placement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/policy/sample.h"

namespace barge {
namespace {

// A machine, a job and budgets, small and random.
struct Instance {
  Profile profile;
  ModelShape shape = model();
  Workload job;
  TierLimits limits;
  Policy policy;

  explicit Instance(unsigned seed) {
    std::mt19937 random(seed);
    const auto between = [&](double least, double most) {  // as likely in each octave
      return std::exp2(
          std::uniform_real_distribution<double>(std::log2(least), std::log2(most))(random));
    };
    profile = machine();
    profile.unified = random() % 2 == 0;
    profile.link_down = between(1e9, 2e10);
    profile.link_up = between(1e9, 2e10);
    profile.disk_read = Curve({{65536, between(3e8, 6e9)}});
    profile.disk_write = Curve({{65536, between(2e8, 4e9)}});
    for (const int bits : {4, 16}) profile.products[bits] = Curve({{1, between(1e11, 1e13)}});
    for (const int bits : {4, 16})
      profile.host_attention[bits] = {between(2e9, 1e11), between(2e10, 1e12)};
    shape.layers = 4;
    shape.matrices.resize(static_cast<std::size_t>(shape.layers) * 6);
    job = {between(64, 1024), between(8, 128), between(16, 4000)};
    policy.gpu_batch_size = static_cast<int>(between(1, 32));
    policy.num_gpu_batches = 1 << random() % 4;
    policy.sweep_tokens = steady_rows(job, policy.block_sequences());
    policy.kv_positions = static_cast<int>(job.prompt_len + job.gen_len);
    policy.ring_bytes = 8_MiB;
    policy.over_commit = false;
    policy.cpu_attention = random() % 3 == 0;
    limits = {static_cast<std::size_t>(between(6e7, 4e8)),
              static_cast<std::size_t>(between(6e7, 4e8)), 100_GiB};
  }
};

// The time per generated token that the cost model gives a placement, apart from the programme.
double seconds_of(const Instance& at, const Policy& policy) {
  const SweepPricer pricer(at.profile, at.shape, policy);
  const double lines = at.job.num_prompts, s = at.job.prompt_len, n = at.job.gen_len;
  if (!one_block(at.job, policy)) {
    return pricer.seconds(steady_load(at.job, policy)).longest() / policy.block_sequences();
  }
  const double sweeps = std::ceil(lines * s / policy.sweep_tokens), rows = lines * s / sweeps;
  const auto prefill = pricer.seconds({.rows = rows,
                                       .logits = lines / sweeps,
                                       .prompt_keys = rows * s / 2,
                                       .reread_positions = sweeps > 1 ? s / 2 : 0});
  const auto decode = pricer.seconds(
      {.rows = lines, .answers = lines, .logits = lines, .read_positions = lines * (s + n / 2)});
  return (sweeps * prefill.longest() + (n - 1) * decode.longest()) / lines / n;
}

// All shares in steps, whose sum is 1.
std::vector<PerTier<double>> grid(bool unified, int steps) {
  std::vector<PerTier<double>> all;
  for (int device = 0; device <= (unified ? 0 : steps); ++device)
    for (int host = 0; host + device <= steps; ++host)
      all.push_back(
          {1.0 * device / steps, 1.0 * host / steps, 1.0 * (steps - device - host) / steps});
  return all;
}

TEST(Placement, IsTheBestOfAllOnTwoHundredSmallInstances) {
  int placed = 0, attending = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Instance at(seed);
    const auto found =
        place(at.profile, at.shape, at.job, at.limits, at.policy, at.policy.block_sequences());
    const int steps = at.profile.unified ? 40 : 12;
    double best = INFINITY;
    Policy policy = at.policy;
    const auto shares = grid(at.profile.unified, steps);
    for (const PerTier<double>& w : shares)
      for (const PerTier<double>& y : shares) {
        if (at.policy.cpu_attention && y.device > 0) continue;  // which layers would be its?
        policy.weights = w;
        policy.kv = y;
        const Footprint f = footprint(at.shape, policy, at.profile.unified);
        if (f.total(Tier::kHost, at.profile.unified) > at.limits.host ||
            f.total(Tier::kDevice, at.profile.unified) >
                (at.profile.unified ? SIZE_MAX : at.limits.device))
          continue;
        best = std::min(best, seconds_of(at, policy));
      }
    if (!found) {
      // Whole layers and panels may leave room that the programme, with shares, doesn't see.
      EXPECT_EQ(best, INFINITY);
      continue;
    }
    ++placed;
    attending += attends_on_host(at.policy, at.profile.unified);
    EXPECT_NEAR(found->block, at.policy.block_sequences(), 1e-6 * found->block);
    EXPECT_NEAR(found->weights.device + found->weights.host + found->weights.disk, 1, 1e-6);
    EXPECT_NEAR(found->kv.device + found->kv.host + found->kv.disk, 1, 1e-6);
    // It is what the cost model says of it, to what a tie-break may cost...
    policy.weights = found->weights;
    policy.kv = found->kv;
    EXPECT_NEAR(found->seconds_per_token / seconds_of(at, policy), 1, 2e-5);
    // ...and no point of the grid is better. Panels and layers round, by at most a step.
    EXPECT_LE(found->seconds_per_token, best * 1.03);
  }
  EXPECT_GT(placed, 100);
  EXPECT_GT(attending, 15);
}

TEST(Placement, OfMoreMemoryOrBandwidthPromisesNoLess) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Instance at(seed);
    const auto before = place(at.profile, at.shape, at.job, at.limits, at.policy, std::nullopt);
    if (!before) continue;
    const auto expect_no_less = [&](const Profile& profile, const TierLimits& limits) {
      const auto after = place(profile, at.shape, at.job, limits, at.policy, std::nullopt);
      ASSERT_TRUE(after);
      EXPECT_LE(after->seconds_per_token, before->seconds_per_token * 1.002);
    };
    for (std::size_t TierLimits::*tier : {&TierLimits::device, &TierLimits::host}) {
      TierLimits more = at.limits;
      more.*tier = more.*tier * 3 / 2;
      expect_no_less(at.profile, more);
    }
    Profile faster = at.profile;
    faster.disk_read = Curve({{65536, 1.5 * faster.disk_read.most()}});
    expect_no_less(faster, at.limits);
    faster = at.profile;
    faster.link_down *= 1.5;
    expect_no_less(faster, at.limits);
    faster = at.profile;
    for (auto& [bits, rates] : faster.host_attention) rates = {1.5 * rates.bytes, 1.5 * rates.ops};
    expect_no_less(faster, at.limits);
    faster = at.profile;
    for (auto& [bits, rates] : faster.products) rates = Curve({{1, 1.5 * rates.most()}});
    expect_no_less(faster, at.limits);
  }
}

// What a little more brings, by placing again.
TEST(Placement, PricesAreWhatALittleMoreBrings) {
  int priced = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Instance at(seed);
    at.job.num_prompts = 4000;
    // Nobody waits for compute.
    for (auto& [bits, rates] : at.profile.products) rates = Curve({{1, 1e14}});
    for (auto* attention : {&at.profile.decode_attention, &at.profile.host_attention})
      for (auto& [bits, rates] : *attention) rates = {1e13, 1e14};
    at.profile.prefill_attention = at.profile.elementwise = at.profile.draw = 1e14;
    at.profile.call_seconds = 1e-12;
    const double block = at.policy.block_sequences();
    const auto rate_of = [&](const Profile& profile, const TierLimits& limits) {
      const auto placed = place(profile, at.shape, at.job, limits, at.policy, block);
      return placed ? 1 / placed->seconds_per_token : 0;
    };
    const auto found = place(at.profile, at.shape, at.job, at.limits, at.policy, block);
    if (!found) continue;
    const double rate = 1 / found->seconds_per_token;
    const auto expect_price = [&](double price, double step, double there, double back) {
      // Where the placement changes its kind within the step, slopes on both sides differ.
      const double up = (there - rate) / step, down = (rate - back) / step;
      if (std::abs(up - down) > 0.1 * std::abs(up) + 1e-6 * rate) return;
      EXPECT_NEAR(price, (up + down) / 2, 0.06 * std::abs(up) + 1e-4 * rate);
      priced += up > 1e-6 * rate;
    };
    const auto with_memory = [&](std::size_t TierLimits::*tier, double gib) {
      TierLimits limits = at.limits;
      limits.*tier += static_cast<std::ptrdiff_t>(gib * (1 << 30));
      return rate_of(at.profile, limits);
    };
    constexpr double kGib = 2e-4;
    expect_price(found->worth.host_gib, kGib, with_memory(&TierLimits::host, kGib),
                 with_memory(&TierLimits::host, -kGib));
    if (!at.profile.unified)
      expect_price(found->worth.device_gib, kGib, with_memory(&TierLimits::device, kGib),
                   with_memory(&TierLimits::device, -kGib));
    const auto with_disk = [&](double factor) {
      Profile profile = at.profile;
      profile.disk_read = Curve({{65536, factor * profile.disk_read.most()}});
      profile.disk_write = Curve({{65536, factor * profile.disk_write.most()}});
      return rate_of(profile, at.limits);
    };
    expect_price(found->worth.disk_gbps, 0.001 * at.profile.disk_read.most() / 1e9,
                 with_disk(1.001), with_disk(0.999));
  }
  EXPECT_GT(priced, 30);
}

TEST(Placement, HasABlockAsLargeAsMemoryAllows) {
  Profile profile = machine();
  const ModelShape shape = model();
  Workload job{128, 32, 100000};
  Policy policy;
  policy.kv_positions = 160;
  policy.ring_bytes = 8_MiB;
  policy.over_commit = false;
  const auto found = place(profile, shape, job, {0, 800_MiB, 100_GiB}, policy, std::nullopt);
  ASSERT_TRUE(found);
  policy.gpu_batch_size = static_cast<int>(found->block);
  policy.sweep_tokens = steady_rows(job, policy.gpu_batch_size);
  policy.weights = found->weights;
  policy.kv = found->kv;
  const Footprint f = footprint(shape, policy, true);
  EXPECT_NEAR(static_cast<double>(f.total(Tier::kHost, true)), 800.0 * 1_MiB, 20.0 * 1_MiB);
}

TEST(Placement, IsNothingWhereBuffersAloneAreTooLarge) {
  EXPECT_FALSE(place(machine(), model(), {128, 32, 1000}, {0, 1_MiB, 100_GiB}, {}, 8));
  EXPECT_FALSE(place(machine(), model(), {128, 32, 1000}, {0, 1_MiB, 100_GiB}, {}, std::nullopt));
  EXPECT_FALSE(place(machine(), model(), {128, 32, 1000}, {0, 10_GiB, 1_MiB}, {}, 8));
}

}  // namespace
}  // namespace barge
