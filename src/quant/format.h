#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace barge {

/// How numbers are stored.
enum class Encoding : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8,  // x = scale * code, code int8, scale f16 a group (GGUF Q8_0 for groups of 32)
  kQ4,  // x = scale * code + min, code 0..15, scale and min f16 a group (GGUF Q4_1; Q4_0 with
        // min = -8 scale)
};

/// What a tensor of a model is for.
enum class TensorKind : std::uint8_t {
  kMatrix,  // multiplied: [rows = outputs, cols = inputs]; streamed, quantised
  kTable,   // looked up row by row (and multiplied as well where the output layer is tied)
  kVector,  // norms and biases: rows = 1, f32, always in device memory
};

/// Along which dimension of a weight matrix [out, in] the numbers of a group lie.
enum class GroupAxis : std::uint8_t { kInput, kOutput };

/// How a weight matrix is stored. `group` and `axis` mean nothing for F32, F16, BF16.
struct WeightFormat {
  Encoding encoding = Encoding::kF32;
  int group = 64;
  GroupAxis axis = GroupAxis::kInput;

  bool operator==(const WeightFormat&) const = default;
};

/// "q4:64:input", "q8:32:input", "bf16"; the inverse throws FormatError.
std::string to_string(const WeightFormat& format);
WeightFormat parse_weight_format(const std::string& text);

/// Where things are in a panel: `rows` rows (output channels) of `cols` numbers (inputs).
/// In this order, each at a multiple of 64 bytes:
///   codes   [rows, row_bytes]   Q4: two a byte, even column in the low nibble; else the numbers
///   scales  [rows, groups] f16  axis kInput:  groups = ceil(cols / group), the last may be short
///           [groups, cols] f16  axis kOutput: groups = ceil(rows / group); panels begin at a group
///   mins    as scales, Q4 only
struct PanelLayout {
  WeightFormat format;
  std::int64_t rows = 0, cols = 0, groups = 0;
  std::size_t row_bytes = 0, scales_offset = 0, mins_offset = 0;
  std::size_t bytes = 0;  // used ones; in a pack rounded up to 4096
};
PanelLayout panel_layout(const WeightFormat& format, std::int64_t rows, std::int64_t cols);

/// Consecutive rows of one weight matrix, in somebody else's memory.
struct WeightPanel {
  const std::byte* data = nullptr;
  PanelLayout layout;
};

/// How the KV cache is stored: position by position, so that one can be appended or copied by
/// itself. A record holds one position of one layer:
///   k codes [kv_heads, head_bytes], v codes [kv_heads, head_bytes],
///   Q4 only: k scale and min [kv_heads, groups, 2] f16, v scale and min [kv_heads, groups, 2] f16
/// with groups = ceil(head_dim / group) along the head dimension. Encodings kF32, kF16, kQ4.
struct KvFormat {
  Encoding encoding = Encoding::kF16;
  int kv_heads = 0, head_dim = 0;
  int group = 64;

  int groups() const { return (head_dim + group - 1) / group; }
  std::size_t head_bytes() const;
  std::size_t k_offset(int head) const;
  std::size_t v_offset(int head) const;
  std::size_t k_scale_offset(int head) const;  // of the first group's (scale, min) pair
  std::size_t v_scale_offset(int head) const;
  std::size_t record_bytes() const;  // a multiple of 16
};

}  // namespace barge
