#include "offload/kv_placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/errors.h"

namespace barge {
namespace {

// Multiples of the golden ratio, modulo 1: the first n layers in this order lie evenly for every n.
double spread(std::size_t layer) {
  return std::fmod(static_cast<double>(layer) * 0.6180339887498949, 1.0);
}

}  // namespace

KvPlacement::KvPlacement(const PerTier<double>& share, int layers, std::optional<int> device_layers)
    : share_(share), layers_(static_cast<std::size_t>(layers)), device_layers_(layers_) {
  double sum = 0;
  for (Tier tier : kTiers) {
    by_layer_[tier].resize(layers_);
    sum += share[tier];
    if (!(share[tier] >= 0 && share[tier] <= 1))
      throw ConfigError(concat("the share of the KV cache at home in the tier ", name_of(tier),
                               " is ", share[tier], "; give a number from 0 to 1"));
  }
  if (std::abs(sum - 1) > 1e-6)
    throw ConfigError(concat("the shares of the KV cache on device, host and disk (", share.device,
                             ", ", share.host, ", ", share.disk, ") sum to ", sum,
                             "; make them sum to 1"));
  if (!device_layers) return;
  std::vector<std::size_t> order(layers_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [](std::size_t a, std::size_t b) { return spread(a) < spread(b); });
  for (std::size_t i = 0; i < std::min(layers_, static_cast<std::size_t>(*device_layers)); ++i)
    device_layers_[order[i]] = true;
  const double rest = share.host + share.disk;
  share_ = {0, rest > 0 ? share.host / rest : 1, rest > 0 ? share.disk / rest : 0};
}

std::vector<Tier> KvPlacement::choose(std::int64_t weight) const {
  // How many layers go where: each to the tier that is furthest behind. With three tiers none gets
  // ahead by more than 2/3 of a layer, nor behind by more than 5/6.
  std::vector<Tier> homes(layers_, Tier::kHost);
  std::vector<std::size_t> open;
  for (std::size_t layer = 0; layer < layers_; ++layer)
    device_layers_[layer] ? void(homes[layer] = Tier::kDevice) : open.push_back(layer);
  PerTier<std::int64_t> placed = placed_;
  PerTier<std::size_t> count;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto total = static_cast<double>(placed.device + placed.host + placed.disk + weight);
    const auto behind = [&](Tier t) {
      return share_[t] > 0 ? share_[t] * total - static_cast<double>(placed[t]) : -HUGE_VAL;
    };
    const Tier tier = *std::max_element(kTiers.begin(), kTiers.end(),
                                        [&](Tier a, Tier b) { return behind(a) < behind(b); });
    placed[tier] += weight;
    ++count[tier];
  }
  // Which layers: those that have least in the tier so far.
  for (Tier tier : {Tier::kDisk, Tier::kDevice}) {
    std::sort(open.begin(), open.end(), [&](std::size_t a, std::size_t b) {
      const auto& had = by_layer_[tier];
      return had[a] != had[b] ? had[a] < had[b] : spread(a) < spread(b);
    });
    const auto end = open.begin() + static_cast<std::ptrdiff_t>(count[tier]);
    for (auto it = open.begin(); it != end; ++it) homes[*it] = tier;
    open.erase(open.begin(), end);
  }
  return homes;
}

void KvPlacement::add(const std::vector<Tier>& homes, std::int64_t weight) {
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    if (device_layers_[layer]) continue;
    placed_[homes[layer]] += weight;
    by_layer_[homes[layer]][layer] += weight;
  }
}

}  // namespace barge
