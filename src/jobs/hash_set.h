#pragma once

#include <cstddef>
#include <vector>

#include "jobs/hash.h"

namespace barge {

/// A set of hashes, 16 bytes a slot and at most three slots in four taken: a job of a million lines
/// needs 32 MiB to know its custom_ids.
class HashSet {
 public:
  /// False if it is there already.
  bool insert(Hash128 hash) {
    if (hash == Hash128{}) hash.low = 1;  // all zero marks a free slot
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    if (!place(hash)) return false;
    ++size_;
    return true;
  }
  std::size_t size() const { return size_; }

 private:
  bool place(const Hash128& hash) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = mix64(hash.high ^ hash.low) & mask;; i = (i + 1) & mask) {
      if (slots_[i] == hash) return false;
      if (slots_[i] == Hash128{}) {
        slots_[i] = hash;
        return true;
      }
    }
  }
  void grow() {
    std::vector<Hash128> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    for (const Hash128& hash : old)
      if (hash != Hash128{}) place(hash);
  }

  std::vector<Hash128> slots_;  // a power of two of them
  std::size_t size_ = 0;
};

}  // namespace barge
