#include "engine/kv_room.h"

#include <algorithm>
#include <unordered_map>
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

Bytes plus(Bytes sum, const Bytes& more) {
  for (const Tier tier : kTiers) sum[tier] += more[tier];
  return sum;
}

// Nothing where `less` is more: what is counted twice is there once.
Bytes minus(Bytes rest, const Bytes& less) {
  for (const Tier tier : kTiers) rest[tier] -= std::min(rest[tier], less[tier]);
  return rest;
}

std::size_t held(const Sequence& s) {
  const Bytes& bytes = s.demand.at(s.fed);
  return bytes.device + bytes.host + bytes.disk;
}

// How many pages of each prompt somebody needs who runs.
class Needs {
 public:
  void add(Prefix* parent, int pages) {
    for (; parent != nullptr; pages = parent->pages, parent = parent->parent) {
      int& known = pages_[parent];
      if (known >= pages) return;
      known = pages;
    }
  }
  int of(const Prefix* prefix) const {
    const auto it = pages_.find(prefix);
    return it == pages_.end() ? 0 : it->second;
  }
  /// Bytes of all of them, each counted once.
  Bytes bytes() const {
    Bytes sum;
    for (const auto& [prefix, pages] : pages_)
      sum = plus(sum, prefix->bytes_of_pages(pages - prefix->pages));
    return sum;
  }

 private:
  std::unordered_map<const Prefix*, int> pages_;
};

}  // namespace

KvRoom::KvRoom(KvStore& kv, const Policy& policy, std::size_t swap_bytes)
    : kv_(kv),
      prefixes_(kv, policy.page_positions),
      over_commit_(policy.over_commit),
      sharing_(policy.prefix_sharing),
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
  while (!make_room(live, nullptr)) {
    Sequence& s = **std::find_if(live.rbegin(), live.rend(),
                                 [](const auto& sequence) { return sequence->in_cache(); });
    ++swaps_;
    if (swap_has_room_for(s, live)) {
      leave_prompt(s, /*keep=*/false);
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
    if (!s->swapped) {
      if (!begin(*s, live)) return false;
      continue;
    }
    if (!has_room_for(*s, {}, live) || !make_room(live, s.get())) return false;
    kv_.swap_in(s->kv);
    s->swapped = false;
    register_prompt(*s, {});
    if (s->prefix != nullptr) s->prefix->kv = s->kv;
    advanced(*s);
  }
  return true;
}

// Prompts whose every position's logits are wanted are computed whole.
bool KvRoom::may_share(const Sequence& s) const { return sharing_ && !s.request.prompt_logprobs; }

KvRoom::Coming KvRoom::coming(const Sequence& next) const {
  if (!may_share(next)) return {};
  const auto& prompt = next.request.prompt;
  const Match match = prefixes_.coming(prompt, prefixes_.find(prompt));
  return match.source == nullptr ? Coming{} : Coming{match.source->owner, match.positions};
}

bool KvRoom::enter(Sequence& next, Live live) { return begin(next, live); }

// Homes that others' were chosen beside, or that a beginning is in already, might have no room for
// all of a sequence even when it is alone.
bool KvRoom::begin(Sequence& s, Live live) {
  const Match from = may_share(s) ? prefixes_.find(s.request.prompt) : Match{};
  if (from.source != nullptr && begin(s, live, from)) return true;
  const bool alone =
      std::none_of(live.begin(), live.end(), [](const auto& other) { return other->in_cache(); });
  const bool never = !within(s.demand.at(s.final_positions()), kv_.capacity());
  return (from.source == nullptr || alone || never) && begin(s, live, {});
}

bool KvRoom::begin(Sequence& s, Live live, const Match& from) {
  const int positions = s.final_positions();
  s.placement = from.source != nullptr ? from.source->placement : kv_.place(positions);
  s.demand = demand(s.placement, positions);
  if (!within(s.demand.at(positions), kv_.capacity()) || !has_room_for(s, from, live)) return false;

  const auto [parent, pages] = prefixes_.shared(from);
  register_prompt(s, from);
  Prefix* source = from.source;
  int taken = from.positions;
  if (source != nullptr) source->held = true;
  bool fits = make_room(live, &s);
  if (source != nullptr) source->held = false;
  if (!fits) {  // then only what others need as well
    fits = make_room(live, &s);
    source = parent;
    taken = pages * page_positions_;
  }
  if (!fits) {
    leave_prompt(s, /*keep=*/false);
    return false;
  }
  s.kv =
      source != nullptr ? kv_.fork(source->kv, taken, positions) : kv_.add(s.placement, positions);
  s.fed = taken;
  shared_tokens_ += static_cast<std::size_t>(taken);
  if (s.prefix != nullptr) s.prefix->kv = s.kv;
  advanced(s);
  return true;
}

void KvRoom::register_prompt(Sequence& s, const Match& from) {
  if (sharing_) s.prefix = prefixes_.add(s.id, s.request.prompt, s.placement, from);
}

void KvRoom::advanced(Sequence& s) {
  if (s.prefix != nullptr) prefixes_.computed(*s.prefix, std::min(s.fed, s.prompt_tokens()));
}

void KvRoom::leave_prompt(Sequence& s, bool keep) {
  if (s.prefix != nullptr) prefixes_.leave(*std::exchange(s.prefix, nullptr), s.fed, keep);
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
  leave_prompt(sequence, /*keep=*/true);
  if (sequence.kv >= 0) kv_.remove(std::exchange(sequence.kv, -1));
  sequence.swapped = false;
}

// What was kept goes before anybody has to.
bool KvRoom::make_room(Live live, const Sequence* next) {
  while (!next_sweep_fits(live, next))
    if (!prefixes_.shrink()) return false;
  return true;
}

// A prompt may be through with the next sweep.
bool KvRoom::next_sweep_fits(Live live, const Sequence* next) const {
  Bytes sum = prefixes_.kept_bytes();
  const auto add = [&](const Sequence& s) {
    sum = plus(sum, s.demand.at(s.prompt_left() > 0 ? s.prompt_tokens() : s.fed + 1));
    if (s.prefix != nullptr) sum = minus(sum, s.prefix->bytes_of_pages(s.prefix->pages));
  };
  for (const auto& s : live)
    if (s->in_cache()) add(*s);
  if (next != nullptr) add(*next);
  return within(sum, kv_.capacity());
}

bool KvRoom::has_room_for(const Sequence& candidate, const Match& from, Live live) const {
  Needs needs;
  const auto shared = prefixes_.shared(from);
  needs.add(shared.parent, shared.pages);
  for (const auto& s : live)
    if (s->in_cache() && s->prefix != nullptr) needs.add(s->prefix->parent, s->prefix->pages);
  Bytes for_ever = needs.bytes();  // if none ended
  if (!within(for_ever, kv_.capacity())) return false;
  const Bytes rest = minus(kv_.capacity(), for_ever);

  std::vector<KvForecast> forecasts;
  const auto foresee = [&](const Sequence& s, const Bytes& counted) {
    const bool decoding = s.prompt_left() == 0;
    const int positions = decoding ? s.fed : s.prompt_tokens();
    const int expected = expected_positions(s);
    forecasts.push_back({.demand = &s.demand,
                         .decoding = decoding,
                         .positions = positions,
                         .positions_left = expected - positions,
                         .shared = counted});
    for_ever = plus(for_ever, minus(s.demand.at(std::max(positions + 1, expected)), counted));
  };
  for (const auto& s : live) {
    if (!s->in_cache()) continue;
    const Prefix* prefix = s->prefix;
    foresee(*s, prefix == nullptr
                    ? Bytes{}
                    : prefix->bytes_of_pages(std::max(prefix->pages, needs.of(prefix))));
  }
  foresee(candidate, from.source == nullptr ? Bytes{} : from.source->bytes_of_pages(shared.pages));
  return within(for_ever, kv_.capacity()) || kv_fits(forecasts, rest);
}

// What is kept for others to come is nobody's yet.
PerTier<std::size_t> KvRoom::bytes_in_use() const {
  return minus(kv_.bytes_held(), prefixes_.kept_bytes());
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
