#include "model/gguf_metadata.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "core/errors.h"
#include "model/input_file.h"

namespace barge {
namespace {

constexpr std::array<std::string_view, 3> kArchitectures{"llama", "qwen2", "mistral"};

// Divisors of the inverse frequencies (Llama 3's long context), [head_dim / 2] f32.
std::vector<float> rope_factors(const Gguf& gguf) {
  const GgufTensor* tensor = gguf.find_tensor("rope_freqs.weight");
  if (tensor == nullptr) return {};
  constexpr std::uint64_t kMost = 1 << 12;
  if (tensor->type != 0 || tensor->dims.size() != 1 || tensor->dims[0] > kMost)
    throw FormatError(concat(gguf.file().path().string(), ": tensor \"rope_freqs.weight\": wanted ",
                             "one dimension of at most ", kMost, " F32 numbers"));
  std::vector<float> factors(tensor->dims[0]);
  gguf.file().read(tensor->offset, std::as_writable_bytes(std::span(factors)));
  return factors;
}

int vocabulary(const Gguf& gguf) {
  const GgufTensor* table = gguf.find_tensor("token_embd.weight");
  if (table == nullptr || table->dims.size() != 2 ||
      table->dims[1] > std::uint64_t{std::numeric_limits<int>::max()})
    throw FormatError(
        concat(gguf.file().path().string(),
               ": wanted a tensor \"token_embd.weight\" of two dimensions, got ",
               table == nullptr ? "none; is it a vocabulary only?" : "another shape"));
  return static_cast<int>(table->dims[1]);
}

void refuse_what_is_not_run(const Gguf& gguf, const std::string& arch) {
  const std::string file = gguf.file().path().string();
  if (std::find(kArchitectures.begin(), kArchitectures.end(), arch) == kArchitectures.end())
    throw FormatError(concat(file, " is a model of the architecture \"", arch,
                             "\"; barge runs llama, mistral and qwen2 from GGUF"));
  if (gguf.integer("split.count", 1) > 1)
    throw FormatError(concat(file, " is one of ", gguf.integer("split.count"),
                             " parts; merge them first (llama-gguf-split --merge)"));
  if (gguf.has(arch + ".expert_count") && gguf.integer(arch + ".expert_count") > 0)
    throw FormatError(concat(file, " is a mixture of experts, which barge doesn't run yet"));
}

ModelConfig::RopeScaling rope_scaling(const Gguf& gguf, const std::string& arch) {
  ModelConfig::RopeScaling scaling;
  const std::string type = gguf.text(arch + ".rope.scaling.type", "none");
  if (type == "linear") {
    scaling.kind = ModelConfig::RopeScaling::Kind::kLinear;
    scaling.factor = gguf.number(arch + ".rope.scaling.factor");
  } else if (type != "none" && type != "") {
    throw FormatError(concat(gguf.file().path().string(), ": rope scaling \"", type,
                             "\" is not one that barge knows (none, linear, Llama 3's factors)"));
  }
  return scaling;
}

}  // namespace

ModelConfig config_from_gguf(const Gguf& gguf) {
  const std::string file = gguf.file().path().string();
  const std::string arch = gguf.text("general.architecture");
  refuse_what_is_not_run(gguf, arch);
  ModelConfig c;
  c.name = gguf.text("general.name", gguf.file().path().stem().string());
  c.family = "llama";
  c.vocab = vocabulary(gguf);
  c.hidden = gguf.integer(arch + ".embedding_length");
  c.layers = gguf.integer(arch + ".block_count");
  c.heads = gguf.integer(arch + ".attention.head_count");
  c.kv_heads = gguf.integer(arch + ".attention.head_count_kv", c.heads);
  c.head_dim = gguf.integer(arch + ".attention.key_length", c.heads > 0 ? c.hidden / c.heads : 0);
  c.ffn = gguf.integer(arch + ".feed_forward_length");
  c.context = gguf.integer(arch + ".context_length");
  c.norm_eps = gguf.number(arch + ".attention.layer_norm_rms_epsilon");
  c.rope_theta = gguf.number(arch + ".rope.freq_base", 10000.0f);
  c.rope_scaling = rope_scaling(gguf, arch);
  c.rope_factors = rope_factors(gguf);
  c.sliding_window = gguf.integer(arch + ".attention.sliding_window", 0);
  if (c.sliding_window > 0) c.context = std::min(c.context, c.sliding_window);
  c.tied_output = gguf.find_tensor("output.weight") == nullptr;
  c.qkv_bias = gguf.find_tensor("blk.0.attn_q.bias") != nullptr;
  c.output_bias = gguf.find_tensor("blk.0.attn_output.bias") != nullptr;
  c.activation = ModelConfig::Activation::kSilu;
  c.validate(file);
  for (const char* key : {".attention.value_length", ".rope.dimension_count"})
    if (const int got = gguf.integer(arch + key, c.head_dim); got != c.head_dim)
      throw FormatError(concat(file, ": metadata \"", arch, key, "\": wanted the head's size ",
                               c.head_dim, ", got ", got));
  return c;
}

TokenizerSpec tokenizer_spec_from_gguf(const Gguf& gguf) {
  const std::string file = gguf.file().path().string();
  const std::string prefix = "tokenizer.ggml.";
  if (const std::string model = gguf.text(prefix + "model"); model != "gpt2")
    throw FormatError(concat(file, " has a tokenizer of the kind \"", model,
                             "\"; barge has byte-level BPE, which GGUF calls gpt2"));
  TokenizerSpec spec;
  spec.tokens = gguf.texts(prefix + "tokens");
  if (spec.tokens.empty()) throw FormatError(concat(file, ": the tokenizer has no tokens"));
  spec.types.assign(spec.tokens.size(), TokenizerSpec::TokenType::kNormal);
  if (gguf.has(prefix + "token_type")) {
    const auto types = gguf.integers(prefix + "token_type");
    if (types.size() != spec.tokens.size())
      throw FormatError(concat(file, ": wanted a type for each of ", spec.tokens.size(),
                               " tokens, got ", types.size()));
    using Type = TokenizerSpec::TokenType;
    // GGUF counts normal, unknown, control, user-defined, unused, byte from 1.
    constexpr std::array kTypes{Type::kNormal,      Type::kControl, Type::kControl,
                                Type::kUserDefined, Type::kUnused,  Type::kByte};
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] < 1 || types[i] > std::int64_t{kTypes.size()})
        throw FormatError(concat(file, ": token ", i, ": wanted a type from 1 to ", kTypes.size(),
                                 ", got ", types[i]));
      spec.types[i] = kTypes[static_cast<std::size_t>(types[i] - 1)];
    }
  }
  if (gguf.has(prefix + "merges")) spec.merges = gguf.texts(prefix + "merges");
  spec.pre_tokenizer = gguf.text(prefix + "pre", "gpt-2");
  if (spec.pre_tokenizer == "default") spec.pre_tokenizer = "gpt-2";
  const auto token = [&](const char* name) {
    const int id = gguf.integer(prefix + name, -1);
    if (id < -1 || id >= static_cast<int>(spec.tokens.size()))
      throw FormatError(concat(file, ": metadata \"", prefix, name, "\": wanted one of ",
                               spec.tokens.size(), " tokens, got ", id));
    return id;
  };
  spec.bos = token("bos_token_id");
  spec.pad = token("padding_token_id");
  // Not for bytes that the vocabulary lacks: Hugging Face and llama.cpp drop those, so no spec.unk.
  (void)token("unknown_token_id");
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"})
    if (const TokenId id = token(name);
        id >= 0 && std::find(spec.eos.begin(), spec.eos.end(), id) == spec.eos.end())
      spec.eos.push_back(id);
  // As llama.cpp: Llama 3's vocabulary looks whole words up first and begins with a token.
  const bool llama3 = spec.pre_tokenizer == "llama-bpe" || spec.pre_tokenizer == "llama3" ||
                      spec.pre_tokenizer == "llama-v3";
  spec.ignore_merges = llama3;
  spec.add_bos = gguf.flag(prefix + "add_bos_token", llama3) && spec.bos >= 0;
  spec.add_eos = gguf.flag(prefix + "add_eos_token", false);
  spec.chat_template = gguf.text("tokenizer.chat_template", "");
  return spec;
}

TokenizerSpec tokenizer_spec_from_gguf(const std::filesystem::path& path) {
  return tokenizer_spec_from_gguf(Gguf(path));
}

}  // namespace barge
