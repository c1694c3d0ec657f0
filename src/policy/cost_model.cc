#include "policy/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/row_tile.h"
#include "policy/footprint.h"

namespace barge {
namespace {

double live_sequences(const Workload& job, const Policy& policy) {
  return std::min<double>(policy.block_sequences(), job.num_prompts);
}

// Norms, rotations and the activation function, beside products and attention.
constexpr double kCallsALayer = 6;

// Small products are measured as they are.
double in_tiles(double rows) {
  return rows < kRowTile ? rows : std::ceil(rows / kRowTile) * kRowTile;
}

}  // namespace

bool one_block(const Workload& job, const Policy& policy) {
  return job.num_prompts <= policy.block_sequences();
}

SweepLoad steady_load(const Workload& job, const Policy& policy) {
  const double s = job.prompt_len, n = job.gen_len, sequences = live_sequences(job, policy);
  // Prompt tokens beyond the sweep's rows wait their turn.
  const double wanted = sequences * (s + n - 1) / n;
  const double share = std::min(1.0, policy.sweep_tokens / wanted);
  SweepLoad load;
  load.rows = share * wanted;
  load.logits = share * sequences;
  // A decoding row sees s + n/2 keys on average, a prompt's row half of its prompt.
  load.read_positions = share * (n - 1) / n * sequences * (s + n / 2);
  load.prompt_keys = share * sequences / n * s * (s / 2);
  return load;
}

SweepLoad prefill_load(const Workload& job, const Policy& policy) {
  const double rows = live_sequences(job, policy) * job.prompt_len;
  const double sweeps = std::ceil(rows / policy.sweep_tokens);
  return {rows / sweeps, live_sequences(job, policy) / sweeps, rows / sweeps * job.prompt_len / 2,
          0};
}

SweepLoad decode_load(const Workload& job, const Policy& policy) {
  const double sequences = live_sequences(job, policy);
  const double keys = sequences * (job.prompt_len + job.gen_len / 2);
  return {sequences, sequences, 0, keys};
}

SweepCost sweep_cost(const Profile& profile, const ModelShape& shape, const SweepLoad& load,
                     const Policy& policy) {
  const double kv_position = static_cast<double>(shape.kv_record_bytes) * shape.layers;
  const auto weights = static_cast<double>(shape.weight_bytes());
  double parameters = 0, output_parameters = 0, inputs = 0, calls = 0;
  for (const auto& m : shape.matrices) {
    if (!m.visited) continue;
    const auto size = static_cast<double>(m.rows) * static_cast<double>(m.cols);
    (m.rows == shape.vocab ? output_parameters : parameters) += size;
    if (m.rows != shape.vocab) inputs += static_cast<double>(m.cols);
    ++calls;
  }
  const Curve& rate = profile.products_of(policy.weight_bits);
  const auto product = [&](double weight_count, double rows) {
    return rows > 0 ? 2 * weight_count * in_tiles(rows) / rate.at(in_tiles(rows)) : 0;
  };
  const double ops_per_key = 4.0 * shape.heads * shape.head_dim * shape.layers;
  const Profile::Attention& decode = profile.attention_of(policy.kv_bits);

  SweepCost cost;
  cost.products = product(parameters, load.rows);
  cost.output = product(output_parameters, load.logits) + load.logits * shape.vocab / profile.draw;
  cost.prefill_attention = ops_per_key * load.prompt_keys / profile.prefill_attention;
  cost.decode_attention = kv_position * load.read_positions / decode.bytes +
                          ops_per_key * load.read_positions / decode.ops;
  calls += shape.layers * (kCallsALayer + 2.0 * policy.num_gpu_batches);
  cost.other = load.rows * inputs / profile.elementwise + calls * profile.call_seconds;
  if (!profile.unified) {
    cost.weights_down = weights / profile.link_down;
    cost.kv_down = load.read_positions * kv_position / profile.link_down;
    cost.kv_up = load.rows * kv_position / profile.link_up;
  }
  const double page = static_cast<double>(page_bytes(shape, policy));
  cost.weights_read =
      weights / profile.disk_read.at(static_cast<double>(shape.largest_panel_bytes()));
  cost.kv_read = load.read_positions * kv_position / profile.disk_read.at(page);
  cost.kv_write = load.rows * kv_position / profile.disk_write.at(page);
  return cost;
}

Bottleneck bottleneck(const SweepCost& cost, const Policy& policy) {
  const auto& w = policy.weights;
  const auto& y = policy.kv;
  const std::array<std::pair<double, const char*>, 4> resources{{
      {cost.compute(), "compute"},
      {cost.weights_down * (w.host + w.disk) + cost.kv_down * (y.host + y.disk), "link down"},
      {cost.kv_up * (y.host + y.disk), "link up"},
      {cost.weights_read * w.disk + (cost.kv_read + cost.kv_write) * y.disk, "disk"},
  }};
  const auto worst =
      *std::max_element(resources.begin(), resources.end(),
                        [](const auto& a, const auto& b) { return a.first < b.first; });
  return {worst.first, worst.second};
}

Prediction predict(const Profile& profile, const ModelShape& shape, const Workload& job,
                   const Policy& policy) {
  const auto seconds_of = [&](const SweepLoad& load) {
    return bottleneck(sweep_cost(profile, shape, load, policy), policy);
  };
  Prediction p;
  const double generated = job.num_prompts * job.gen_len;
  if (one_block(job, policy)) {
    const Bottleneck decode = seconds_of(decode_load(job, policy));
    const double prefill_sweeps = std::ceil(job.num_prompts * job.prompt_len / policy.sweep_tokens);
    p.bottleneck = decode.name;
    p.sweep_seconds = decode.seconds;
    p.seconds = prefill_sweeps * seconds_of(prefill_load(job, policy)).seconds +
                (job.gen_len - 1) * decode.seconds;
  } else {
    const SweepLoad load = steady_load(job, policy);
    const Bottleneck sweep = seconds_of(load);
    p.bottleneck = sweep.name;
    p.sweep_seconds = sweep.seconds;
    p.seconds = generated / load.logits * sweep.seconds;
  }
  p.generated_tokens_per_s = generated / p.seconds;
  p.total_tokens_per_s = p.generated_tokens_per_s * (1 + job.prompt_len / job.gen_len);
  return p;
}

}  // namespace barge
