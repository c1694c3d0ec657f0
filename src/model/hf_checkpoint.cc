#include "model/hf_checkpoint.h"

#include <array>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/errors.h"
#include "model/file_checkpoint.h"
#include "model/hf_config.h"
#include "model/json_fields.h"
#include "model/safetensors.h"
#include "model/tokenizer_json.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostConfig = 16 << 20;  // bytes of config.json
constexpr std::uint64_t kMostIndex = 64 << 20;   // bytes of the index of shards

struct Name {
  std::string_view ours, theirs;
};
constexpr std::array kLlamaModel{Name{"embed", "embed_tokens.weight"},
                                 Name{"output_norm", "norm.weight"}};
constexpr std::array kLlamaLayer{Name{"attn_norm", "input_layernorm.weight"},
                                 Name{"q", "self_attn.q_proj.weight"},
                                 Name{"k", "self_attn.k_proj.weight"},
                                 Name{"v", "self_attn.v_proj.weight"},
                                 Name{"o", "self_attn.o_proj.weight"},
                                 Name{"q_bias", "self_attn.q_proj.bias"},
                                 Name{"k_bias", "self_attn.k_proj.bias"},
                                 Name{"v_bias", "self_attn.v_proj.bias"},
                                 Name{"o_bias", "self_attn.o_proj.bias"},
                                 Name{"mlp_norm", "post_attention_layernorm.weight"},
                                 Name{"gate", "mlp.gate_proj.weight"},
                                 Name{"up", "mlp.up_proj.weight"},
                                 Name{"down", "mlp.down_proj.weight"}};
constexpr std::array kOptModel{Name{"embed", "embed_tokens.weight"},
                               Name{"positions", "embed_positions.weight"},
                               Name{"output_norm", "final_layer_norm.weight"},
                               Name{"output_norm_bias", "final_layer_norm.bias"}};
constexpr std::array kOptLayer{Name{"attn_norm", "self_attn_layer_norm.weight"},
                               Name{"attn_norm_bias", "self_attn_layer_norm.bias"},
                               Name{"q", "self_attn.q_proj.weight"},
                               Name{"k", "self_attn.k_proj.weight"},
                               Name{"v", "self_attn.v_proj.weight"},
                               Name{"o", "self_attn.out_proj.weight"},
                               Name{"q_bias", "self_attn.q_proj.bias"},
                               Name{"k_bias", "self_attn.k_proj.bias"},
                               Name{"v_bias", "self_attn.v_proj.bias"},
                               Name{"o_bias", "self_attn.out_proj.bias"},
                               Name{"mlp_norm", "final_layer_norm.weight"},
                               Name{"mlp_norm_bias", "final_layer_norm.bias"},
                               Name{"fc1", "fc1.weight"},
                               Name{"fc2", "fc2.weight"},
                               Name{"fc1_bias", "fc1.bias"},
                               Name{"fc2_bias", "fc2.bias"}};

template <std::size_t N>
std::string_view translate(const std::array<Name, N>& names, const std::string& ours) {
  for (const Name& name : names)
    if (name.ours == ours) return name.theirs;
  throw FormatError(concat("a Hugging Face checkpoint has no tensor for \"", ours, "\""));
}

// Names under which a tensor may be found, best first: published files have the model's prefix or
// lack it.
std::vector<std::string> hf_names(const CanonicalName& name, bool opt) {
  if (name.layer < 0 && name.tensor == "output") return {"lm_head.weight"};
  std::string inner;
  if (name.layer < 0)
    inner = opt ? translate(kOptModel, name.tensor) : translate(kLlamaModel, name.tensor);
  else
    inner = concat("layers.", name.layer, ".",
                   opt ? translate(kOptLayer, name.tensor) : translate(kLlamaLayer, name.tensor));
  if (opt) return {"model.decoder." + inner, "decoder." + inner};
  return {"model." + inner, inner};
}

StoredType stored_type(const std::string& dtype, const std::string& where) {
  for (const StoredType type : {StoredType::kF32, StoredType::kF16, StoredType::kBF16})
    if (name_of(type) == dtype) return type;
  throw FormatError(concat(where, ": wanted F32, F16 or BF16 numbers, got ", dtype));
}

// Files that hold the tensors, each once.
std::vector<fs::path> weight_files(const fs::path& directory) {
  const fs::path index = directory / "model.safetensors.index.json";
  const fs::path single = directory / "model.safetensors";
  if (!fs::exists(index)) {
    if (!fs::exists(single))
      throw FormatError(concat(directory.string(),
                               " has neither model.safetensors nor "
                               "model.safetensors.index.json; barge reads safetensors only"));
    return {single};
  }
  const std::string source = index.string();
  const nlohmann::json json = parse_json_object(read_text_file(index, kMostIndex), source, 4);
  const nlohmann::json* map = JsonFields(json, source).find("weight_map");
  if (map == nullptr || !map->is_object())
    JsonFields(json, source).refuse("weight_map", "an object of tensors and their files");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    // A shard lies beside its index: a path would lead out of the directory.
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
      throw FormatError(concat(source, ": tensor \"", tensor,
                               "\": wanted the name of a file in the same directory"));
    names.insert(name);
  }
  std::vector<fs::path> files;
  for (const std::string& name : names) files.push_back(directory / name);
  return files;
}

class HfCheckpoint final : public FileCheckpoint {
 public:
  explicit HfCheckpoint(const fs::path& directory) : directory_(directory) {
    const fs::path config = directory / "config.json";
    const std::string text = read_text_file(config, kMostConfig);
    // "dir/" and "." name a model too.
    const fs::path whole = fs::absolute(directory).lexically_normal();
    const fs::path name = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
    config_ = config_from_hf(text, name.string(), config.string());
    Fingerprint fingerprint;
    fingerprint.add(text);
    for (const fs::path& file : weight_files(directory)) shards_.emplace_back(file);
    for (const SafeTensors& shard : shards_) {
      fingerprint.add(shard.file(), shard.header_bytes());
      for (const auto& [tensor, where] : shard.tensors())
        if (!places_.emplace(tensor, Place{&shard, &where}).second)
          throw FormatError(
              concat(directory.string(), ": tensor \"", tensor, "\" is in more than one file"));
    }
    for (const char* file :
         {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
          "special_tokens_map.json", "vocab.json", "merges.txt", "chat_template.jinja"})
      if (fs::is_regular_file(directory / file)) fingerprint.add(InputFile(directory / file), 0);
    fingerprint_ = "hf-" + fingerprint.hex();
  }

  TokenizerSpec tokenizer() const override { return tokenizer_spec_from_dir(directory_); }

 protected:
  StoredTensor locate(const TensorSpec& tensor) const override {
    const auto names = hf_names(split_canonical_name(tensor.name), config_.family == "opt");
    for (const std::string& name : names) {
      const auto found = places_.find(name);
      if (found == places_.end()) continue;
      const auto& [shard, place] = found->second;
      const std::string where = concat(shard->file().path().string(), ": tensor \"", name, "\"");
      const std::vector<std::uint64_t>& shape = place->shape;
      const std::size_t dims = tensor.kind == TensorSpec::Kind::kVector ? 1 : 2;
      if (shape.size() != dims)
        throw FormatError(concat(where, ": wanted ", dims, " dimension(s), got ", shape.size()));
      // The reader has held the shape against the file's size: it fits 63 bits.
      return {.file = &shard->file(),
              .offset = place->offset,
              .type = stored_type(place->dtype, where),
              .rows = dims == 1 ? 1 : static_cast<std::int64_t>(shape.front()),
              .cols = static_cast<std::int64_t>(shape.back())};
    }
    throw FormatError(concat(directory_.string(), ": tensor \"", names.front(), "\" is missing"));
  }

 private:
  struct Place {
    const SafeTensors* shard;
    const SafeTensor* tensor;
  };

  const fs::path directory_;
  std::list<SafeTensors> shards_;  // a list: places_ points into it
  std::map<std::string, Place> places_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_hf_checkpoint(const fs::path& directory) {
  return std::make_unique<HfCheckpoint>(directory);
}

}  // namespace barge
