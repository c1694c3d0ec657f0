#include "model/tokenizer_bpe.h"

#include <algorithm>
#include <bit>

#include "core/errors.h"

namespace barge {

Bpe::Bpe(const Vocab& vocab, const std::vector<std::string>& merges) {
  if (merges.size() >= kNone / 2)
    throw FormatError(concat("the tokenizer has ", merges.size(), " merges: too many"));
  merges_.reserve(merges.size());
  slots_.assign(std::bit_ceil(merges.size() * 5 / 4 + 1), kNone);
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto fail = [&](const char* what) {
      throw FormatError(concat("merge ", i, " of the tokenizer, '", merges[i], "', ", what));
    };
    const std::size_t blank = merges[i].find(' ');
    if (blank == std::string::npos) fail("is not two tokens with a blank between them");
    const std::string left = decode_byte_level(std::string_view(merges[i]).substr(0, blank));
    const std::string right = decode_byte_level(std::string_view(merges[i]).substr(blank + 1));
    const Merge merge{vocab.find(left), vocab.find(right), vocab.find(left + right)};
    if (merge.left < 0 || merge.right < 0) fail("joins a token that is not in the vocabulary");
    if (merge.result < 0) fail("makes a token that is not in the vocabulary");
    merges_.push_back(merge);
    slots_[slot(merge.left, merge.right)] = static_cast<std::uint32_t>(i);  // of twins the last
  }
}

// Where the pair is, or the free place where it would be.
std::size_t Bpe::slot(TokenId left, TokenId right) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t key =
      std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  std::size_t at = (key * 0x9E3779B97F4A7C15u >> 32) & mask;  // Fibonacci hashing: 2^64 / phi
  while (slots_[at] != kNone) {
    const Merge& merge = merges_[slots_[at]];
    if (merge.left == left && merge.right == right) break;
    at = (at + 1) & mask;
  }
  return at;
}

std::uint32_t Bpe::rank(TokenId left, TokenId right) const { return slots_[slot(left, right)]; }

namespace {

// For the standard heap, which keeps the greatest on top.
constexpr auto kWorse = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
};

}  // namespace

void Bpe::push_candidate(Scratch& scratch, std::int32_t at) const {
  if (at < 0) return;
  const Scratch::Symbol& left = scratch.symbols[at];
  if (left.next < 0) return;
  const std::uint32_t found = rank(left.id, scratch.symbols[left.next].id);
  if (found == kNone) return;
  scratch.heap.push_back({found, at});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), kWorse);
}

void Bpe::encode(const Vocab& vocab, std::string_view word, TokenId unk, Scratch& scratch,
                 std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  for (const char byte : word) {
    TokenId id = vocab.find_byte(static_cast<unsigned char>(byte));
    if (id < 0) id = unk;
    if (id < 0) continue;
    const auto at = static_cast<std::int32_t>(symbols.size());
    if (at > 0) symbols.back().next = at;
    symbols.push_back({id, at - 1, -1});
  }
  if (symbols.empty()) return;
  const auto num_symbols = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t at = 0; at < num_symbols; ++at) push_candidate(scratch, at);

  while (!heap.empty()) {
    const Scratch::Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), kWorse);
    heap.pop_back();
    Scratch::Symbol& left = symbols[best.at];
    // Stale where one of the two has been merged with another since.
    if (left.id < 0 || left.next < 0) continue;
    Scratch::Symbol& right = symbols[left.next];
    if (rank(left.id, right.id) != best.rank) continue;
    left.id = merges_[best.rank].result;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].prev = best.at;
    push_candidate(scratch, left.prev);
    push_candidate(scratch, best.at);
  }
  for (std::int32_t at = 0; at >= 0; at = symbols[at].next) out.push_back(symbols[at].id);
}

std::size_t Bpe::bytes() const {
  return sizeof *this + merges_.capacity() * sizeof merges_[0] +
         slots_.capacity() * sizeof slots_[0];
}

}  // namespace barge
