#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace barge {

/// A copy of a call's spans and of the pages that they list, for work that outlives the call.
class AttentionBatch {
 public:
  explicit AttentionBatch(std::span<const AttentionSpan> spans)
      : spans_(spans.begin(), spans.end()) {
    std::size_t count = 0;
    for (const AttentionSpan& span : spans_) count += span.pages.size();
    pages_.reserve(count);  // so that nothing moves below
    for (AttentionSpan& span : spans_) {
      const std::size_t first = pages_.size();
      pages_.insert(pages_.end(), span.pages.begin(), span.pages.end());
      span.pages = std::span<std::byte* const>(pages_).subspan(first);
    }
  }
  AttentionBatch(const AttentionBatch& other) : AttentionBatch(std::span(other.spans_)) {}
  AttentionBatch& operator=(const AttentionBatch&) = delete;
  AttentionBatch(AttentionBatch&&) = default;  // a moved vector keeps its elements' addresses

  std::span<const AttentionSpan> spans() const { return spans_; }

 private:
  std::vector<AttentionSpan> spans_;
  std::vector<std::byte*> pages_;
};

}  // namespace barge
