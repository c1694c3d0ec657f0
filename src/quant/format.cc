#include "quant/format.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

constexpr std::array<std::pair<std::string_view, Encoding>, 5> kNames{{{"f32", Encoding::kF32},
                                                                       {"f16", Encoding::kF16},
                                                                       {"bf16", Encoding::kBF16},
                                                                       {"q8", Encoding::kQ8},
                                                                       {"q4", Encoding::kQ4}}};

constexpr std::size_t kAlignment = 64;  // of codes, scales and mins in a panel

bool grouped(Encoding encoding) { return encoding == Encoding::kQ8 || encoding == Encoding::kQ4; }

std::size_t code_bytes(Encoding encoding, std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  switch (encoding) {
    case Encoding::kF32:
      return 4 * n;
    case Encoding::kF16:
    case Encoding::kBF16:
      return 2 * n;
    case Encoding::kQ8:
      return n;
    case Encoding::kQ4:
      return divide_up(n, 2);
  }
  throw FormatError(concat("encoding number ", static_cast<int>(encoding), " is not known"));
}

// Bytes of (scale, min) pairs of one head in a KV record.
std::size_t pair_bytes(const KvFormat& format) {
  return format.encoding == Encoding::kQ4 ? 4 * static_cast<std::size_t>(format.groups()) : 0;
}

}  // namespace

std::string to_string(const WeightFormat& format) {
  std::string text;
  for (const auto& [name, encoding] : kNames)
    if (encoding == format.encoding) text = name;
  if (!grouped(format.encoding)) return text;
  return concat(text, ":", format.group, format.axis == GroupAxis::kInput ? ":input" : ":output");
}

WeightFormat parse_weight_format(const std::string& text) {
  const auto refuse = [&](const char* why) {
    return FormatError(concat("weight format '", text, "': ", why,
                              "; wanted f32, f16, bf16, or q8 or q4 with a group and an axis, such "
                              "as q4:64:input"));
  };
  const std::size_t colon = text.find(':');
  WeightFormat format;
  bool known = false;
  for (const auto& [name, encoding] : kNames) {
    if (name != std::string_view(text).substr(0, colon)) continue;
    format.encoding = encoding;
    known = true;
  }
  if (!known) throw refuse("the encoding is not known");
  if (colon == std::string::npos) {
    if (grouped(format.encoding)) throw refuse("the group is missing");
    return format;
  }
  if (!grouped(format.encoding)) throw refuse("this encoding has no groups");
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data() + colon + 1, end, format.group);
  if (status != std::errc{} || format.group < 1 || format.group > 65536)
    throw refuse("the group is not a number from 1 to 65536");
  const std::string_view axis(rest, static_cast<std::size_t>(end - rest));
  if (axis != ":input" && axis != ":output") throw refuse("the axis is neither input nor output");
  format.axis = axis == ":input" ? GroupAxis::kInput : GroupAxis::kOutput;
  return format;
}

PanelLayout panel_layout(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0 || (grouped(format.encoding) && format.group < 1))
    throw FormatError(concat("a panel of ", rows, " x ", cols, " in ", to_string(format),
                             " can't be laid out: sizes and group must be positive"));
  PanelLayout layout{.format = format, .rows = rows, .cols = cols};
  layout.row_bytes = code_bytes(format.encoding, cols);
  layout.bytes = layout.row_bytes * static_cast<std::size_t>(rows);
  layout.scales_offset = layout.mins_offset = layout.bytes;
  if (!grouped(format.encoding)) return layout;
  const bool input = format.axis == GroupAxis::kInput;
  layout.groups = ((input ? cols : rows) + format.group - 1) / format.group;
  const std::size_t scale_bytes =
      2 * static_cast<std::size_t>(layout.groups) * static_cast<std::size_t>(input ? rows : cols);
  layout.scales_offset = layout.mins_offset = round_up(layout.bytes, kAlignment);
  layout.bytes = layout.scales_offset + scale_bytes;
  if (format.encoding == Encoding::kQ4) {
    layout.mins_offset = round_up(layout.bytes, kAlignment);
    layout.bytes = layout.mins_offset + scale_bytes;
  }
  return layout;
}

std::size_t KvFormat::head_bytes() const { return code_bytes(encoding, head_dim); }
std::size_t KvFormat::k_offset(int head) const {
  return static_cast<std::size_t>(head) * head_bytes();
}
std::size_t KvFormat::v_offset(int head) const { return k_offset(kv_heads + head); }
std::size_t KvFormat::k_scale_offset(int head) const {
  // Pairs of f16 begin at an even address whatever the number of code bytes.
  return round_up(k_offset(2 * kv_heads), 2) + static_cast<std::size_t>(head) * pair_bytes(*this);
}
std::size_t KvFormat::v_scale_offset(int head) const { return k_scale_offset(kv_heads + head); }
std::size_t KvFormat::record_bytes() const { return round_up(k_scale_offset(2 * kv_heads), 16); }

}  // namespace barge
