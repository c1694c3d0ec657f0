#include "model/tokenizer_json.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/errors.h"
#include "model/tokenizer_json_file.h"

namespace barge {
namespace {

using nlohmann::json;
using tokenizer_files::id_of;

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw IoError(concat("cannot read ", file.string()));
  return text.str();
}

// An empty object where there is no such file.
json read_optional(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return json::object();
  try {
    json value = json::parse(read_text(file));
    if (!value.is_object()) throw FormatError(concat(file.string(), " is not a JSON object"));
    return value;
  } catch (const json::exception& e) {
    throw FormatError(concat(file.string(), " is not valid JSON: ", e.what()));
  }
}

// "<s>" or {"content": "<s>", …}; empty: none.
std::string token_text(const json& config, const char* field) {
  const json value = config.value(field, json());
  if (value.is_string()) return value;
  if (value.is_object()) return value.value("content", "");
  return {};
}

// One of the small files that say which tokens are special.
struct Configs {
  explicit Configs(const std::filesystem::path& dir)
      : tokenizer(read_optional(dir / "tokenizer_config.json")),
        special(read_optional(dir / "special_tokens_map.json")),
        generation(read_optional(dir / "generation_config.json")),
        model(read_optional(dir / "config.json")) {}

  [[nodiscard]] std::string token(const char* field) const {
    const std::string text = token_text(tokenizer, field);
    return text.empty() ? token_text(special, field) : text;
  }

  json tokenizer, special, generation, model;
};

void read_old_style(const std::filesystem::path& dir, const Configs& configs, TokenizerSpec& spec) {
  const std::string source = (dir / "tokenizer_config.json").string();
  tokenizer_files::read_vocab_and_merges(dir / "vocab.json", dir / "merges.txt", spec);
  const std::string kind = configs.tokenizer.value("tokenizer_class", "GPT2Tokenizer");
  if (kind.rfind("GPT2Tokenizer", 0) == 0) {
    spec.pre_tokenizer = "gpt-2";
  } else if (kind.rfind("Qwen2Tokenizer", 0) == 0) {
    spec.pre_tokenizer = "qwen2";
  } else {
    throw FormatError(concat(source, " asks for the tokenizer ", kind,
                             ", which barge can read from ",
                             "tokenizer.json only; there is none in ", dir.string()));
  }
  if (configs.tokenizer.value("add_prefix_space", false))
    throw FormatError(concat(source, " has add_prefix_space, which barge doesn't support"));
  spec.add_bos = configs.tokenizer.value("add_bos_token", false);
  const json added = configs.tokenizer.value("added_tokens_decoder", json::object());
  for (const auto& [id, token] : added.items()) {
    if (id.empty() || id.size() > 9 || id.find_first_not_of("0123456789") != std::string::npos)
      throw FormatError(concat(source, " has the added token id '", id, "'; wanted a number"));
    tokenizer_files::set_added_token(spec, std::stol(id), token.at("content"),
                                     token.value("special", false), source);
  }
  for (const char* field : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    const TokenId id = id_of(spec, configs.token(field));
    if (id >= 0) spec.types[id] = TokenizerSpec::TokenType::kControl;
  }
}

void add_eos(TokenizerSpec& spec, const json& id) {
  if (id.is_array()) {
    for (const json& one : id) add_eos(spec, one);
  } else if (id.is_number_integer()) {
    const auto value = id.get<std::int64_t>();
    // config.json may name ids of another tokenizer; they can't be generated as text
    if (value < 0 || value >= static_cast<std::int64_t>(spec.tokens.size())) return;
    const auto token = static_cast<TokenId>(value);
    if (std::find(spec.eos.begin(), spec.eos.end(), token) == spec.eos.end())
      spec.eos.push_back(token);
  }
}

// The tokenizer's own end token comes first: it is the one that add_eos and templates mean.
void read_special(const Configs& configs, TokenizerSpec& spec) {
  if (spec.bos < 0) spec.bos = id_of(spec, configs.token("bos_token"));
  if (spec.pad < 0) spec.pad = id_of(spec, configs.token("pad_token"));
  const TokenId eos = id_of(spec, configs.token("eos_token"));
  if (eos >= 0) add_eos(spec, eos);
  const bool generation = configs.generation.contains("eos_token_id");
  const json ids = (generation ? configs.generation : configs.model).value("eos_token_id", json());
  add_eos(spec, ids);
}

// A file of its own, one string, or a list of named ones of which "default" is meant.
std::string read_chat_template(const std::filesystem::path& dir, const Configs& configs) {
  const auto file = dir / "chat_template.jinja";
  if (std::filesystem::exists(file)) return read_text(file);
  const json found = configs.tokenizer.value("chat_template", json());
  if (found.is_string()) return found;
  if (!found.is_array()) return {};
  for (const json& one : found)
    if (one.at("name") == "default") return one.at("template");
  return {};
}

}  // namespace

TokenizerSpec tokenizer_spec_from_dir(const std::filesystem::path& dir) {
  TokenizerSpec spec;
  try {
    const Configs configs(dir);
    if (std::filesystem::exists(dir / "tokenizer.json")) {
      tokenizer_files::read_tokenizer_json(dir / "tokenizer.json", spec);
    } else if (std::filesystem::exists(dir / "vocab.json") &&
               std::filesystem::exists(dir / "merges.txt")) {
      read_old_style(dir, configs, spec);
    } else {
      throw FormatError(concat("there is no tokenizer in ", dir.string(),
                               ": wanted tokenizer.json, ", "or vocab.json and merges.txt"));
    }
    read_special(configs, spec);
    spec.chat_template = read_chat_template(dir, configs);
  } catch (const json::exception& e) {
    throw FormatError(concat("cannot read the tokenizer in ", dir.string(), ": ", e.what()));
  }
  return spec;
}

}  // namespace barge
