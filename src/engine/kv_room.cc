#include "engine/kv_room.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "engine/admission.h"

namespace barge {
namespace {

using Bytes = PerTier<std::size_t>;

bool within(const Bytes& bytes, const Bytes& capacity) {
  return std::all_of(kTiers.begin(), kTiers.end(),
                     [&](Tier tier) { return bytes[tier] <= capacity[tier]; });
}

std::size_t held(const Sequence& s) {
  const Bytes& bytes = s.demand.at(s.fed);
  return bytes.device + bytes.host + bytes.disk;
}

}  // namespace

KvRoom::KvRoom(KvStore& kv, const Policy& policy, std::size_t swap_bytes)
    : kv_(kv),
      over_commit_(policy.over_commit),
      page_positions_(policy.page_positions),
      planned_positions_(policy.planned_positions()),
      swap_bytes_(swap_bytes) {}

// As planned; and who has come further is expected to end within a page.
int KvRoom::expected_positions(const Sequence& s) const {
  if (!over_commit_) return s.final_positions();
  const int soon = s.prompt_tokens() + static_cast<int>(s.answer.size()) + page_positions_;
  return std::min(s.final_positions(), std::max(planned_positions_, soon));
}

void KvRoom::put_aside(Live live) {
  while (!next_sweep_fits(live)) {
    Sequence& s = **std::find_if(live.rbegin(), live.rend(),
                                 [](const auto& sequence) { return sequence->in_cache(); });
    ++swaps_;
    if (swap_has_room_for(s, live)) {
      kv_.swap_out(s.kv);
      s.swapped = true;
      continue;
    }
    leave(s);
    s.fed = 0;
    if (s.answer.empty()) s.prompt_scores.clear();
    ++replays_;
  }
}

bool KvRoom::bring_back(Live live) {
  for (const auto& s : live) {
    if (s->in_cache()) continue;
    if (!has_room_for(*s, live)) return false;
    if (s->swapped)
      kv_.swap_in(s->kv);
    else
      s->kv = kv_.add(s->placement, s->final_positions());
    s->swapped = false;
  }
  return true;
}

bool KvRoom::enter(Sequence& next, Live live) {
  const int positions = next.final_positions();
  next.placement = kv_.place(positions);
  next.demand = demand(next.placement, positions);
  // Homes that are chosen beside others might have no room for all of it even when it is alone.
  if (!within(next.demand.at(positions), kv_.capacity()) || !has_room_for(next, live)) return false;
  next.kv = kv_.add(next.placement, positions);
  return true;
}

std::string KvRoom::shortage(const Sequence& next) const {
  const int positions = next.final_positions();
  const Bytes &wanted = next.demand.at(positions), &has = kv_.capacity();
  return concat("the KV cache of ", positions, " positions wants ", format_bytes(wanted.device),
                " of device memory, ", format_bytes(wanted.host), " of host memory and ",
                format_bytes(wanted.disk), " of disk, but has ", format_bytes(has.device), ", ",
                format_bytes(has.host), " and ", format_bytes(has.disk),
                "; shorten the request or give it more memory");
}

void KvRoom::leave(Sequence& sequence) {
  if (sequence.kv >= 0) kv_.remove(std::exchange(sequence.kv, -1));
  sequence.swapped = false;
}

// A prompt may be through with the next sweep.
bool KvRoom::next_sweep_fits(Live live) const {
  Bytes sum;
  for (const auto& s : live) {
    if (!s->in_cache()) continue;
    const Bytes& bytes = s->demand.at(s->prompt_left() > 0 ? s->prompt_tokens() : s->fed + 1);
    for (const Tier tier : kTiers) sum[tier] += bytes[tier];
  }
  return within(sum, kv_.capacity());
}

bool KvRoom::has_room_for(const Sequence& candidate, Live live) const {
  std::vector<KvForecast> forecasts;
  const auto foresee = [&](const Sequence& s) {
    const bool decoding = s.prompt_left() == 0;
    const int positions = decoding ? s.fed : s.prompt_tokens();
    forecasts.push_back({.demand = &s.demand,
                         .decoding = decoding,
                         .positions = positions,
                         .positions_left = expected_positions(s) - positions});
  };
  for (const auto& sequence : live)
    if (sequence->in_cache()) foresee(*sequence);
  foresee(candidate);
  return kv_fits(forecasts, kv_.capacity());
}

// Its pages at home on disk count, too: they no longer do against the cache's capacity there.
bool KvRoom::swap_has_room_for(const Sequence& candidate, Live live) const {
  std::size_t bytes = held(candidate);
  for (const auto& s : live)
    if (s->swapped) bytes += held(*s);
  return bytes <= swap_bytes_;
}

KvDemand KvRoom::demand(const KvStore::Placement& placement, int positions) const {
  std::vector<Bytes> by_pages;
  for (int n = 0; n < positions + page_positions_; n += page_positions_)
    by_pages.push_back(kv_.bytes(placement, std::min(n, positions)));
  return {page_positions_, std::move(by_pages)};
}

}  // namespace barge
