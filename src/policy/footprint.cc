#include "policy/footprint.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "core/bytes.h"

namespace barge {
namespace {

// Enough that the disk and the link work at the same time.
constexpr std::size_t kSwapStagingPages = 8;

std::size_t pages_of(std::size_t bytes) { return round_up(bytes, kSectorBytes); }

std::size_t share_of(std::size_t bytes, double share) {
  return static_cast<std::size_t>(std::ceil(static_cast<double>(bytes) * share));
}

// What the weight store wants at least: two of the largest panels, and as much for look-ups.
std::size_t smallest_ring(const ModelShape& shape) {
  std::size_t panel = 0, table_panel = 0;
  for (const ModelShape::Matrix& matrix : shape.matrices)
    for (const std::size_t bytes : matrix.panel_bytes) {
      panel = std::max(panel, bytes);
      if (matrix.table) table_panel = std::max(table_panel, bytes);
    }
  return 2 * panel + 2 * table_panel;
}

// What both halves of a block multiply by stays in the ring until the second has: the streamed
// bytes of the widest leg.
std::size_t widest_leg(const ModelShape& shape, const std::vector<std::vector<Tier>>& homes) {
  std::map<int, std::size_t> streamed;
  std::size_t widest = 0;
  for (std::size_t m = 0; m < homes.size(); ++m) {
    const ModelShape::Matrix& matrix = shape.matrices[m];
    if (!matrix.visited || matrix.leg < 0) continue;
    std::size_t& bytes = streamed[matrix.leg];
    for (std::size_t p = 0; p < homes[m].size(); ++p)
      if (homes[m][p] != Tier::kDevice) bytes += matrix.panel_bytes[p];
    widest = std::max(widest, bytes);
  }
  return widest;
}

}  // namespace

bool attends_on_host(const Policy& policy, bool unified) {
  return policy.cpu_attention && !unified;
}

int device_attention_layers(const Policy& policy, int layers) {
  return static_cast<int>(std::floor(policy.kv.device * layers + 1e-9));
}

PerTier<double> kv_shares(const Policy& policy, int layers, bool unified) {
  if (!attends_on_host(policy, unified)) return policy.kv;
  const double device = static_cast<double>(device_attention_layers(policy, layers)) / layers;
  const double rest = policy.kv.host + policy.kv.disk;
  if (rest <= 0) return {device, 1 - device, 0};
  return {device, (1 - device) * (policy.kv.host / rest), (1 - device) * (policy.kv.disk / rest)};
}

std::vector<std::vector<Tier>> panel_homes(const ModelShape& shape,
                                           const PerTier<double>& weights) {
  // Each panel goes to the home that is furthest behind its share; the debt runs on across parts,
  // so that no part ends more than about a panel off.
  std::vector<std::vector<Tier>> homes;
  PerTier<double> debt;  // bytes that a home should have had so far, less what it has
  for (const ModelShape::Matrix& matrix : shape.matrices) {
    PerTier<double> planned = debt;
    PerTier<std::size_t> count;
    for (const std::size_t bytes : matrix.panel_bytes) {
      Tier best = Tier::kHost;
      double most = -1;
      for (const Tier tier : kTiers) {
        planned[tier] += weights[tier] * static_cast<double>(bytes);
        if (weights[tier] > 0 && planned[tier] > most) most = planned[best = tier];
      }
      planned[best] -= static_cast<double>(bytes);
      ++count[best];
    }
    // Within a matrix one run a home, so that disk panels lie side by side. The debt is reckoned
    // with what they really got, for the last panel may be smaller than the others.
    std::vector<Tier> panels;
    for (const Tier tier : kTiers) panels.insert(panels.end(), count[tier], tier);
    for (std::size_t p = 0; p < panels.size(); ++p) {
      const auto bytes = static_cast<double>(matrix.panel_bytes[p]);
      for (const Tier tier : kTiers) debt[tier] += weights[tier] * bytes;
      debt[panels[p]] -= bytes;
    }
    homes.push_back(std::move(panels));
  }
  return homes;
}

std::size_t page_bytes(const ModelShape& shape, const Policy& policy) {
  return pages_of(static_cast<std::size_t>(policy.page_positions) * shape.kv_record_bytes);
}

std::size_t Footprint::total(Tier tier, bool unified) const {
  const std::size_t on_device = vectors + hidden + scratch + attended + wanted + lookup + ids +
                                workspace + weight_ring + kv_staging + projected + weights.device +
                                kv.device;
  const std::size_t on_host = tokenizer + weight_staging + kv_host_staging + logits_host + ids +
                              sampler + workspace_host + attention_rows + attention_workspace +
                              weights.host + kv.host;
  switch (tier) {
    case Tier::kDevice:
      return unified ? 0 : on_device;
    case Tier::kHost:
      return unified ? on_device + on_host : on_host;
    case Tier::kDisk:
      return pack + kv.disk + kv_swap;
  }
  return 0;
}

namespace {

void add_rows(Footprint& f, const ModelShape& shape, const Policy& policy, bool unified) {
  const auto rows = static_cast<std::size_t>(policy.sweep_tokens);
  const auto sequences = static_cast<std::size_t>(policy.block_sequences());

  f.vectors = shape.vector_bytes;
  // The engine pads rows to cache lines; the shape's other bytes per row are padded already.
  f.hidden = pages_of(rows * round_up(static_cast<std::size_t>(shape.hidden) * sizeof(float), 64));
  if (attends_on_host(policy, unified)) {
    f.scratch = pages_of(rows * shape.scratch_bytes_per_row);
    f.projected = pages_of(rows * shape.projected_bytes_per_row);
    f.attention_rows =
        pages_of(sequences * (shape.projected_bytes_per_row + shape.attended_bytes_per_row));
    f.attention_workspace = pages_of(shape.attention_workspace_bytes);
  } else {
    f.scratch =
        pages_of(rows * std::max(shape.scratch_bytes_per_row, shape.attention_bytes_per_row));
  }
  f.attended = pages_of(rows * shape.attended_bytes_per_row);
  f.wanted = pages_of(sequences * shape.wanted_bytes_per_row);
  f.lookup = pages_of(rows * shape.table_row_bytes);
  f.workspace = pages_of(shape.workspace_bytes.device);
  f.workspace_host = pages_of(shape.workspace_bytes.host);
  f.tokenizer = pages_of(shape.tokenizer_bytes);
  if (!unified) {
    f.logits_host = pages_of(sequences * shape.logits_row_bytes);
    f.ids = pages_of(sequences * sizeof(std::int32_t));
  }
  f.sampler = pages_of(shape.sampler_bytes);
}

void add_weights(Footprint& f, const ModelShape& shape, const Policy& policy, bool unified) {
  f.pack = shape.weight_bytes() + shape.vector_bytes;
  const bool halved = attends_on_host(policy, unified);
  std::vector<std::vector<Tier>> homes;
  if (const auto whole = std::find_if(kTiers.begin(), kTiers.end(),
                                      [&](Tier tier) { return policy.weights[tier] == 1; });
      whole != kTiers.end() && !halved) {
    f.weights[*whole] = shape.weight_bytes();
  } else {
    homes = panel_homes(shape, policy.weights);
    for (std::size_t m = 0; m < homes.size(); ++m)
      for (std::size_t p = 0; p < homes[m].size(); ++p)
        f.weights[homes[m][p]] += shape.matrices[m].panel_bytes[p];
  }
  const bool streams = f.weights.disk > 0 || (!unified && f.weights.host > 0);
  const std::size_t least = smallest_ring(shape);
  if (streams) f.weight_ring = pages_of(std::max(policy.ring_bytes, 2 * least));
  if (!unified) f.weight_staging = pages_of(std::max(f.weight_ring / 2, least));
  if (streams && halved) f.weight_ring += pages_of(widest_leg(shape, homes));
}

// The block as planned; and whatever the plan, one sequence at its longest fits, on disk if there
// is KV cache on disk.
void add_kv(Footprint& f, const ModelShape& shape, const Policy& policy, bool unified) {
  const auto layers = static_cast<std::size_t>(shape.layers);
  const auto sequences = static_cast<std::size_t>(policy.block_sequences());
  const auto pages_of_sequence = [&](int positions) {
    return divide_up(static_cast<std::size_t>(positions),
                     static_cast<std::size_t>(policy.page_positions));
  };
  const std::size_t page = page_bytes(shape, policy);
  const std::size_t longest = pages_of_sequence(policy.max_positions);
  const std::size_t planned = pages_of_sequence(policy.planned_positions());
  // A sequence's KV in one layer has one home: shares are met in whole layers of a sequence.
  const PerTier<double> shares = kv_shares(policy, shape.layers, unified);
  for (const Tier tier : kTiers) {
    f.kv[tier] = page * planned * share_of(sequences * layers, shares[tier]);
    if (shares.disk <= 0)
      f.kv[tier] = std::max(f.kv[tier], page * longest * share_of(layers, shares[tier]));
  }
  if (shares.disk > 0) {
    f.kv.disk = std::max(f.kv.disk, page * longest * layers);
    f.kv.host += page * std::max(share_of(sequences * layers, shares.disk), layers);  // tails
  }
  const double staged = shares.disk + (unified ? 0 : shares.host);
  if (staged > 0)
    f.kv_staging = std::max(static_cast<std::size_t>(std::max(policy.staged_batches, 2)) *
                                static_cast<std::size_t>(policy.gpu_batch_size) * planned,
                            longest) *
                   page;
  // Where the CPU attends to the answers, only prompts are staged: no more than a sweep takes in.
  if (attends_on_host(policy, unified) && shares.disk <= 0)
    f.kv_staging =
        std::min(f.kv_staging, 2 * (longest + pages_of_sequence(policy.sweep_tokens)) * page);
  // Sequences can outgrow the plan only where it is for less than the longest.
  if (policy.over_commit && planned < longest) f.kv_swap = f.kv.device + f.kv.host + f.kv.disk;
  // Between disk and a discrete device: pages at home on disk, or those that are put aside.
  if (!unified && shares.disk > 0)
    f.kv_host_staging = f.kv_staging;
  else if (!unified && shares.device > 0 && f.kv_swap > 0)
    f.kv_host_staging = kSwapStagingPages * page;
}

}  // namespace

Footprint footprint(const ModelShape& shape, const Policy& policy, bool unified) {
  Footprint f;
  add_rows(f, shape, policy, unified);
  add_weights(f, shape, policy, unified);
  add_kv(f, shape, policy, unified);
  return f;
}

}  // namespace barge
