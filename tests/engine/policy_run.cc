#include "tests/engine/policy_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <utility>

namespace barge {
namespace {

using Shares = PerTier<double>;

// What the kernel says that this process read from and wrote to disks.
struct ProcessIo {
  std::size_t read = 0, written = 0;
  static ProcessIo now() {
    ProcessIo io;
    std::ifstream file("/proc/self/io");
    for (std::string key; file >> key;) {
      std::size_t value = 0;
      file >> value;
      if (key == "read_bytes:") io.read = value;
      if (key == "write_bytes:") io.written = value;
    }
    return io;
  }
};

// Weights are where the policy wants them to within a panel or two, and so are the KV cache's
// bytes at their peak to within what one sequence and the tails in host memory may take.
void expect_homes(const TestModel& model, const TestSetup& setup, const EngineStats& stats) {
  Shares weights = setup.policy.weights;
  Shares kv = kv_shares(setup.policy, tiny_llama_config().layers, setup.unified());
  if (setup.unified())
    for (Shares* share : {&weights, &kv}) share->host += std::exchange(share->device, 0);
  double largest = 0, total = 0, kv_total = 0;
  for (const PackTensor& tensor : model.pack().tensors())
    for (const PackPanel& panel : tensor.panels)
      largest = std::max(largest, static_cast<double>(panel.stored_bytes()));
  for (const Tier tier : kTiers) {
    total += static_cast<double>(stats.weight_bytes[tier]);
    kv_total += static_cast<double>(stats.kv_peak_bytes[tier]);
  }
  for (const Tier tier : kTiers) {
    EXPECT_NEAR(static_cast<double>(stats.weight_bytes[tier]), weights[tier] * total, 2 * largest)
        << name_of(tier);
    const std::size_t peak = stats.kv_peak_bytes[tier];
    const bool has_tails = tier == Tier::kHost && kv.disk > 0;
    const bool has_swapped = tier == Tier::kDisk && stats.swaps > stats.replays;
    const bool wanted = kv[tier] > 0 || has_tails || has_swapped;
    // Of a small block a small share may be less than one layer of one sequence.
    const double layers = kv[tier] * setup.policy.block_sequences() * tiny_llama_config().layers;
    if (peak == 0 && kv[tier] > 0 && layers < 1) continue;
    EXPECT_EQ(peak > 0, wanted) << name_of(tier);
    if (kv[tier] == 1 && tier != Tier::kDisk && stats.swaps == 0) {
      EXPECT_EQ(static_cast<double>(peak), kv_total) << name_of(tier);
    }
  }
  EXPECT_EQ(stats.kv.disk_written_bytes > 0, kv.disk > 0 || stats.swaps > stats.replays);
  // A sweep visits all but the table that is only looked up.
  const PackTensor& table = model.pack().tensors()[0];
  ASSERT_EQ(table.name, "embed");
  std::size_t table_bytes = 0;
  for (const PackPanel& panel : table.panels) table_bytes += panel.stored_bytes();
  const auto visited = [&](std::size_t bytes) { return bytes - std::min(bytes, table_bytes); };
  EXPECT_GE(stats.weights.disk_bytes, stats.sweeps * visited(stats.weight_bytes.disk));
  if (!setup.unified()) {
    EXPECT_GE(stats.link.down_bytes,
              stats.sweeps * visited(stats.weight_bytes.disk + stats.weight_bytes.host));
  }
}

}  // namespace

std::vector<GenerationRequest> policy_job() {
  std::mt19937 random(2024);
  const auto draw = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::vector<GenerationRequest> requests(24);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    GenerationRequest& r = requests[i];
    r.prompt.resize(static_cast<std::size_t>(i % 8 == 0 ? 1 : draw(2, 75)));
    for (TokenId& id : r.prompt) id = draw(0, 299);
    r.max_tokens = draw(1, 40);
    r.ignore_eos = true;
    r.sampling.temperature = std::array{0.0f, 0.7f, 1.5f}[i % 3];
    r.sampling.seed = i / 2;
    r.sampling.choice = static_cast<int>(i % 2);
    if (i % 4 == 1) r.sampling.top_p = 0.8f;
    if (i % 5 == 2) r.sampling.top_k = 20;
    if (i % 6 == 3) r.sampling.frequency_penalty = 0.5f;
    r.prompt_logprobs = i % 7 == 4;
  }
  return requests;
}

std::vector<TestAnswer> run_under(const TestModel& model, const TestSetup& setup,
                                  const std::vector<GenerationRequest>& requests, unsigned order) {
  std::vector<std::size_t> lines(requests.size());
  std::iota(lines.begin(), lines.end(), 0);
  if (order > 0) std::shuffle(lines.begin(), lines.end(), std::mt19937(order));
  std::vector<GenerationRequest> ordered;
  for (const std::size_t line : lines) ordered.push_back(requests[line]);

  const ProcessIo before = ProcessIo::now();
  TestEngine test(model, setup);
  EXPECT_EQ(test.engine->max_positions(), setup.policy.max_positions);
  const auto answers = run_all(*test.engine, std::move(ordered));
  const EngineStats stats = test.engine->stats();
  expect_homes(model, setup, stats);
  const int layers = tiny_llama_config().layers;
  EXPECT_EQ(stats.cpu_attention_seconds > 0,
            attends_on_host(setup.policy, setup.unified()) &&
                device_attention_layers(setup.policy, layers) < layers);
  test.engine.reset();  // nothing is under way any more
  const DiskTraffic disk = test.disk.traffic();
  const ProcessIo after = ProcessIo::now();
  EXPECT_GE(disk.read_bytes, stats.kv.disk_read_bytes);
  if (model.pack().file(0).direct()) {
    // The program's own pages may come from disk too.
    EXPECT_GE(after.read - before.read, disk.read_bytes);
    EXPECT_LE(after.read - before.read, disk.read_bytes + (8 << 20));
    EXPECT_GE(after.written - before.written, disk.written_bytes);
  }
  std::vector<TestAnswer> by_line(answers.size());
  for (std::size_t i = 0; i < lines.size(); ++i) by_line[lines[i]] = answers[i];
  return by_line;
}

int place_of_attention(const TestSetup& setup) {
  return setup.policy.cpu_attention && tests_on_cuda()
             ? device_attention_layers(setup.policy, tiny_llama_config().layers)
             : -1;
}

}  // namespace barge
