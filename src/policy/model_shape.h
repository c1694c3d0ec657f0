#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tier.h"

namespace barge {

/// What plans need to know of a model at given bits: sizes and operations, no bytes of it.
struct ModelShape {
  /// A matrix that a sweep multiplies by, cut into panels.
  struct Matrix {
    std::string name;
    int part = 0;  // index in the sweep; homes are spread evenly over parts
    std::int64_t rows = 0, cols = 0;
    std::vector<std::size_t> panel_bytes;  // stored ones
    bool table = false;                    // looked up too (tied), or only (visited == false)
    bool visited = true;
    int leg = -1;  // where the CPU attends: those that one half of the block goes through at a time
  };

  std::string name;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, context = 0;
  std::vector<Matrix> matrices;             // in sweep order, a tied table once
  std::size_t vector_bytes = 0;             // norms and biases
  std::size_t kv_record_bytes = 0;          // one position in one layer
  std::size_t scratch_bytes_per_row = 0;    // of the part that wants most; q, k, v aside
  std::size_t attention_bytes_per_row = 0;  // scratch of attention, with q, k, v
  std::size_t projected_bytes_per_row = 0;  // q, k, v
  std::size_t attended_bytes_per_row = 0;   // what comes of attention
  std::size_t wanted_bytes_per_row = 0;     // output part, logits included
  std::size_t logits_row_bytes = 0;      // of them the logits, copied to a discrete device's host
  std::size_t sampler_bytes = 0;         // host scratch for drawing one token
  std::size_t table_row_bytes = 0;       // encoded rows of all tables looked up for one token
  PerTier<std::size_t> workspace_bytes;  // of the kernel table
  std::size_t attention_workspace_bytes = 0;  // of the CPU kernels, where they attend
  std::size_t tokenizer_bytes = 0;

  std::size_t weight_bytes() const;         // of all matrices
  std::size_t largest_panel_bytes() const;  // of visited ones
  std::int64_t parameters() const;          // that multiply
};

}  // namespace barge
