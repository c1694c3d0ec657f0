#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "model/tokenizer_spec.h"
#include "offload/kv_store.h"

namespace barge {

/// A prompt whose KV is in the cache: a live sequence's, or one that was kept when its sequence
/// ended. What it has from a parent is counted there: each page has one who counts it.
struct Prefix {
  std::vector<TokenId> tokens;
  int computed = 0;  // of them: what others may take over
  KvStore::SequenceId kv = -1;
  KvStore::Placement placement;
  std::uint64_t owner = 0;      // the live sequence; 0: kept
  Prefix* parent = nullptr;     // has the first `pages` pages of each layer, too; none: pages = 0
  int pages = 0;                // and all others are its own
  std::multiset<int> children;  // how many pages each of those has that name it as parent
  int positions = 0;            // kept: in the KV cache, its last page's answer included
  bool held = false;            // kept: not to be shrunk now
  PerTier<std::size_t> page_bytes;  // of one page in each layer
  std::uint64_t number = 0;         // counts up
  std::list<Prefix>::iterator self;

  PerTier<std::size_t> bytes_of_pages(int n) const {
    const auto times = static_cast<std::size_t>(n);
    return {page_bytes.device * times, page_bytes.host * times, page_bytes.disk * times};
  }
};

/// Finds prompts that begin alike, and keeps those of ended sequences until their room is wanted.
/// Prompts are in the order of their tokens, so that the one that has most in common with another
/// stands next to it; nothing is hashed, and prefixes are as long as they are, not whole pages.
/// Knows token ids and the KV store, nothing of scheduling. One thread.
class PrefixCache {
 public:
  /// Shorter common beginnings aren't worth the copies, nor a prompt that adds less to be kept.
  static constexpr int kLeastTokens = 16;

  PrefixCache(KvStore& kv, int page_positions) : kv_(kv), page_positions_(page_positions) {}

  struct Match {
    Prefix* source = nullptr;  // none: nothing in common
    int positions = 0;
  };
  /// The longest beginning of `prompt` that is computed. Its last token never is: somebody wants
  /// its logits.
  Match find(std::span<const TokenId> prompt) const;
  /// The longest that a live sequence will have computed, if it is worth waiting for beside what
  /// find() gave.
  Match coming(std::span<const TokenId> prompt, const Match& now) const;

  /// The prompt of a live sequence, which takes over `from`, as yet without KV. Nobody takes
  /// anything over from it before its `computed`.
  Prefix* add(std::uint64_t owner, std::span<const TokenId> prompt, KvStore::Placement placement,
              const Match& from);
  /// So many positions of a live sequence's prompt are computed.
  void computed(Prefix& prefix, int positions);
  /// The live sequence, which has `fed` positions in the KV cache, is about to leave it. What
  /// others need of its prompt is kept; more of it where that is wanted, and worth it.
  void leave(Prefix& prefix, int fed, bool keep);

  /// Gives back room of what was kept: all that nobody needs of the one that was used least
  /// recently. False: nothing is left to give.
  bool shrink();
  /// Bytes of all that is kept, beyond what parents count.
  const PerTier<std::size_t>& kept_bytes() const { return kept_bytes_; }
  /// Who counts the pages that somebody who takes over `from` doesn't count, and how many.
  struct Shared {
    Prefix* parent = nullptr;
    int pages = 0;
  };
  Shared shared(const Match& from) const;

 private:
  using Tokens = std::span<const TokenId>;
  struct ByTokens {
    using is_transparent = void;
    bool whole;  // else: as far as they are computed
    bool operator()(const Prefix* a, const Prefix* b) const;
    bool operator()(const Prefix* a, Tokens b) const;
    bool operator()(Tokens a, const Prefix* b) const;
    Tokens view(const Prefix& prefix) const;
  };
  using Order = std::set<Prefix*, ByTokens>;

  Match longest(const Order& order, Tokens prompt, int most) const;
  void use(Prefix* prefix);
  bool shrink(Prefix& prefix);
  void count(const Prefix& kept, bool more);
  void forget(Prefix& prefix);

  KvStore& kv_;
  const int page_positions_;
  std::list<Prefix> live_, kept_;             // kept: least recently used first
  Order computed_{ByTokens{.whole = false}};  // those that have anything to give
  Order coming_{ByTokens{.whole = true}};     // live ones that aren't through their prompt
  PerTier<std::size_t> kept_bytes_;
  std::uint64_t last_number_ = 0;
};

}  // namespace barge
