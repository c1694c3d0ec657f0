#include "policy/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace barge {

SweepCost sweep_cost(const Profile& profile, const ModelShape& shape, const Workload& job,
                     const Policy& policy) {
  const double s = job.prompt_len, n = job.gen_len;
  const double sequences = std::min<double>(policy.block_sequences(), job.num_prompts);
  const double kv_token = static_cast<double>(shape.kv_record_bytes) * shape.layers;
  const double weights = static_cast<double>(shape.weight_bytes());
  const auto tiles = [](double rows) { return std::ceil(rows / kRowTile) * kRowTile; };

  double output_parameters = 0;
  if (!shape.matrices.empty())
    for (const auto& m : shape.matrices)
      if (m.visited && m.rows == shape.vocab)
        output_parameters += static_cast<double>(m.rows) * static_cast<double>(m.cols);
  const double parameters = static_cast<double>(shape.parameters()) - output_parameters;

  SweepCost cost;
  cost.rows = tiles(std::min<double>(sequences * (s + n - 1) / n, policy.sweep_tokens));
  cost.products = 2 * parameters * cost.rows / profile.matrix_ops(cost.rows);
  cost.output = 2 * output_parameters * tiles(sequences) / profile.matrix_ops(tiles(sequences));
  cost.dequantise =
      policy.weight_bits < 16 ? static_cast<double>(shape.parameters()) / profile.dequantise : 0;
  // Decode sees s + n/2 keys on average, each of s prompt tokens half of its prompt.
  const double decode_keys = (n - 1) / n * sequences * (s + n / 2);
  const double prompt_keys = sequences / n * s * (s / 2);
  cost.attention = 4.0 * shape.heads * shape.head_dim * shape.layers * (decode_keys + prompt_keys) /
                   profile.attention;

  const double kv_read_bytes = (n - 1) / n * sequences * (s + n / 2) * kv_token;
  const double kv_new_bytes = sequences * (s + n - 1) / n * kv_token;
  if (!profile.unified) {
    cost.weights_down = weights / profile.link_down;
    cost.kv_down = kv_read_bytes / profile.link_down;
    cost.kv_up = kv_new_bytes / profile.link_up;
  }
  cost.weights_read = weights / profile.disk_read;
  cost.kv_read = kv_read_bytes / profile.disk_read;
  cost.kv_write = kv_new_bytes / profile.disk_write;
  return cost;
}

Prediction predict(const SweepCost& cost, const Profile& profile, const Workload& job,
                   const Policy& policy) {
  const auto& w = policy.weights;
  const auto& y = policy.kv;
  const std::array<std::pair<double, const char*>, 4> resources{{
      {cost.compute(), "compute"},
      {profile.unified ? 0
                       : cost.weights_down * (w.host + w.disk) + cost.kv_down * (y.host + y.disk),
       "link down"},
      {profile.unified ? 0 : cost.kv_up * (y.host + y.disk), "link up"},
      {cost.weights_read * w.disk + (cost.kv_read + cost.kv_write) * y.disk, "disk"},
  }};
  const auto worst = std::max_element(resources.begin(), resources.end());
  const double sequences = std::min<double>(policy.block_sequences(), job.num_prompts);

  Prediction p;
  p.bottleneck = worst->second;
  p.sweep_seconds = worst->first;
  // Prompt tokens beyond the sweep's rows wait: a token then takes more than one sweep.
  const double wanted = sequences * (job.prompt_len + job.gen_len - 1) / job.gen_len;
  const double stretch = std::max(1.0, wanted / cost.rows);
  p.generated_tokens_per_s = sequences / (p.sweep_seconds * stretch);
  p.total_tokens_per_s = p.generated_tokens_per_s * (1 + job.prompt_len / job.gen_len);
  p.seconds = job.num_prompts * job.gen_len / p.generated_tokens_per_s;
  return p;
}

}  // namespace barge
