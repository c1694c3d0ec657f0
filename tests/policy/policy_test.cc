#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/bytes.h"
#include "core/errors.h"
#include "policy/footprint.h"
#include "policy/lp.h"
#include "policy/search.h"
#include "tests/policy/sample.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const ShapeFor kShape = [](const Policy&) { return model(); };
const Workload kJob{128, 32, 1000};

TEST(LinearProgram, FindsTheOptimumAndItsPrices) {
  LinearProgram lp;  // max 3x + 2y, x + y <= 4, x + 3y <= 6
  const int x = lp.add_variable("x", -3), y = lp.add_variable("y", -2);
  const int row = lp.add_at_most("sum", {{x, 1}, {y, 1}}, 4);
  lp.add_at_most("other", {{x, 1}, {y, 3}}, 6);
  const auto s = lp.solve();
  ASSERT_EQ(s.status, LinearProgram::Status::kOptimal);
  EXPECT_NEAR(s.objective, -12, 1e-9);
  EXPECT_NEAR(s.x[static_cast<std::size_t>(x)], 4, 1e-9);
  EXPECT_NEAR(s.prices[static_cast<std::size_t>(row)], -3, 1e-9);
}

TEST(LinearProgram, TellsInfeasibleFromUnbounded) {
  LinearProgram none;
  const int x = none.add_variable("x", 1);
  none.add_at_most("below zero", {{x, 1}}, -1);
  EXPECT_EQ(none.solve().status, LinearProgram::Status::kInfeasible);
  LinearProgram endless;
  const int y = endless.add_variable("y", -1);
  endless.add_at_most("no bound", {{y, -1}}, 0);
  EXPECT_EQ(endless.solve().status, LinearProgram::Status::kUnbounded);
}

TEST(PanelHomes, KeepEveryPrefixOfTheSweepWithinTwoPanelsOfTheShares) {
  const ModelShape shape = model();
  for (const PerTier<double> share : {PerTier<double>{0.2, 0.5, 0.3}, PerTier<double>{0, 0.4, 0.6},
                                      PerTier<double>{0, 1, 0}, PerTier<double>{0.01, 0, 0.99}}) {
    const auto homes = panel_homes(shape, share);
    PerTier<double> have;
    double all = 0;
    for (std::size_t m = 0; m < homes.size(); ++m) {
      ASSERT_EQ(homes[m].size(), shape.matrices[m].panel_bytes.size());
      EXPECT_TRUE(std::is_sorted(homes[m].begin(), homes[m].end()));
      for (std::size_t p = 0; p < homes[m].size(); ++p) {
        const auto bytes = static_cast<double>(shape.matrices[m].panel_bytes[p]);
        have[homes[m][p]] += bytes;
        all += bytes;
      }
      for (const Tier t : kTiers)
        EXPECT_LE(std::abs(have[t] - share[t] * all), 2.0 * 1_MiB) << m << name_of(t);
    }
  }
}

TEST(Footprint, CountsAUnifiedDeviceAsHostMemory) {
  Policy policy;
  policy.weights = {0, 0.4, 0.6};
  policy.kv = {0, 0.5, 0.5};
  policy.gpu_batch_size = 4;
  const Footprint f = footprint(model(), policy, true);
  EXPECT_EQ(f.total(Tier::kDevice, true), 0u);
  EXPECT_EQ(f.total(Tier::kHost, true),
            f.total(Tier::kDevice, false) + f.total(Tier::kHost, false));
  EXPECT_EQ(f.weights.host + f.weights.disk, model().weight_bytes());
  EXPECT_GT(f.weight_ring, 0u);
  EXPECT_GT(f.kv_staging, 0u);
}

TEST(Footprint, NeedsNoRingAndNoStagingWhereNothingMoves) {
  Policy policy;
  const Footprint f = footprint(model(), policy, true);
  EXPECT_EQ(f.weight_ring, 0u);
  EXPECT_EQ(f.kv_staging, 0u);
}

TEST(Footprint, HasDiskRoomForSequencesPutAsideWhereTheyCanOutgrowThePlan) {
  Policy policy;
  policy.gpu_batch_size = 4;
  policy.kv = {0.25, 0.5, 0.25};
  EXPECT_EQ(footprint(model(), policy, false).kv_swap, 0u);  // planned at their longest
  policy.kv_positions = policy.max_positions / 2;
  const Footprint f = footprint(model(), policy, false);
  EXPECT_EQ(f.kv_swap, f.kv.device + f.kv.host + f.kv.disk);
  EXPECT_EQ(f.total(Tier::kDisk, false), f.pack + f.kv.disk + f.kv_swap);
  policy.over_commit = false;
  const Footprint exact = footprint(model(), policy, false);
  EXPECT_EQ(exact.kv_swap, 0u);
  EXPECT_EQ(exact.total(Tier::kHost, false), f.total(Tier::kHost, false));
}

TEST(Footprint, StagesPagesPutAsideByADiscreteDeviceInTheHost) {
  Policy policy;
  policy.kv = {1, 0, 0};
  EXPECT_EQ(footprint(model(), policy, false).kv_host_staging, 0u);
  policy.kv_positions = 100;
  EXPECT_GT(footprint(model(), policy, false).kv_host_staging, page_bytes(model(), policy));
  EXPECT_EQ(footprint(model(), policy, true).kv_host_staging, 0u);
  policy.kv = {0, 1, 0};  // they go from where they are
  EXPECT_EQ(footprint(model(), policy, false).kv_host_staging, 0u);
}

TEST(Footprint, HoldsALegInTheRingWhereTheCpuAttends) {
  ModelShape shape = model();
  for (ModelShape::Matrix& matrix : shape.matrices) matrix.leg = (matrix.part + 1) / 2;
  shape.matrices.back().leg = -1;  // the whole block goes through at once
  Policy policy;
  policy.weights = {0, 0.5, 0.5};
  const Footprint off = footprint(shape, policy, false);
  policy.cpu_attention = true;
  const Footprint on = footprint(shape, policy, false);
  // A leg is what follows attention in one layer and precedes it in the next: twice 3 + 5 + 6
  // panels of 1 MiB, the last of each matrix half as large.
  EXPECT_EQ(on.weight_ring - off.weight_ring, 2 * (3 + 5 + 6) * 1_MiB - 6 * 512_KiB);
  EXPECT_EQ(on.weight_staging, off.weight_staging);
  EXPECT_EQ(footprint(shape, policy, true).weight_ring,
            footprint(shape, {}, true).weight_ring + off.weight_ring);  // unified: no legs
  policy.weights = {0.5, 0.25, 0.25};
  const Footprint half = footprint(shape, policy, false);
  const std::size_t leg = half.weight_ring - off.weight_ring;
  EXPECT_NEAR(static_cast<double>(leg), 12.5 * 1_MiB, 3.0 * 1_MiB);
}

TEST(Footprint, PlansWhatTheCpuWantsForAttention) {
  ModelShape shape = model();
  shape.attention_bytes_per_row = 70000;
  shape.projected_bytes_per_row = 10000;
  shape.attended_bytes_per_row = 4096;
  shape.attention_workspace_bytes = 3_MiB;
  Policy policy;
  policy.gpu_batch_size = 8;
  policy.num_gpu_batches = 2;
  policy.sweep_tokens = 100;
  const Footprint off = footprint(shape, policy, false);
  policy.cpu_attention = true;
  const Footprint on = footprint(shape, policy, false);
  EXPECT_EQ(off.scratch, round_up(100 * 70000, 4096));
  EXPECT_EQ(on.scratch, round_up(100 * 60000, 4096));
  EXPECT_EQ(on.projected, round_up(100 * 10000, 4096));
  EXPECT_EQ(on.attention_rows, round_up(16 * 14096, 4096));
  EXPECT_EQ(on.attention_workspace, 3_MiB);
  EXPECT_EQ(off.projected + off.attention_rows + off.attention_workspace, 0u);
  EXPECT_LT(on.kv_staging, off.kv_staging);  // of prompts alone
  EXPECT_EQ(on.total(Tier::kHost, false) - off.total(Tier::kHost, false),
            on.attention_rows + on.attention_workspace);
}

TEST(KvShares, GiveTheDeviceWholeLayersWhereTheCpuAttends) {
  Policy policy;
  policy.kv = {0.35, 0.45, 0.2};
  EXPECT_EQ(kv_shares(policy, 8, false), policy.kv);
  policy.cpu_attention = true;
  EXPECT_EQ(kv_shares(policy, 8, true), policy.kv);
  EXPECT_EQ(device_attention_layers(policy, 8), 2);
  const PerTier<double> met = kv_shares(policy, 8, false);
  EXPECT_DOUBLE_EQ(met.device, 0.25);
  EXPECT_NEAR(met.host / met.disk, 0.45 / 0.2, 1e-9);
  EXPECT_DOUBLE_EQ(met.device + met.host + met.disk, 1);
  policy.kv = {0.3, 0, 0.7};
  EXPECT_EQ(kv_shares(policy, 8, false), (PerTier<double>{0.25, 0, 0.75}));
  policy.kv = {1, 0, 0};
  EXPECT_EQ(device_attention_layers(policy, 3), 3);
  EXPECT_EQ(kv_shares(policy, 3, false), policy.kv);
}

TEST(Search, DoesWithoutRoomForSwappingWhereTheDiskHasNone) {
  const std::size_t pack = footprint(model(), {}, true).pack;
  const Plan roomy = search(machine(), kShape, kJob, {0, 16_GiB, 100_GiB}, {});
  EXPECT_TRUE(roomy.policy.over_commit);
  EXPECT_GT(roomy.footprint.kv_swap, 0u);
  const Plan tight = search(machine(), kShape, kJob, {0, 16_GiB, pack}, {});
  EXPECT_FALSE(tight.policy.over_commit);
  EXPECT_EQ(tight.footprint.total(Tier::kDisk, true), pack);
  EXPECT_EQ(tight.predicted.generated_tokens_per_s, roomy.predicted.generated_tokens_per_s);
}

TEST(Search, KeepsEverythingInMemoryWhereThereIsRoom) {
  const Plan plan = search(machine(), kShape, kJob, {0, 16_GiB, 100_GiB}, {});
  EXPECT_EQ(plan.policy.weights.host, 1);
  EXPECT_EQ(plan.policy.kv.host, 1);
  EXPECT_STREQ(plan.predicted.bottleneck, "compute");
  EXPECT_GE(plan.policy.block_sequences(), 64);
}

TEST(Search, LeavesTheDiskAloneHoweverFastTheMachineIs) {
  Profile fast = machine();  // sweeps take microseconds: costs near the solver's tolerance
  for (const int bits : {4, 16}) {
    fast.products[bits] = Curve({{1, 5e13}, {64, 4e15}, {1024, 6e15}});
    fast.decode_attention[bits] = {5e14, 1e15};
  }
  fast.prefill_attention = fast.elementwise = fast.draw = 1e15;
  fast.call_seconds = 1e-12;
  fast.disk_read = Curve({{65536, 1.6e16}});
  fast.disk_write = Curve({{65536, 1e16}});
  const Plan plan = search(fast, kShape, kJob, {0, 16_GiB, 100_GiB}, {});
  EXPECT_EQ(plan.policy.weights.disk, 0);
  EXPECT_EQ(plan.policy.kv.disk, 0);
}

TEST(Search, FitsAnyBudgetToTheByteAndLosesSpeedOnlyDownward) {
  double last = 0;
  for (const std::size_t budget : {64_MiB, 128_MiB, 256_MiB, 512_MiB, 1_GiB, 4_GiB}) {
    const Plan plan = search(machine(), kShape, kJob, {0, budget, 100_GiB}, {});
    EXPECT_LE(plan.footprint.total(Tier::kHost, true), budget);
    EXPECT_GE(plan.predicted.generated_tokens_per_s, 0.99 * last) << format_bytes(budget);
    last = plan.predicted.generated_tokens_per_s;
  }
}

TEST(Search, TakesTheUsersPercentagesAsTheyAre) {
  PolicyWishes wishes;
  wishes.percent = {0, 30, 0, 40, 100, 0};
  wishes.gpu_batch_size = 8;
  wishes.num_gpu_batches = 2;
  const Plan plan = search(machine(), kShape, kJob, {0, 4_GiB, 100_GiB}, wishes);
  EXPECT_EQ(percent_of(plan.policy), *wishes.percent);
  EXPECT_EQ(plan.policy.block_sequences(), 16);
}

TEST(Search, NamesTheSmallestBudgetThatWouldDo) {
  const TierLimits limits{0, 8_MiB, 100_GiB};
  try {
    search(machine(), kShape, kJob, limits, {});
    FAIL() << "8 MiB were enough";
  } catch (const InfeasibleError& e) {
    const std::size_t smallest = e.infeasible.smallest_bytes;
    EXPECT_EQ(smallest, limits.host + e.infeasible.missing_bytes);
    EXPECT_NO_THROW(search(machine(), kShape, kJob, {0, smallest, 100_GiB}, {}));
    EXPECT_THROW(search(machine(), kShape, kJob, {0, smallest - 4096, 100_GiB}, {}),
                 InfeasibleError);
  }
}

TEST(Search, SaysWhatIsMissingWhereNothingFits) {
  EXPECT_THAT(
      [] {
        search(machine(), kShape, kJob, {0, 8_MiB, 100_GiB}, {});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("nothing fits"), HasSubstr("more host space"),
                                       HasSubstr("--cpu-memory"))));
}

TEST(Search, UsesTheDeviceOfADiscreteMachineFirst) {
  Profile p = machine();
  p.unified = false;
  p.device_bytes = 1e9;
  p.link_down = p.link_up = 12e9;
  PolicyWishes wishes;
  wishes.gpu_batch_size = 32;
  wishes.num_gpu_batches = 1;
  const Plan plan = search(p, kShape, kJob, {700_MiB, 16_GiB, 100_GiB}, wishes);
  EXPECT_LE(plan.footprint.total(Tier::kDevice, false), 700_MiB);
  EXPECT_EQ(plan.policy.weights.disk, 0);
}

// Decoding over a slow link, with the KV cache in the host's memory.
Profile behind_a_slow_link() {
  Profile p = machine();
  p.unified = false;
  p.device_bytes = 1e9;
  p.link_down = p.link_up = 2e9;
  for (auto& [bits, rates] : p.products) rates = Curve({{64, 5e12}});
  for (auto& [bits, rates] : p.decode_attention) rates = {5e11, 1e12};
  return p;
}

Plan searched(const Profile& profile, CpuAttention cpu_attention) {
  PolicyWishes wishes;
  wishes.cpu_attention = cpu_attention;
  return search(profile, kShape, {512, 128, 2000}, {600_MiB, 16_GiB, 100_GiB}, wishes);
}

TEST(Search, HasTheCpuAttendWhereItIsKnownToBeFaster) {
  Profile p = behind_a_slow_link();
  const double by_device = searched(p, CpuAttention::kOff).predicted.generated_tokens_per_s;
  EXPECT_FALSE(searched(p, CpuAttention::kAuto).policy.cpu_attention);  // not known
  double last = 0;
  bool attended = false;
  for (const double rate : {1e8, 1e9, 3e9, 1e10, 3e10, 1e11}) {
    SCOPED_TRACE(rate);
    for (const int bits : {4, 16}) p.host_attention[bits] = {rate, 20 * rate};
    const Plan plan = searched(p, CpuAttention::kAuto);
    const double by_cpu = searched(p, CpuAttention::kOn).predicted.generated_tokens_per_s;
    EXPECT_EQ(plan.policy.cpu_attention, by_cpu > 1.03 * by_device);
    EXPECT_LE(plan.footprint.total(Tier::kDevice, false), 600_MiB);
    const double rated = plan.predicted.generated_tokens_per_s;
    EXPECT_EQ(rated, plan.policy.cpu_attention ? by_cpu : by_device);
    EXPECT_GE(rated, 0.995 * last);
    last = rated;
    attended = plan.policy.cpu_attention;
  }
  EXPECT_TRUE(attended);
  EXPECT_GT(last, 1.2 * by_device);
  EXPECT_EQ(searched(p, CpuAttention::kOn).policy.kv.device, 0);
}

TEST(Search, KnowsNoOtherProcessorThanTheDeviceOfAUnifiedMachine) {
  Profile p = machine();
  const Plan before = search(p, kShape, kJob, {0, 1_GiB, 100_GiB}, {});
  p.host_attention[16] = {1e15, 1e15};
  PolicyWishes wishes;
  wishes.cpu_attention = CpuAttention::kAuto;
  const Plan plan = search(p, kShape, kJob, {0, 1_GiB, 100_GiB}, wishes);
  EXPECT_EQ(plan.policy, before.policy);
}

TEST(PolicyJson, ComesBackAsItWas) {
  Policy policy;
  set_percent(policy, {20, 30, 0, 50, 100, 0});
  policy.gpu_batch_size = 7;
  policy.kv_positions = 99;
  policy.over_commit = false;
  policy.prefix_sharing = false;
  EXPECT_EQ(policy_from_json(policy_to_json(policy), "test"), policy);
  EXPECT_THROW(policy_from_json("{\"gpu_batch_size\": 0}", "test"), ConfigError);
  EXPECT_THROW(policy_from_json("{\"percent\": [1, 2]}", "test"), ConfigError);
  EXPECT_THROW(policy_from_json("[", "test"), ConfigError);
}

TEST(CurveOfRates, LiesBetweenItsPointsAndNeverFalls) {
  const Curve curve = Curve::fit({{10, 100}, {20, 300}, {40, 200}, {80, 400}});
  EXPECT_EQ(curve.at(5), 50);    // proportional
  EXPECT_EQ(curve.at(15), 175);  // 100 to 250, the mean of what fell
  EXPECT_EQ(curve.at(30), 250);
  EXPECT_EQ(curve.at(60), 325);
  EXPECT_EQ(curve.at(1e6), 400);
  EXPECT_NEAR(curve.residual(), 0.2, 1e-12);  // 300 and 200 for 250
  EXPECT_EQ(Curve::fit({{1, 4}, {2, 3}, {3, 2}}).at(2), 3);
}

TEST(ProfileJson, ComesBackAsItWas) {
  Profile p = machine();
  EXPECT_TRUE(profile_from_json(profile_to_json(p), "test").host_attention.empty());
  p.host_attention[4] = {3e9, 4e10};
  const Profile q = profile_from_json(profile_to_json(p), "test");
  EXPECT_EQ(profile_to_json(q), profile_to_json(p));
  EXPECT_EQ(q.host_attention.at(4).ops, 4e10);
  EXPECT_EQ(q.products_of(4).at(500), p.products_of(4).at(500));
}

// Of machines that aren't here: whole, and every number with where it comes from.
TEST(ProfileJson, ReadsTheMachinesThatComeWithBarge) {
  int machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BARGE_TEST_DATA "/../../machines")) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path().filename());
    ++machines;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_GT(profile_from_json(text, entry.path()).link_down, 0);
    const auto json = nlohmann::json::parse(text);
    for (const auto& [key, value] : json.items()) {
      if (key == "version" || key == "sources" || !(value.is_number() || value.is_structured()))
        continue;
      EXPECT_TRUE(json["sources"].contains(key)) << key;
    }
  }
  EXPECT_GE(machines, 5);
}

TEST(ProfileJson, RefusesNonsenseAndNamesTheKey) {
  const std::string good = profile_to_json(machine());
  const auto with = [&](const std::string& wanted, const std::string& instead) {
    std::string text = good;
    const auto at = text.find(wanted);
    EXPECT_NE(at, std::string::npos) << wanted;
    return text.replace(at, wanted.size(), instead);
  };
  const auto expect_refusal = [](const std::string& text, const std::string& what) {
    EXPECT_THAT([&] { profile_from_json(text, "p.json"); },
                ThrowsMessage<FormatError>(AllOf(HasSubstr("p.json"), HasSubstr(what))));
  };
  expect_refusal("{}", "version 2, got 1");
  expect_refusal("[]", "object");
  expect_refusal("{", "p.json");
  expect_refusal(with("\"version\": 2", "\"version\": 3"), "got 3");
  expect_refusal(with("\"host_bytes\": 20000000000.0", "\"host_bytes\": -1"), "\"host_bytes\"");
  expect_refusal(with("\"host_bytes\"", "\"bytes\""),
                 "\"host_bytes\" wants a positive number, got none");
  expect_refusal(with("\"draw_logits_per_s\": 1000000000.0", "\"draw_logits_per_s\": \"fast\""),
                 "got \"fast\"");
  expect_refusal(with("\"rows\": 64.0", "\"rows\": 0.5"), "ascending \"rows\"");
  expect_refusal(with("\"ops_per_s\": 600000000000.0", "\"ops_per_s\": 1.0"), "no falling");
  expect_refusal(with("\"unified\": true", "\"unified\": false"), "\"device_bytes\"");
}

}  // namespace
}  // namespace barge
