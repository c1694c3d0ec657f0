#include "model/dummy_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/errors.h"
#include "model/input_file.h"
#include "quant/codec.h"

namespace barge {
namespace {

constexpr int kVersion = 1;  // of the numbers: packs made from others must not be found
constexpr WeightFormat kFormat{.encoding = Encoding::kQ4, .group = 64, .axis = GroupAxis::kInput};
constexpr int kBytes = 256;  // tokens of one byte each

// splitmix64's output function: independent-looking bits for each counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t hash_name(const std::string& name) {
  std::uint64_t hash = 0;
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

void store_f16(std::byte* to, float value) {
  const F16 half = to_f16(value);
  std::memcpy(to, &half, sizeof half);
}

// Uniform codes have the standard deviation 4.61 and the mean 7.5. Scales of 3/4 to 3/2 of 2^-8
// give 0.02 over all, and an exact min in f16.
void fill_row(std::uint64_t key, const PanelLayout& layout, std::int64_t r, std::byte* panel) {
  std::byte* codes = panel + static_cast<std::size_t>(r) * layout.row_bytes;
  std::uint64_t counter = key;
  for (std::size_t at = 0; at < layout.row_bytes; at += sizeof counter) {
    const std::uint64_t bits = mix(counter++);
    std::memcpy(codes + at, &bits, std::min(sizeof bits, layout.row_bytes - at));
  }
  if (layout.cols % 2 != 0) codes[layout.row_bytes - 1] &= std::byte{0x0f};
  for (std::int64_t g = 0; g < layout.groups; ++g) {
    const float scale = 0x1p-8f * (0.75f + 0.25f * static_cast<float>(mix(counter++) & 3));
    const std::size_t at = 2 * static_cast<std::size_t>(r * layout.groups + g);
    store_f16(panel + layout.scales_offset + at, scale);
    store_f16(panel + layout.mins_offset + at, -7.5f * scale);
  }
}

class DummyCheckpoint final : public Checkpoint {
 public:
  explicit DummyCheckpoint(ModelConfig config) : config_(std::move(config)) {
    if (config_.vocab <= kBytes)
      throw FormatError(concat("dummy model \"", config_.name,
                               "\": wanted a vocabulary of more than ", kBytes, " tokens, got ",
                               config_.vocab));
  }

  const ModelConfig& config() const override { return config_; }
  TokenizerSpec tokenizer() const override { return dummy_tokenizer_spec(config_.vocab); }

  std::string fingerprint() const override {
    Fingerprint name;
    name.add(std::uint64_t{kVersion});
    name.add(config_to_json(config_));
    return "dummy-" + name.hex();
  }

  WeightFormat stored_format(const TensorSpec& tensor) const override {
    return tensor.kind == TensorSpec::Kind::kVector ? WeightFormat{} : kFormat;
  }

  void read_rows(const TensorSpec& tensor, std::int64_t first, std::int64_t count,
                 std::span<float> out) const override {
    check_rows(tensor, first, count);
    const auto cols = static_cast<std::size_t>(tensor.cols);
    if (tensor.kind == TensorSpec::Kind::kVector) {
      const std::uint64_t key = hash_name(tensor.name);
      const bool bias = tensor.name.ends_with("_bias");
      for (std::size_t i = 0; i < cols * static_cast<std::size_t>(count); ++i)
        out[i] = bias ? 0x1p-60f * static_cast<float>(static_cast<std::int64_t>(mix(key + i)) >> 8)
                      : 1.0f;
      return;
    }
    const PanelLayout layout = panel_layout(kFormat, 1, tensor.cols);
    std::vector<std::byte> panel(layout.bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      fill_row(row_key(tensor, first + i), layout, 0, panel.data());
      decode_panel_row(layout, panel, 0, out.subspan(static_cast<std::size_t>(i) * cols, cols));
    }
  }

  void read_panel(const TensorSpec& tensor, std::int64_t first, const PanelLayout& layout,
                  std::span<std::byte> panel) const override {
    check_rows(tensor, first, layout.rows);
    if (layout.format != stored_format(tensor) || layout.cols != tensor.cols ||
        panel.size() != layout.bytes)
      throw FormatError(concat("a panel of ", layout.cols, " columns in ", to_string(layout.format),
                               " can't hold dummy rows of ", tensor.cols));
    std::fill(panel.begin(), panel.end(), std::byte{0});
    if (tensor.kind == TensorSpec::Kind::kVector) {
      std::vector<float> row(static_cast<std::size_t>(layout.rows * tensor.cols));
      read_rows(tensor, first, layout.rows, row);
      std::memcpy(panel.data(), row.data(), row.size() * sizeof(float));
      return;
    }
    for (std::int64_t i = 0; i < layout.rows; ++i)
      fill_row(row_key(tensor, first + i), layout, i, panel.data());
  }

 private:
  static std::uint64_t row_key(const TensorSpec& tensor, std::int64_t row) {
    return mix(hash_name(tensor.name) ^ mix(static_cast<std::uint64_t>(row)));
  }

  static void check_rows(const TensorSpec& tensor, std::int64_t first, std::int64_t count) {
    if (first < 0 || count < 0 || first > tensor.rows - count)
      throw FormatError(concat("rows ", first, " to ", first + count, " were asked of the ",
                               tensor.rows, " of \"", tensor.name, "\""));
  }

  const ModelConfig config_;
};

// Appends a character below U+0800 in UTF-8.
void append_utf8(std::string& text, unsigned code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else {
    text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

}  // namespace

std::unique_ptr<Checkpoint> make_dummy_checkpoint(ModelConfig config) {
  return std::make_unique<DummyCheckpoint>(std::move(config));
}

TokenizerSpec dummy_tokenizer_spec(int vocab) {
  TokenizerSpec spec;
  spec.tokens.reserve(static_cast<std::size_t>(vocab));
  // GPT-2's alphabet of bytes: visible characters stand for themselves, the others for U+0100 on.
  unsigned next_hidden = 256;
  for (unsigned byte = 0; byte < kBytes; ++byte) {
    const bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    append_utf8(spec.tokens.emplace_back(), visible ? byte : next_hidden++);
  }
  for (int id = kBytes; id < vocab - 1; ++id)
    spec.tokens.push_back(concat("\u0120w", id));  // a blank, then a word that no merge makes
  spec.tokens.push_back("<|endoftext|>");
  spec.types.assign(spec.tokens.size(), TokenizerSpec::TokenType::kNormal);
  spec.types.back() = TokenizerSpec::TokenType::kControl;
  spec.eos = {vocab - 1};
  spec.pad = vocab - 1;
  spec.pre_tokenizer = "gpt-2";
  spec.chat_template =
      "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";
  return spec;
}

}  // namespace barge
