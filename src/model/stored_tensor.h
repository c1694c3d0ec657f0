#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "model/input_file.h"
#include "quant/format.h"

namespace barge {

/// How the numbers of a checkpoint's tensor are stored in its file.
enum class StoredType : std::uint8_t { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ8_0 };

/// Consecutive numbers that share a scale, and the bytes that they take.
struct StoredBlock {
  int numbers = 1;
  int bytes = 0;
};
StoredBlock block_of(StoredType type);
std::string_view name_of(StoredType type);
/// The format that keeps such numbers without loss.
WeightFormat lossless_format(StoredType type);

/// A matrix in a checkpoint's file: [rows, cols], row-major, rows whole blocks. The file must
/// outlive it; that all of it lies in the file was checked.
struct StoredTensor {
  const InputFile* file = nullptr;
  std::uint64_t offset = 0;
  StoredType type = StoredType::kF32;
  std::int64_t rows = 0, cols = 0;
  /// Rows of each head whose two rotary halves are interleaved in the file, as GGUF keeps q and k
  /// of the Llama family; 0: rows lie in order. Of a bias (one row) the numbers are interleaved.
  std::int64_t interleaved_head = 0;

  std::size_t row_bytes() const;
  /// Row of the file that holds row `r` of the matrix.
  std::int64_t source_row(std::int64_t r) const;
};

/// Rows [first, first + count) as f32. out [count, cols]. Blocks; throws IoError, and FormatError
/// for a scale that is not a finite number.
void read_stored_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t count,
                      std::span<float> out);

/// Rows [first, first + layout.rows) as a panel; layout.format must be lossless_format(type).
/// panel has layout.bytes, of which the padding becomes 0.
void read_stored_panel(const StoredTensor& tensor, std::int64_t first, const PanelLayout& layout,
                       std::span<std::byte> panel);

}  // namespace barge
