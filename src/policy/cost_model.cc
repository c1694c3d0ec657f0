#include "policy/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/bytes.h"
#include "policy/footprint.h"

namespace barge {
namespace {

// Of a layer, beside products and attention: two norms, two rotations, an activation function.
constexpr double kCallsALayer = 5;
// Panels are multiplied by, and read, a few at a time.
constexpr std::size_t kRunBytes = 4_MiB;

}  // namespace

bool one_block(const Workload& job, const Policy& policy) {
  return job.num_prompts <= policy.block_sequences();
}

SweepLoad steady_load(const Workload& job, const Policy& policy) {
  const double s = job.prompt_len, own = job.own_prompt(), n = job.gen_len;
  const double sequences = std::min<double>(policy.block_sequences(), job.num_prompts);
  // Prompt tokens beyond the sweep's rows wait their turn.
  const double wanted = sequences * (own + n - 1) / n;
  const double share = std::min(1.0, policy.sweep_tokens / wanted);
  SweepLoad load;
  load.rows = share * wanted;
  load.answers = share * sequences * (n - 1) / n;
  load.logits = share * sequences;
  // A decoding row sees s + n/2 keys on average, a prompt's row what is shared and half of the
  // rest.
  load.read_positions = share * (n - 1) / n * sequences * (s + n / 2);
  load.prompt_keys = share * sequences / n * own * (s - own / 2);
  // The end of a sweep cuts one prompt in two; what is shared is read for each.
  load.reread_positions = s / 2 + share * sequences / n * (s - own);
  load.mean = true;
  return load;
}

SweepPricer::SweepPricer(const Profile& profile, const ModelShape& shape, const Policy& policy)
    : profile_(profile),
      operation_(profile),
      weights_(policy.weights),
      kv_(kv_shares(policy, shape.layers, profile.unified)),
      cpu_attends_(attends_on_host(policy, profile.unified) &&
                   profile.host_attention_of(policy.kv_bits) != nullptr),
      weight_bits_(policy.weight_bits),
      kv_bits_(policy.kv_bits),
      heads_(shape.heads),
      head_dim_(shape.head_dim),
      layers_(shape.layers),
      vocab_(shape.vocab),
      record_bytes_(static_cast<double>(shape.kv_record_bytes)),
      projected_bytes_(static_cast<double>(shape.projected_bytes_per_row)),
      attended_bytes_(static_cast<double>(shape.attended_bytes_per_row)) {
  std::size_t run = kRunBytes;
  if (policy.ring_bytes > 0) run = std::min(run, policy.ring_bytes / 4);
  double ffn = 0;
  std::map<double, double> outputs_by_inputs;
  for (const auto& m : shape.matrices) {
    if (!m.visited) continue;
    const auto inputs = static_cast<double>(m.cols), outputs = static_cast<double>(m.rows);
    std::size_t bytes = 0;
    for (const std::size_t panel : m.panel_bytes) bytes += panel;
    const std::size_t request = std::min(bytes, std::max(run, m.panel_bytes.front()));
    weight_bytes_ += static_cast<double>(bytes);
    read_seconds_ +=
        static_cast<double>(bytes) / profile.disk_read.at(static_cast<double>(request));
    calls_ += static_cast<double>(divide_up(bytes, request));
    if (m.rows == shape.vocab) {
      output_inputs_ = inputs;
      output_outputs_ += outputs;
    } else {
      ffn = std::max(ffn, inputs);
      outputs_by_inputs[inputs] += outputs;
    }
  }
  inputs_and_outputs_.assign(outputs_by_inputs.begin(), outputs_by_inputs.end());
  calls_ += layers_ * (kCallsALayer + 2.0 * policy.num_gpu_batches);
  // Two norms, q and k rotated, k and v encoded, an activation function.
  numbers_a_row_ =
      layers_ * (2.0 * shape.hidden + (heads_ + 3.0 * shape.kv_heads) * head_dim_ + ffn);
  const auto page = static_cast<double>(page_bytes(shape, policy));
  kv_read_rate_ = profile.disk_read.at(page);
  kv_write_rate_ = profile.disk_write.at(page);
}

SweepCost SweepPricer::cost(const SweepLoad& load) const {
  const double kv_position = record_bytes_ * layers_;
  // The halves of a block go through each matrix one after the other.
  const double halves = cpu_attends_ && load.answers > 0 ? 2 : 1;
  const auto product = [&](double rows, double outputs, double inputs) {
    return load.mean ? operation_.product_of_full_tiles(rows, outputs, inputs, weight_bits_)
                     : operation_.product(rows, outputs, inputs, weight_bits_);
  };
  SweepCost cost;
  for (const auto& [inputs, outputs] : inputs_and_outputs_)
    cost.products += halves * product(load.rows / halves, outputs, inputs);
  cost.output =
      product(load.logits, output_outputs_, output_inputs_) + operation_.draw(load.logits * vocab_);
  cost.prefill_attention =
      layers_ * operation_.prefill_attention(heads_, head_dim_, load.prompt_keys);
  cost.decode_attention =
      layers_ *
      operation_.decode_attention(heads_, head_dim_, load.read_positions, record_bytes_, kv_bits_);
  cost.other =
      operation_.elementwise(load.rows * numbers_a_row_) + halves * calls_ * operation_.call();
  const double read = (load.read_positions + load.reread_positions) * kv_position;
  const double written = load.rows * kv_position;
  if (!profile_.unified) {
    cost.weights_down = weight_bytes_ / profile_.link_down;
    cost.kv_down = read / profile_.link_down;
    cost.kv_up = written / profile_.link_up;
  }
  cost.weights_read = read_seconds_;
  cost.kv_read = read / kv_read_rate_;
  cost.kv_write = written / kv_write_rate_;
  if (cpu_attends_) add_cpu_attention(cost, load);
  return cost;
}

void SweepPricer::add_cpu_attention(SweepCost& cost, const SweepLoad& load) const {
  const double kv_position = record_bytes_ * layers_, rows = load.answers * layers_;
  cost.cpu_attends = true;
  cost.host_attention =
      layers_ * operation_.host_attention(heads_, head_dim_, load.read_positions + load.answers,
                                          record_bytes_, kv_bits_);
  cost.results_down = rows * attended_bytes_ / profile_.link_down;
  cost.kv_down = load.reread_positions * kv_position / profile_.link_down + cost.results_down;
  cost.kv_up =
      ((load.rows - load.answers) * kv_position + rows * projected_bytes_) / profile_.link_up;
}

namespace {

std::array<std::pair<double, const char*>, 5> named(const ResourceSeconds& s) {
  return {{{s.compute, "compute"},
           {s.link_down, "link down"},
           {s.link_up, "link up"},
           {s.disk(), "disk"},
           {s.host_attention > 0 ? s.host_attention + s.attention_waits : 0, "CPU attention"}}};
}

}  // namespace

double ResourceSeconds::longest() const {
  double most = 0;
  for (const auto& [seconds, name] : named(*this)) most = std::max(most, seconds);
  return most;
}

const char* ResourceSeconds::bottleneck() const {
  const auto all = named(*this);
  return std::max_element(all.begin(), all.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

ResourceSeconds& ResourceSeconds::operator+=(const ResourceSeconds& other) {
  compute += other.compute;
  link_down += other.link_down;
  link_up += other.link_up;
  disk_read += other.disk_read;
  disk_write += other.disk_write;
  host_attention += other.host_attention;
  attention_waits += other.attention_waits;
  return *this;
}

ResourceSeconds ResourceSeconds::operator*(double factor) const {
  return {compute * factor,    link_down * factor,      link_up * factor,        disk_read * factor,
          disk_write * factor, host_attention * factor, attention_waits * factor};
}

ResourceSeconds at_homes(const SweepCost& cost, const PerTier<double>& w,
                         const PerTier<double>& y) {
  return {.compute = cost.compute(y.device),
          .link_down = cost.weights_down * (w.host + w.disk) + cost.kv_down * (y.host + y.disk),
          .link_up = cost.kv_up * (y.host + y.disk),
          .disk_read = cost.weights_read * w.disk + cost.kv_read * y.disk,
          .disk_write = cost.kv_write * y.disk,
          .host_attention = cost.host_attention * (y.host + y.disk),
          .attention_waits = cost.cpu_attends ? cost.output + cost.kv_read * y.disk : 0};
}

}  // namespace barge
