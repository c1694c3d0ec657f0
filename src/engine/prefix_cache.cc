#include "engine/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"

namespace barge {
namespace {

using Tokens = std::span<const TokenId>;

int common(Tokens a, Tokens b) {
  return static_cast<int>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

bool less(Tokens a, Tokens b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

Tokens PrefixCache::ByTokens::view(const Prefix& prefix) const {
  return whole ? Tokens(prefix.tokens)
               : Tokens(prefix.tokens).first(static_cast<std::size_t>(prefix.computed));
}

bool PrefixCache::ByTokens::operator()(const Prefix* a, const Prefix* b) const {
  if (less(view(*a), view(*b))) return true;
  return !less(view(*b), view(*a)) && a->number < b->number;
}

bool PrefixCache::ByTokens::operator()(const Prefix* a, Tokens b) const {
  return less(view(*a), b);
}

bool PrefixCache::ByTokens::operator()(Tokens a, const Prefix* b) const {
  return less(a, view(*b));
}

PrefixCache::Match PrefixCache::longest(const Order& order, Tokens prompt, int most) const {
  Match best;
  const auto consider = [&](Prefix* prefix) {
    const int positions = std::min(most, common(order.key_comp().view(*prefix), prompt));
    if (positions > best.positions) best = {prefix, positions};
  };
  const auto next = order.lower_bound(prompt);
  if (next != order.end()) consider(*next);
  if (next != order.begin()) consider(*std::prev(next));
  return best;
}

PrefixCache::Match PrefixCache::find(Tokens prompt) const {
  const Match match = longest(computed_, prompt, static_cast<int>(prompt.size()) - 1);
  return match.positions >= kLeastTokens ? match : Match{};
}

PrefixCache::Match PrefixCache::coming(Tokens prompt, const Match& now) const {
  const Match match = longest(coming_, prompt, static_cast<int>(prompt.size()) - 1);
  return match.positions >= now.positions + kLeastTokens ? match : Match{};
}

// Whoever has the pages from somebody else names that one, so that few stay for others' sake.
PrefixCache::Shared PrefixCache::shared(const Match& from) const {
  Shared shared{from.source, from.positions / page_positions_};
  if (shared.pages == 0) return {};
  while (shared.pages <= shared.parent->pages) shared.parent = shared.parent->parent;
  return shared;
}

Prefix* PrefixCache::add(std::uint64_t owner, Tokens prompt, KvStore::Placement placement,
                         const Match& from) {
  const Shared shared = this->shared(from);
  Prefix& prefix = live_.emplace_back();
  prefix.self = std::prev(live_.end());
  prefix.tokens.assign(prompt.begin(), prompt.end());
  prefix.page_bytes = kv_.bytes_at_rest(placement, page_positions_);
  prefix.placement = std::move(placement);
  prefix.owner = owner;
  prefix.parent = shared.parent;
  prefix.pages = shared.pages;
  prefix.number = ++last_number_;
  if (shared.parent != nullptr) shared.parent->children.insert(shared.pages);
  coming_.insert(&prefix);
  use(from.source);
  return &prefix;
}

// Ancestors are used, too, and last: they go after those who need them.
void PrefixCache::use(Prefix* prefix) {
  for (; prefix != nullptr; prefix = prefix->parent)
    if (prefix->owner == 0) kept_.splice(kept_.end(), kept_, prefix->self);
}

void PrefixCache::computed(Prefix& prefix, int positions) {
  if (positions == prefix.computed) return;
  computed_.erase(&prefix);
  prefix.computed = positions;
  computed_.insert(&prefix);
  if (positions == static_cast<int>(prefix.tokens.size())) coming_.erase(&prefix);
}

void PrefixCache::leave(Prefix& prefix, int fed, bool keep) {
  computed_.erase(&prefix);
  coming_.erase(&prefix);
  const int needed = prefix.children.empty() ? 0 : *prefix.children.rbegin() * page_positions_;
  const Tokens known = Tokens(prefix.tokens).first(static_cast<std::size_t>(prefix.computed));
  keep = keep &&
         prefix.computed - longest(computed_, known, prefix.computed).positions >= kLeastTokens;
  const int length = keep ? prefix.computed : needed;
  if (length == 0) return forget(prefix);
  // With what the last page has of the answer: a page that is full is nobody's tail.
  prefix.positions =
      std::min(fed, static_cast<int>(divide_up(static_cast<std::size_t>(length),
                                               static_cast<std::size_t>(page_positions_))) *
                        page_positions_);
  prefix.kv = kv_.fork(prefix.kv, prefix.positions, prefix.positions);
  prefix.tokens.resize(static_cast<std::size_t>(length));
  prefix.computed = length;
  prefix.owner = 0;
  kept_.splice(kept_.end(), live_, prefix.self);
  computed_.insert(&prefix);
  count(prefix, /*more=*/true);
  use(&prefix);
}

bool PrefixCache::shrink() {
  for (std::size_t left = kept_.size(); left > 0; --left) {
    if (shrink(kept_.front())) return true;
    kept_.splice(kept_.end(), kept_, kept_.begin());  // somebody needs all of it
  }
  return false;
}

bool PrefixCache::shrink(Prefix& prefix) {
  const int needed = prefix.children.empty() ? 0 : *prefix.children.rbegin() * page_positions_;
  if (prefix.held || needed == prefix.positions) return false;
  count(prefix, /*more=*/false);
  computed_.erase(&prefix);
  const KvStore::SequenceId old = prefix.kv;
  if (needed == 0) {
    forget(prefix);
  } else {
    prefix.kv = kv_.fork(old, needed, needed);
    prefix.positions = prefix.computed = needed;
    prefix.tokens.resize(static_cast<std::size_t>(needed));
    computed_.insert(&prefix);
    count(prefix, /*more=*/true);
  }
  kv_.remove(old);
  return true;
}

void PrefixCache::count(const Prefix& kept, bool more) {
  const PerTier<std::size_t> all = kv_.bytes_at_rest(kept.placement, kept.positions);
  const PerTier<std::size_t> others = kept.bytes_of_pages(kept.pages);
  for (const Tier tier : kTiers) {
    const std::size_t own = all[tier] - others[tier];
    more ? kept_bytes_[tier] += own : kept_bytes_[tier] -= own;
  }
}

void PrefixCache::forget(Prefix& prefix) {
  if (prefix.parent != nullptr)
    prefix.parent->children.erase(prefix.parent->children.find(prefix.pages));
  (prefix.owner == 0 ? kept_ : live_).erase(prefix.self);
}

}  // namespace barge
