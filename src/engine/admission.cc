#include "engine/admission.h"

#include <algorithm>
#include <vector>

namespace barge {

bool kv_fits(std::span<const KvForecast> sequences, const PerTier<std::size_t>& capacity) {
  // What is held grows until a sequence ends, so it is largest in the sweeps in which one does,
  // and when all that is left has reached its full length.
  int last = 1;
  std::vector<int> sweeps;
  for (const KvForecast& s : sequences) {
    last = std::max(last, s.positions_left + 1);
    if (s.decoding) sweeps.push_back(s.positions_left);
  }
  sweeps.push_back(last);
  std::sort(sweeps.begin(), sweeps.end());
  sweeps.erase(std::unique(sweeps.begin(), sweeps.end()), sweeps.end());
  return std::all_of(sweeps.begin(), sweeps.end(), [&](int sweep) {
    PerTier<std::size_t> held;
    for (const KvForecast& s : sequences) {
      if (s.decoding && sweep > s.positions_left) continue;  // gone
      const PerTier<std::size_t>& bytes =
          s.demand->at(s.positions + std::min(sweep, s.positions_left));
      for (const Tier tier : kTiers) held[tier] += bytes[tier] - s.shared[tier];
    }
    return std::all_of(kTiers.begin(), kTiers.end(),
                       [&](Tier tier) { return held[tier] <= capacity[tier]; });
  });
}

}  // namespace barge
