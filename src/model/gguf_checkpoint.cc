#include "model/gguf_checkpoint.h"

#include <array>
#include <string>
#include <utility>

#include "core/errors.h"
#include "model/file_checkpoint.h"
#include "model/gguf_metadata.h"

namespace barge {
namespace {

struct Name {
  std::string_view ours, theirs;
};
constexpr std::array kModelNames{Name{"embed", "token_embd.weight"},
                                 Name{"output_norm", "output_norm.weight"},
                                 Name{"output", "output.weight"}};
constexpr std::array kLayerNames{Name{"attn_norm", "attn_norm.weight"},
                                 Name{"q", "attn_q.weight"},
                                 Name{"k", "attn_k.weight"},
                                 Name{"v", "attn_v.weight"},
                                 Name{"o", "attn_output.weight"},
                                 Name{"q_bias", "attn_q.bias"},
                                 Name{"k_bias", "attn_k.bias"},
                                 Name{"v_bias", "attn_v.bias"},
                                 Name{"o_bias", "attn_output.bias"},
                                 Name{"mlp_norm", "ffn_norm.weight"},
                                 Name{"gate", "ffn_gate.weight"},
                                 Name{"up", "ffn_up.weight"},
                                 Name{"down", "ffn_down.weight"}};

std::string gguf_name(const CanonicalName& name) {
  if (name.layer < 0) {
    for (const Name& n : kModelNames)
      if (n.ours == name.tensor) return std::string(n.theirs);
  } else {
    for (const Name& n : kLayerNames)
      if (n.ours == name.tensor) return concat("blk.", name.layer, ".", n.theirs);
  }
  throw FormatError(concat("a GGUF file has no tensor for \"", name.tensor, "\""));
}

// ggml's number of a type; what barge doesn't read is named in the message.
StoredType stored_type(std::uint32_t number, const std::string& where) {
  switch (number) {
    case 0:
      return StoredType::kF32;
    case 1:
      return StoredType::kF16;
    case 2:
      return StoredType::kQ4_0;
    case 3:
      return StoredType::kQ4_1;
    case 8:
      return StoredType::kQ8_0;
    case 30:
      return StoredType::kBF16;
    default:
      break;
  }
  constexpr std::array<std::string_view, 16> kNames{"F32",  "F16",  "Q4_0", "Q4_1", "",     "",
                                                    "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K",
                                                    "Q4_K", "Q5_K", "Q6_K", "Q8_K"};
  const std::string name =
      number < kNames.size() && !kNames[number].empty() ? std::string(kNames[number]) : "unknown";
  throw FormatError(concat(where, " has ggml's type ", number, " (", name,
                           "); barge reads F32, F16, BF16, Q4_0, Q4_1 and Q8_0: fetch the model in "
                           "one of these, with no tensor of another type"));
}

class GgufCheckpoint final : public FileCheckpoint {
 public:
  explicit GgufCheckpoint(const std::filesystem::path& path) : gguf_(path) {
    config_ = config_from_gguf(gguf_);
    // llama.cpp's converter interleaves the rotary halves of the Llama architecture only.
    interleaved_ = gguf_.text("general.architecture") != "qwen2";
    Fingerprint name;
    name.add(gguf_.file(), gguf_.header_bytes());
    fingerprint_ = "gguf-" + name.hex();
  }

  TokenizerSpec tokenizer() const override { return tokenizer_spec_from_gguf(gguf_); }

 protected:
  StoredTensor locate(const TensorSpec& tensor) const override {
    const CanonicalName canonical = split_canonical_name(tensor.name);
    const std::string name = gguf_name(canonical);
    const std::string where = concat(gguf_.file().path().string(), ": tensor \"", name, "\"");
    const GgufTensor* found = gguf_.find_tensor(name);
    if (found == nullptr) throw FormatError(where + " is missing");
    StoredTensor stored{
        .file = &gguf_.file(), .offset = found->offset, .type = stored_type(found->type, where)};
    std::uint64_t rows = 1;
    for (std::size_t d = 1; d < found->dims.size(); ++d)
      rows = product(rows, found->dims[d], where);
    product(rows, found->dims[0], where);
    stored.rows = static_cast<std::int64_t>(rows);
    stored.cols = static_cast<std::int64_t>(found->dims[0]);
    const std::string& role = canonical.tensor;
    const bool rotary = role == "q" || role == "k" || role == "q_bias" || role == "k_bias";
    if (interleaved_ && rotary) stored.interleaved_head = config_.head_dim;
    return stored;
  }

 private:
  static std::uint64_t product(std::uint64_t a, std::uint64_t b, const std::string& where) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
    if (a != 0 && b > kMost / a)
      throw FormatError(
          concat(where, ": wanted fewer than 2^56 numbers, got dimensions ", a, " x ", b));
    return a * b;
  }

  const Gguf gguf_;
  bool interleaved_ = false;
};

}  // namespace

std::unique_ptr<Checkpoint> open_gguf_checkpoint(const std::filesystem::path& path) {
  return std::make_unique<GgufCheckpoint>(path);
}

}  // namespace barge
