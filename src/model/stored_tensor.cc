#include "model/stored_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/errors.h"

namespace barge {
namespace {

constexpr int kBlock = 32;                 // numbers of GGUF's quantised blocks
constexpr std::size_t kChunk = 256 << 10;  // bytes read at once, where rows are in order

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store_f16(std::byte* to, F16 value) { std::memcpy(to, &value, sizeof value); }

// One quantised block, whatever its type: x = scale * code + min.
struct Block {
  F16 scale{}, min{};
  const std::byte* codes = nullptr;  // Q4: i in the low nibble of byte i, i + 16 in the high one
};

[[noreturn]] void refuse_scale(const StoredTensor& tensor, float scale) {
  throw FormatError(concat(tensor.file->path().string(), ": the tensor of ", tensor.rows, " x ",
                           tensor.cols, " at offset ", tensor.offset, " has a ",
                           name_of(tensor.type), " block with the scale ", scale,
                           ", wanted a finite number; fetch the file again"));
}

Block parse_block(const StoredTensor& tensor, const std::byte* raw) {
  Block block{.scale = load<F16>(raw), .min = {}, .codes = raw + 2};
  float low = 0;
  if (tensor.type == StoredType::kQ4_0) {  // the codes' zero is 8; a power of two loses nothing
    low = -8 * to_f32(block.scale);
    block.min = to_f16(low);
  } else if (tensor.type == StoredType::kQ4_1) {
    block.min = load<F16>(raw + 2);
    block.codes = raw + 4;
  }
  const float scale = to_f32(block.scale), min = to_f32(block.min);
  if (!(scale - scale == 0)) refuse_scale(tensor, scale);
  if (!(min - min == 0)) refuse_scale(tensor, min);
  return block;
}

unsigned code_q4(const Block& block, int i) {
  const auto both = std::to_integer<unsigned>(block.codes[i % (kBlock / 2)]);
  return i < kBlock / 2 ? both & 15u : both >> 4;
}

void decode_row(const StoredTensor& tensor, const std::byte* raw, std::span<float> out) {
  switch (tensor.type) {
    case StoredType::kF32:
      std::memcpy(out.data(), raw, out.size_bytes());
      return;
    case StoredType::kF16:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_f32(load<F16>(raw + 2 * i));
      return;
    case StoredType::kBF16:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_f32(load<BF16>(raw + 2 * i));
      return;
    default:
      break;
  }
  const auto step = static_cast<std::size_t>(block_of(tensor.type).bytes);
  for (std::size_t at = 0; at < out.size(); at += kBlock, raw += step) {
    const Block block = parse_block(tensor, raw);
    const float scale = to_f32(block.scale), min = to_f32(block.min);
    for (int i = 0; i < kBlock; ++i)
      out[at + static_cast<std::size_t>(i)] =
          tensor.type == StoredType::kQ8_0
              ? scale * static_cast<float>(std::to_integer<std::int8_t>(block.codes[i]))
              : scale * static_cast<float>(code_q4(block, i)) + min;
  }
}

// Row `r` of a panel from the file's bytes of that row; nothing is rounded.
void repack_row(const StoredTensor& tensor, const std::byte* raw, const PanelLayout& layout,
                std::int64_t r, std::byte* panel) {
  std::byte* codes = panel + static_cast<std::size_t>(r) * layout.row_bytes;
  if (block_of(tensor.type).numbers == 1) {
    std::memcpy(codes, raw, layout.row_bytes);
    return;
  }
  const std::size_t first_group = 2 * static_cast<std::size_t>(r * layout.groups);
  std::byte* scales = panel + layout.scales_offset + first_group;
  std::byte* mins = panel + layout.mins_offset + first_group;
  for (std::int64_t g = 0; g < layout.groups; ++g, raw += block_of(tensor.type).bytes) {
    const Block block = parse_block(tensor, raw);
    store_f16(scales + 2 * g, block.scale);
    if (tensor.type == StoredType::kQ8_0) {
      std::memcpy(codes + kBlock * g, block.codes, kBlock);
      continue;
    }
    store_f16(mins + 2 * g, block.min);
    for (int i = 0; i < kBlock; i += 2)  // two neighbours a byte, the even one low
      codes[(kBlock * g + i) / 2] =
          static_cast<std::byte>(code_q4(block, i) | code_q4(block, i + 1) << 4);
  }
}

// Calls visit(i, bytes of row first + i) for i in [0, count).
template <typename Visit>
void for_each_row(const StoredTensor& tensor, std::int64_t first, std::int64_t count,
                  const Visit& visit) {
  if (first < 0 || count < 0 || first > tensor.rows - count)
    throw FormatError(concat("rows ", first, " to ", first + count, " were asked of a tensor of ",
                             tensor.rows, " in ", tensor.file->path().string()));
  const std::size_t row_bytes = tensor.row_bytes();
  const std::int64_t at_once =
      tensor.interleaved_head > 0
          ? 1
          : std::max<std::int64_t>(1, static_cast<std::int64_t>(kChunk / row_bytes));
  std::vector<std::byte> raw(static_cast<std::size_t>(std::min(at_once, count)) * row_bytes);
  for (std::int64_t done = 0; done < count; done += at_once) {
    const std::int64_t now = std::min(at_once, count - done);
    const auto row = static_cast<std::uint64_t>(tensor.source_row(first + done));
    tensor.file->read(tensor.offset + row * row_bytes,
                      std::span(raw).first(static_cast<std::size_t>(now) * row_bytes));
    for (std::int64_t i = 0; i < now; ++i)
      visit(done + i, raw.data() + static_cast<std::size_t>(i) * row_bytes);
  }
}

}  // namespace

StoredBlock block_of(StoredType type) {
  switch (type) {
    case StoredType::kF32:
      return {1, 4};
    case StoredType::kF16:
    case StoredType::kBF16:
      return {1, 2};
    case StoredType::kQ4_0:
      return {kBlock, 2 + kBlock / 2};
    case StoredType::kQ4_1:
      return {kBlock, 4 + kBlock / 2};
    case StoredType::kQ8_0:
      return {kBlock, 2 + kBlock};
  }
  return {};
}

std::string_view name_of(StoredType type) {
  constexpr std::array<std::string_view, 6> kNames{"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"};
  return kNames.at(static_cast<std::size_t>(type));
}

WeightFormat lossless_format(StoredType type) {
  switch (type) {
    case StoredType::kF32:
      return {.encoding = Encoding::kF32};
    case StoredType::kF16:
      return {.encoding = Encoding::kF16};
    case StoredType::kBF16:
      return {.encoding = Encoding::kBF16};
    case StoredType::kQ8_0:
      return {.encoding = Encoding::kQ8, .group = kBlock, .axis = GroupAxis::kInput};
    case StoredType::kQ4_0:
    case StoredType::kQ4_1:
      break;
  }
  return {.encoding = Encoding::kQ4, .group = kBlock, .axis = GroupAxis::kInput};
}

std::size_t StoredTensor::row_bytes() const {
  const StoredBlock block = block_of(type);
  return static_cast<std::size_t>(cols / block.numbers) * static_cast<std::size_t>(block.bytes);
}

std::int64_t StoredTensor::source_row(std::int64_t r) const {
  if (interleaved_head == 0) return r;
  const std::int64_t within = r % interleaved_head, half = interleaved_head / 2;
  return r - within + 2 * (within % half) + within / half;
}

namespace {

// A bias whose numbers are interleaved, as the column that the rows' rule applies to.
bool is_interleaved_bias(const StoredTensor& tensor) {
  return tensor.rows == 1 && tensor.cols > 1 && tensor.interleaved_head > 0 &&
         block_of(tensor.type).numbers == 1;
}

StoredTensor as_column(StoredTensor tensor) {
  std::swap(tensor.rows, tensor.cols);
  return tensor;
}

}  // namespace

void read_stored_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t count,
                      std::span<float> out) {
  if (is_interleaved_bias(tensor)) {
    if (count == 0) return;
    return read_stored_rows(as_column(tensor), 0, tensor.cols, out);
  }
  const auto cols = static_cast<std::size_t>(tensor.cols);
  for_each_row(tensor, first, count, [&](std::int64_t i, const std::byte* raw) {
    decode_row(tensor, raw, out.subspan(static_cast<std::size_t>(i) * cols, cols));
  });
}

void read_stored_panel(const StoredTensor& tensor, std::int64_t first, const PanelLayout& layout,
                       std::span<std::byte> panel) {
  if (layout.format != lossless_format(tensor.type) || layout.cols != tensor.cols ||
      panel.size() != layout.bytes)
    throw FormatError(concat("a panel of ", layout.cols, " columns in ", to_string(layout.format),
                             " and ", panel.size(), " bytes can't hold rows of ", tensor.cols,
                             " numbers in ", name_of(tensor.type)));
  std::fill(panel.begin(), panel.end(), std::byte{0});
  if (is_interleaved_bias(tensor)) {
    if (layout.rows == 0) return;
    return read_stored_panel(as_column(tensor), 0, panel_layout(layout.format, layout.cols, 1),
                             panel);
  }
  for_each_row(tensor, first, layout.rows, [&](std::int64_t i, const std::byte* raw) {
    repack_row(tensor, raw, layout, i, panel.data());
  });
}

}  // namespace barge
