#include "offload/weight_shares.h"

#include <algorithm>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

constexpr std::size_t kMaxRunBytes = 4_MiB;     // of one read of several panels
constexpr std::size_t kMaxLookupBytes = 1_MiB;  // of the panels that a look-up reads at once
constexpr std::size_t kRunsPerRing = 4;         // so that some are read while one is computed

struct Largest {
  std::size_t panel = 0, table_panel = 0;
};

Largest largest_panels(const Pack& pack) {
  Largest largest;
  for (const PackTensor& tensor : pack.tensors())
    for (const PackPanel& panel : tensor.panels) {
      largest.panel = std::max(largest.panel, panel.stored_bytes());
      if (tensor.kind == PackTensor::Kind::kTable)
        largest.table_panel = std::max(largest.table_panel, panel.stored_bytes());
    }
  return largest;
}

// Whether any matrix or table passes through the ring.
bool any_streamed(const Pack& pack, const std::vector<std::vector<Tier>>& homes, bool unified) {
  for (std::size_t t = 0; t < std::min(homes.size(), pack.tensors().size()); ++t) {
    if (pack.tensors()[t].kind == PackTensor::Kind::kVector) continue;
    for (const Tier home : homes[t])
      if (home == Tier::kDisk || (home == Tier::kHost && !unified)) return true;
  }
  return false;
}

}  // namespace

WeightShares share_weight_memory(const Pack& pack, const std::vector<std::vector<Tier>>& homes,
                                 bool unified, std::size_t ring_bytes, std::size_t staging_bytes) {
  const Largest largest = largest_panels(pack);
  const std::size_t least = smallest_weight_ring(pack);
  const bool streams = any_streamed(pack, homes, unified);
  const auto check = [&](const char* what, std::size_t bytes, const char* flag) {
    if (bytes < least)
      throw ConfigError(concat("a ", what, " of ", format_bytes(bytes),
                               " is too small for this pack: it takes at least ",
                               format_bytes(least), ", two panels of up to ",
                               format_bytes(largest.panel), "; give more memory with ", flag));
  };
  if (streams) check("weight ring", ring_bytes, unified ? "--cpu-memory" : "--gpu-memory");
  if (!unified) check("weight staging", staging_bytes, "--cpu-memory");
  WeightShares shares;
  // What look-ups use comes out of the host's side, and leaves two panels of it.
  const std::size_t host = unified ? ring_bytes : staging_bytes;
  if (largest.table_panel > 0 && (streams || !unified))
    shares.lookup = std::max(2 * largest.table_panel,
                             std::min({kMaxLookupBytes, host - 2 * largest.panel, host / 8})) /
                    kSectorBytes * kSectorBytes;
  if (streams) shares.ring = ring_bytes - (unified ? shares.lookup : 0);
  if (!unified) shares.staging = staging_bytes - shares.lookup;
  shares.run = std::min(kMaxRunBytes, streams ? shares.ring / kRunsPerRing : kMaxRunBytes);
  if (!unified) shares.run = std::min(shares.run, shares.staging / kRunsPerRing);
  return shares;
}

std::size_t smallest_weight_ring(const Pack& pack) {
  const Largest largest = largest_panels(pack);
  return 2 * largest.panel + 2 * largest.table_panel;
}

}  // namespace barge
