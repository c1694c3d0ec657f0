#include "simulate/simulation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/bytes.h"
#include "model/checkpoint.h"
#include "policy/prediction.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using test::TempDirectory;

constexpr std::size_t kAttentionWorkspace = 1_MiB;

// A small model on a machine whose every rate matters somewhere.
struct Case {
  Profile profile;
  Policy policy;
  Workload job{96, 16, 256};
  bool trace = false;
  std::string model = "dummy:smollm2-135m@3";

  Case() {
    profile.machine = "a test's";
    profile.host_bytes = profile.disk_bytes = 1e12;
    profile.disk_read = Curve({{16384, 1e9}, {1048576, 2e9}});
    profile.disk_write = Curve({{16384, 1e9}});
    profile.host_copy = 2e10;
    for (const int bits : {4, 16}) {
      profile.products[bits] = Curve({{1, 5e9}, {64, 2e11}, {1024, 3e11}});
      profile.decode_attention[bits] = {2e10, 2e11};
    }
    profile.prefill_attention = 2e11;
    profile.elementwise = 2e9;
    profile.draw = 2e9;
    profile.call_seconds = 2e-6;
    policy.gpu_batch_size = 32;
    policy.max_positions = 112;
    policy.ring_bytes = 4_MiB;
    policy.sweep_tokens = 256;
  }
  void discrete() {
    profile.unified = false;
    profile.device_bytes = 1e12;
    profile.link_down = profile.link_up = 1e9;
  }
  void cpu_attends() {
    discrete();
    profile.host_attention[16] = {4e9, 5e10};
    policy.cpu_attention = true;
  }
};

struct Outcome {
  double seconds = 0, predicted = 0;
  EngineStats stats;
  Footprint footprint;
  PerTier<std::size_t> peak;
  std::string trace;
};

Outcome simulate(const Case& setup) {
  const TempDirectory directory;
  const auto checkpoint = open_checkpoint(setup.model);
  const auto family = make_family(checkpoint->config());
  const auto format_of = [](const TensorSpec& tensor) {
    return tensor.kind == TensorSpec::Kind::kVector
               ? WeightFormat{Encoding::kF32}
               : WeightFormat{Encoding::kQ4, 64, GroupAxis::kInput};
  };
  Simulation::Options options;
  options.engine.policy = setup.policy;
  options.format_of = format_of;
  options.limits = {100_GiB, 100_GiB, 100_GiB};
  options.attention_workspace = kAttentionWorkspace;
  options.directory = directory.path();
  options.trace = setup.trace;
  Simulation simulation(setup.profile, *family, options);
  std::vector<GenerationRequest> requests(static_cast<std::size_t>(setup.job.num_prompts));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt.assign(static_cast<std::size_t>(setup.job.prompt_len), 7);
    requests[i].prompt[0] = static_cast<TokenId>(i);
    requests[i].max_tokens = static_cast<int>(setup.job.gen_len);
  }
  Outcome outcome;
  const Seconds begin = simulation.clock().now();
  simulation.run(std::move(requests), 64);
  outcome.seconds = (simulation.clock().now() - begin).count();
  outcome.stats = simulation.stats();
  const KernelLimits limits = kernel_limits(*family, setup.policy, DType::kF32);
  ModelShape shape = shape_of(*family, format_of, setup.policy.kv_bits, 64, limits, {});
  shape.attention_workspace_bytes = kAttentionWorkspace;
  outcome.footprint = footprint(shape, setup.policy, setup.profile.unified);
  for (const Tier tier : kTiers) outcome.peak[tier] = simulation.budgets()[tier].peak();
  outcome.predicted = predict(setup.profile, shape, setup.job, setup.policy).seconds;
  if (setup.trace) {
    simulation.trace()->write(directory / "trace.json");
    std::ifstream in(directory / "trace.json");
    outcome.trace = (std::stringstream() << in.rdbuf()).str();
  }
  return outcome;
}

TEST(Simulation, TakesAsLongEachTime) {
  Case setup;
  setup.policy.weights = setup.policy.kv = {0, 0.5, 0.5};
  const Outcome once = simulate(setup), again = simulate(setup);
  EXPECT_EQ(once.seconds, again.seconds);
  EXPECT_EQ(once.stats.disk.read_bytes, again.stats.disk.read_bytes);
  EXPECT_EQ(once.stats.generated_tokens, 256u * 16);
  EXPECT_EQ(once.stats.finished, 256u);
}

TEST(Simulation, IsAsLongAsPredictedWhereAllIsInMemory) {
  const Outcome outcome = simulate({});
  EXPECT_NEAR(outcome.seconds / outcome.predicted, 1, 0.05);
}

TEST(Simulation, IsAsLongAsPredictedWhereTheDiskIsSlow) {
  Case setup;
  setup.policy.weights = {0, 0, 1};
  setup.profile.disk_read = Curve({{16384, 1e8}});
  const Outcome outcome = simulate(setup);
  EXPECT_NEAR(outcome.seconds / outcome.predicted, 1, 0.05);
  EXPECT_GT(outcome.stats.disk.read_seconds, 0.95 * outcome.seconds);
}

TEST(Simulation, IsAsLongAsPredictedWhereKvIsOnDisk) {
  Case setup;
  setup.policy.kv = {0, 0, 1};
  setup.profile.disk_read = setup.profile.disk_write = Curve({{16384, 1e8}});
  const Outcome outcome = simulate(setup);
  EXPECT_NEAR(outcome.seconds / outcome.predicted, 1, 0.08);
}

TEST(Simulation, IsAsLongAsPredictedWhereTheLinkIsSlow) {
  Case setup;
  setup.discrete();
  setup.policy.weights = {0, 1, 0};
  setup.policy.kv = {0, 1, 0};
  setup.profile.link_down = setup.profile.link_up = 2e8;
  const Outcome outcome = simulate(setup);
  EXPECT_NEAR(outcome.seconds / outcome.predicted, 1, 0.06);
  EXPECT_GT(outcome.stats.link.down_seconds, 0.9 * outcome.seconds);
}

TEST(Simulation, MovesTheBytesThatTheEngineMoves) {
  Case setup;
  setup.policy.weights = {0, 0, 1};
  const Outcome outcome = simulate(setup);
  // Each sweep reads what it multiplies by once; the ring is ahead by less than itself.
  const double a_sweep = static_cast<double>(outcome.footprint.weights.disk);
  const double read = static_cast<double>(outcome.stats.weights.disk_bytes) /
                      static_cast<double>(outcome.stats.sweeps);
  EXPECT_GT(read, 0.9 * a_sweep);
  EXPECT_LT(read, 1.2 * a_sweep);  // and rows of the table
}

TEST(Simulation, TakesTheMemoryThatIsPlanned) {
  for (const bool unified : {true, false}) {
    SCOPED_TRACE(unified);
    Case setup;
    if (!unified) setup.discrete();
    setup.policy.weights = unified ? PerTier<double>{0, 0.6, 0.4} : PerTier<double>{0.2, 0.4, 0.4};
    setup.policy.kv = unified ? PerTier<double>{0, 0.6, 0.4} : PerTier<double>{0.3, 0.3, 0.4};
    const Outcome outcome = simulate(setup);
    const Footprint& f = outcome.footprint;
    EXPECT_EQ(outcome.peak.device, f.total(Tier::kDevice, unified));
    EXPECT_EQ(outcome.peak.host, f.total(Tier::kHost, unified) - f.tokenizer);
  }
}

TEST(Simulation, TracesWhatEverybodyDid) {
  Case setup;
  setup.trace = true;
  setup.job.num_prompts = 8;
  setup.policy.weights = {0, 0, 1};
  EXPECT_THAT(simulate(setup).trace,
              testing::AllOf(testing::HasSubstr("product"), testing::HasSubstr("attention"),
                             testing::HasSubstr("\"read\"")));
}

TEST(Simulation, IsAsLongAsPredictedWhereTheCpuAttends) {
  for (const double rate : {4e7, 4e9}) {  // in the way, and beside the device
    SCOPED_TRACE(rate);
    Case setup;
    setup.cpu_attends();
    setup.profile.host_attention[16].bytes = rate;
    // Prompts that halves share evenly, as longer ones of a larger block are.
    setup.job = {16, 16, 512};
    setup.policy.sweep_tokens = 224;
    setup.model = "dummy:smollm2-135m@12";  // at both ends of a sweep nobody works beside the other
    setup.policy.weights = {0.3, 0.7, 0};
    const Outcome outcome = simulate(setup);
    EXPECT_NEAR(outcome.seconds / outcome.predicted, 1, 0.08);
    EXPECT_GT(outcome.stats.cpu_attention_seconds, rate < 1e9 ? 0.85 * outcome.seconds : 0);
    EXPECT_LT(outcome.stats.cpu_attention_seconds, outcome.seconds);
  }
}

TEST(Simulation, TakesTheMemoryThatIsPlannedWhereTheCpuAttends) {
  for (const PerTier<double> kv : {PerTier<double>{0, 1, 0}, PerTier<double>{0.4, 0.3, 0.3}}) {
    Case setup;
    setup.cpu_attends();
    setup.policy.weights = {0.2, 0.4, 0.4};
    setup.policy.kv = kv;
    const Outcome outcome = simulate(setup);
    const Footprint& f = outcome.footprint;
    EXPECT_EQ(outcome.peak.device, f.total(Tier::kDevice, false));
    EXPECT_EQ(outcome.peak.host, f.total(Tier::kHost, false) - f.tokenizer);
  }
}

TEST(Simulation, StandsForNoCpuOfWhichNothingIsKnown) {
  Case setup;
  setup.discrete();
  setup.policy.cpu_attention = true;
  EXPECT_THROW(simulate(setup), ConfigError);
}

TEST(VirtualTime, TellsWhereEverybodyWaits) {
  VirtualTime time;
  EXPECT_THAT([&] { time.step(); }, testing::ThrowsMessage<Error>(testing::HasSubstr("wait")));
}

}  // namespace
}  // namespace barge
