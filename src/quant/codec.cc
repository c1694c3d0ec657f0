#include "quant/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "core/errors.h"

namespace barge {
namespace {

// The values of one group lie `step` apart, from `first` on.
struct Group {
  const float* first;
  std::int64_t step, count;

  float operator[](std::int64_t i) const { return first[i * step]; }
};

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Affine {
  F16 scale, min;
};

// Scale and min as they are stored; codes are chosen with these rounded values.
Affine fit_q4(const Group& group) {
  float low = group[0], high = group[0];
  for (std::int64_t i = 1; i < group.count; ++i) {
    low = std::min(low, group[i]);
    high = std::max(high, group[i]);
  }
  return {to_f16((high - low) / 15.0f), to_f16(low)};
}

float inverse_or_zero(float scale) { return scale > 0 ? 1.0f / scale : 0.0f; }

unsigned q4_code(float x, float low, float inverse) {
  const float code = std::nearbyint((x - low) * inverse);
  return code > 0 ? static_cast<unsigned>(std::min(code, 15.0f)) : 0;  // NaN (KV only) becomes 0
}

void set_nibble(std::byte* codes, std::int64_t i, unsigned code) {
  std::byte& at = codes[i / 2];
  at = i % 2 == 0 ? (at & std::byte{0xf0}) | std::byte(code)
                  : (at & std::byte{0x0f}) | std::byte(code << 4);
}

unsigned nibble(const std::byte* codes, std::int64_t i) {
  return (std::to_integer<unsigned>(codes[i / 2]) >> (i % 2 * 4)) & 15u;
}

void require_finite(const PanelLayout& layout, std::span<const float> rows) {
  // What f16 can't hold would become infinite as a number, a scale or a min.
  const bool narrow =
      layout.format.encoding != Encoding::kF32 && layout.format.encoding != Encoding::kBF16;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!(std::fabs(rows[i]) < (narrow ? 65520.0f : INFINITY)))
      throw FormatError(concat(
          "can't store ", rows[i], " (row ", i / static_cast<std::size_t>(layout.cols), ", column ",
          i % static_cast<std::size_t>(layout.cols), ") as ", to_string(layout.format),
          narrow ? ": wanted a finite number that 16 bits can hold" : ": wanted a finite number"));
}

// Calls visit(group, row of its first number, column of it, index of its scale).
template <typename Visit>
void for_each_group(const PanelLayout& layout, std::span<const float> rows, const Visit& visit) {
  const std::int64_t size = layout.format.group;
  if (layout.format.axis == GroupAxis::kInput) {
    for (std::int64_t r = 0; r < layout.rows; ++r)
      for (std::int64_t g = 0; g < layout.groups; ++g)
        visit(Group{&rows[r * layout.cols + g * size], 1, std::min(size, layout.cols - g * size)},
              r, g * size, r * layout.groups + g);
  } else {
    for (std::int64_t g = 0; g < layout.groups; ++g)
      for (std::int64_t c = 0; c < layout.cols; ++c)
        visit(Group{&rows[g * size * layout.cols + c], layout.cols,
                    std::min(size, layout.rows - g * size)},
              g * size, c, g * layout.cols + c);
  }
}

void encode_grouped(const PanelLayout& layout, std::span<const float> rows, std::byte* panel) {
  const bool q4 = layout.format.encoding == Encoding::kQ4;
  const bool along_cols = layout.format.axis == GroupAxis::kInput;
  for_each_group(
      layout, rows,
      [&](const Group& group, std::int64_t row, std::int64_t col, std::int64_t scale_idx) {
        Affine affine{};
        if (q4) {
          affine = fit_q4(group);
          store(panel + layout.mins_offset + 2 * scale_idx, affine.min);
        } else {
          float most = 0;
          for (std::int64_t i = 0; i < group.count; ++i) most = std::max(most, std::fabs(group[i]));
          affine.scale = to_f16(most / 127.0f);
        }
        store(panel + layout.scales_offset + 2 * scale_idx, affine.scale);
        const float inverse = inverse_or_zero(to_f32(affine.scale)), low = to_f32(affine.min);
        for (std::int64_t i = 0; i < group.count; ++i) {
          const std::int64_t r = along_cols ? row : row + i, c = along_cols ? col + i : col;
          std::byte* codes = panel + static_cast<std::size_t>(r) * layout.row_bytes;
          if (q4)
            set_nibble(codes, c, q4_code(group[i], low, inverse));
          else
            store(codes + c, static_cast<std::int8_t>(
                                 std::clamp(std::nearbyint(group[i] * inverse), -127.0f, 127.0f)));
        }
      });
}

// One head of K or V: codes and, if Q4, its pairs of scale and min.
void encode_head(const KvFormat& format, const float* x, std::byte* codes, std::byte* pairs) {
  switch (format.encoding) {
    case Encoding::kF32:
      std::memcpy(codes, x, format.head_bytes());
      return;
    case Encoding::kF16:
      for (int i = 0; i < format.head_dim; ++i) store(codes + 2 * i, to_f16(x[i]));
      return;
    default:
      std::memset(codes, 0, format.head_bytes());
      for (int g = 0; g < format.groups(); ++g) {
        const int first = g * format.group, count = std::min(format.group, format.head_dim - first);
        const Affine affine = fit_q4(Group{x + first, 1, count});
        store(pairs + 4 * g, affine);
        const float inverse = inverse_or_zero(to_f32(affine.scale)), low = to_f32(affine.min);
        for (int i = first; i < first + count; ++i)
          set_nibble(codes, i, q4_code(x[i], low, inverse));
      }
  }
}

void decode_head(const KvFormat& format, const std::byte* codes, const std::byte* pairs, float* x) {
  switch (format.encoding) {
    case Encoding::kF32:
      std::memcpy(x, codes, format.head_bytes());
      return;
    case Encoding::kF16:
      for (int i = 0; i < format.head_dim; ++i) x[i] = to_f32(load<F16>(codes + 2 * i));
      return;
    default:
      for (int i = 0; i < format.head_dim; ++i) {
        const auto affine = load<Affine>(pairs + 4 * (i / format.group));
        x[i] = to_f32(affine.scale) * static_cast<float>(nibble(codes, i)) + to_f32(affine.min);
      }
  }
}

void require_kv_encoding(const KvFormat& format) {
  if (format.encoding == Encoding::kF32 || format.encoding == Encoding::kF16 ||
      (format.encoding == Encoding::kQ4 && format.group >= 1))
    return;
  throw ConfigError(concat("the KV cache can't be stored as ",
                           to_string(WeightFormat{format.encoding, format.group}),
                           "; --kv-bits takes 32, 16 or 4"));
}

}  // namespace

void encode_panel(const PanelLayout& layout, std::span<const float> rows,
                  std::span<std::byte> panel) {
  const auto count = static_cast<std::size_t>(layout.rows * layout.cols);
  if (rows.size() != count || panel.size() < layout.bytes)
    throw FormatError(concat("a panel of ", layout.rows, " x ", layout.cols, " in ",
                             to_string(layout.format), " takes ", count, " numbers and ",
                             layout.bytes, " bytes, got ", rows.size(), " and ", panel.size()));
  require_finite(layout, rows);
  std::memset(panel.data(), 0, layout.bytes);
  std::byte* to = panel.data();
  switch (layout.format.encoding) {
    case Encoding::kF32:
      if (count != 0) std::memcpy(to, rows.data(), 4 * count);
      return;
    case Encoding::kF16:
      for (std::size_t i = 0; i < count; ++i) store(to + 2 * i, to_f16(rows[i]));
      return;
    case Encoding::kBF16:
      for (std::size_t i = 0; i < count; ++i) store(to + 2 * i, to_bf16(rows[i]));
      return;
    case Encoding::kQ8:
    case Encoding::kQ4:
      encode_grouped(layout, rows, to);
  }
}

void decode_panel_row(const PanelLayout& layout, std::span<const std::byte> panel, std::int64_t row,
                      std::span<float> out) {
  if (row < 0 || row >= layout.rows || panel.size() < layout.bytes ||
      out.size() < static_cast<std::size_t>(layout.cols))
    throw FormatError(concat("row ", row, " of a panel of ", layout.rows, " x ", layout.cols,
                             " in ", layout.bytes, " bytes can't be read from ", panel.size(),
                             " bytes into ", out.size(), " numbers"));
  const std::byte* codes = panel.data() + static_cast<std::size_t>(row) * layout.row_bytes;
  const bool input = layout.format.axis == GroupAxis::kInput;
  const std::int64_t group = layout.format.group;
  const auto scale_idx = [&](std::int64_t c) {
    return input ? row * layout.groups + c / group : row / group * layout.cols + c;
  };
  const auto scale = [&](std::int64_t c) {
    return to_f32(load<F16>(panel.data() + layout.scales_offset + 2 * scale_idx(c)));
  };
  const auto low = [&](std::int64_t c) {
    return to_f32(load<F16>(panel.data() + layout.mins_offset + 2 * scale_idx(c)));
  };
  for (std::int64_t c = 0; c < layout.cols; ++c) switch (layout.format.encoding) {
      case Encoding::kF32:
        out[c] = load<float>(codes + 4 * c);
        break;
      case Encoding::kF16:
        out[c] = to_f32(load<F16>(codes + 2 * c));
        break;
      case Encoding::kBF16:
        out[c] = to_f32(load<BF16>(codes + 2 * c));
        break;
      case Encoding::kQ8:
        out[c] = scale(c) * static_cast<float>(load<std::int8_t>(codes + c));
        break;
      case Encoding::kQ4:
        out[c] = scale(c) * static_cast<float>(nibble(codes, c)) + low(c);
    }
}

void encode_kv(const KvFormat& format, std::span<const float> k, std::span<const float> v,
               std::span<std::byte> record) {
  require_kv_encoding(format);
  std::memset(record.data(), 0, format.record_bytes());
  for (int head = 0; head < format.kv_heads; ++head) {
    const auto at = static_cast<std::size_t>(head) * static_cast<std::size_t>(format.head_dim);
    encode_head(format, k.data() + at, record.data() + format.k_offset(head),
                record.data() + format.k_scale_offset(head));
    encode_head(format, v.data() + at, record.data() + format.v_offset(head),
                record.data() + format.v_scale_offset(head));
  }
}

void decode_kv(const KvFormat& format, std::span<const std::byte> record, std::span<float> k,
               std::span<float> v) {
  require_kv_encoding(format);
  for (int head = 0; head < format.kv_heads; ++head) {
    const auto at = static_cast<std::size_t>(head) * static_cast<std::size_t>(format.head_dim);
    decode_head(format, record.data() + format.k_offset(head),
                record.data() + format.k_scale_offset(head), k.data() + at);
    decode_head(format, record.data() + format.v_offset(head),
                record.data() + format.v_scale_offset(head), v.data() + at);
  }
}

double relative_rms_error(std::span<const float> exact, std::span<const float> approximate) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = static_cast<double>(exact[i]) - static_cast<double>(approximate[i]);
    error += difference * difference;
    power += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
  }
  return power > 0 ? std::sqrt(error / power) : error > 0 ? INFINITY : 0.0;
}

}  // namespace barge
