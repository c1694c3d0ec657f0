#include "model/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "core/errors.h"
#include "model/json_fields.h"

namespace barge {
namespace {

namespace fs = std::filesystem;
using Activation = ModelConfig::Activation;
using Scaling = ModelConfig::RopeScaling::Kind;

template <typename T>
struct Word {
  T value;
  const char* word;
};
template <typename T>
Word(T, const char*) -> Word<T>;  // clang++ doesn't find it by itself
constexpr std::array kActivations{Word{Activation::kSilu, "silu"}, Word{Activation::kRelu, "relu"},
                                  Word{Activation::kGeluTanh, "gelu_tanh"},
                                  Word{Activation::kGeluErf, "gelu"}};
constexpr std::array kScalings{Word{Scaling::kNone, "none"}, Word{Scaling::kLinear, "linear"},
                               Word{Scaling::kLlama3, "llama3"}};

template <typename T, std::size_t N>
T value_of(const std::array<Word<T>, N>& words, const JsonFields& fields, const char* key) {
  const std::string text = fields.text(key);
  std::string known;
  for (const Word<T>& w : words) {
    if (text == w.word) return w.value;
    known += known.empty() ? w.word : std::string(", ") + w.word;
  }
  fields.refuse(key, "one of " + known);
}

template <typename T, std::size_t N>
const char* word_of(const std::array<Word<T>, N>& words, T value) {
  return std::find_if(words.begin(), words.end(), [&](auto& w) { return w.value == value; })->word;
}

std::vector<fs::path> model_directories() {
  std::vector<fs::path> directories;
  if (const char* own = std::getenv("BARGE_MODELS_DIR")) directories.emplace_back(own);
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!program.empty())
    directories.push_back(program.parent_path().parent_path() / "share/barge/models");
  directories.emplace_back(BARGE_MODELS_DIR);
  return directories;
}

// "a, b, c": the models of all directories.
std::string known_models() {
  std::set<std::string> names;
  for (const fs::path& directory : model_directories()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory, ignored))
      if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

// "opt-175b@4" is the shape opt-175b with 4 layers.
struct NameAndLayers {
  std::string name;
  int layers = 0;  // 0: all
};

NameAndLayers split_name(const std::string& text) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos) return {text};
  const std::string digits = text.substr(at + 1);
  if (digits.empty() || digits.size() > 6 ||
      digits.find_first_not_of("0123456789") != std::string::npos || std::stoi(digits) == 0)
    throw ConfigError(
        concat("model \"", text, "\": wanted a number of layers after @, got \"", digits, "\""));
  return {text.substr(0, at), std::stoi(digits)};
}

}  // namespace

void ModelConfig::validate(const std::string& source) const {
  const auto wrong = [&](const char* field, const auto& got, const std::string& wanted) {
    throw FormatError(concat(source, ": ", field, ": wanted ", wanted, ", got ", got));
  };
  const auto within = [&](const char* field, int got, int least, int most) {
    if (got < least || got > most) wrong(field, got, concat("a number from ", least, " to ", most));
  };
  const auto positive = [&](const char* field, float got) {
    if (!std::isfinite(got) || got <= 0) wrong(field, got, "a positive number");
  };
  // The largest published models are an order of magnitude below these; products of any two stay
  // below 2^63.
  within("hidden", hidden, 1, 1 << 20);
  within("layers", layers, 1, 1 << 14);
  within("heads", heads, 1, 1 << 14);
  within("kv_heads", kv_heads, 1, heads);
  within("head_dim", head_dim, 2, 1 << 12);
  within("ffn", ffn, 1, 1 << 22);
  within("vocab", vocab, 1, 1 << 24);
  within("context", context, 1, 1 << 28);
  within("sliding_window", sliding_window, 0, 1 << 28);
  if (heads % kv_heads != 0) wrong("kv_heads", kv_heads, concat("a divisor of heads ", heads));
  if (head_dim % 2 != 0) wrong("head_dim", head_dim, "an even number");
  positive("norm_eps", norm_eps);
  if (norm_eps >= 1) wrong("norm_eps", norm_eps, "a number below 1");
  positive("rope_theta", rope_theta);
  positive("rope_scaling.factor", rope_scaling.factor);
  if (rope_scaling.kind == RopeScaling::Kind::kLlama3) {
    positive("rope_scaling.low_freq_factor", rope_scaling.low_freq_factor);
    if (!(rope_scaling.high_freq_factor > rope_scaling.low_freq_factor))
      wrong("rope_scaling.high_freq_factor", rope_scaling.high_freq_factor,
            concat("more than low_freq_factor ", rope_scaling.low_freq_factor));
    within("rope_scaling.original_context", rope_scaling.original_context, 1, 1 << 28);
  }
  if (!rope_factors.empty() && rope_factors.size() != static_cast<std::size_t>(head_dim / 2))
    wrong("rope_factors", rope_factors.size(), concat("head_dim / 2 = ", head_dim / 2, " numbers"));
  for (const float factor : rope_factors) positive("rope_factors", factor);
}

ModelConfig config_from_json(const std::string& text, const std::string& source) {
  const nlohmann::json json = parse_json_object(text, source);
  const JsonFields fields(json, source);
  fields.allow_only({"name", "family", "hidden", "layers", "heads", "kv_heads", "head_dim", "ffn",
                     "vocab", "context", "norm_eps", "rope_theta", "rope_scaling", "rope_factors",
                     "sliding_window", "tied_output", "qkv_bias", "output_bias", "activation"});
  ModelConfig c;
  c.name = fields.text("name", "");
  c.family = fields.text("family");
  c.hidden = fields.integer("hidden");
  c.layers = fields.integer("layers");
  c.heads = fields.integer("heads");
  c.kv_heads = fields.integer("kv_heads", c.heads);
  c.head_dim = fields.integer("head_dim", c.heads > 0 ? c.hidden / c.heads : 0);
  c.ffn = fields.integer("ffn");
  c.vocab = fields.integer("vocab");
  c.context = fields.integer("context");
  c.norm_eps = fields.number("norm_eps", c.norm_eps);
  c.rope_theta = fields.number("rope_theta", c.rope_theta);
  if (const auto scaling = fields.object("rope_scaling")) {
    scaling->allow_only(
        {"kind", "factor", "low_freq_factor", "high_freq_factor", "original_context"});
    ModelConfig::RopeScaling& s = c.rope_scaling;
    s.kind = value_of(kScalings, *scaling, "kind");
    s.factor = scaling->number("factor", s.factor);
    s.low_freq_factor = scaling->number("low_freq_factor", s.low_freq_factor);
    s.high_freq_factor = scaling->number("high_freq_factor", s.high_freq_factor);
    s.original_context = scaling->integer("original_context", s.original_context);
  }
  if (const nlohmann::json* factors = fields.find("rope_factors")) {
    if (!factors->is_array()) fields.refuse("rope_factors", "an array of numbers");
    for (const auto& factor : *factors) {
      if (!factor.is_number()) fields.refuse("rope_factors", "an array of numbers");
      c.rope_factors.push_back(static_cast<float>(factor.get<double>()));
    }
  }
  c.sliding_window = fields.integer("sliding_window", 0);
  c.tied_output = fields.flag("tied_output", false);
  c.qkv_bias = fields.flag("qkv_bias", false);
  c.output_bias = fields.flag("output_bias", false);
  if (fields.has("activation")) c.activation = value_of(kActivations, fields, "activation");
  c.validate(source);
  return c;
}

std::string config_to_json(const ModelConfig& c) {
  nlohmann::ordered_json json{
      {"name", c.name},
      {"family", c.family},
      {"hidden", c.hidden},
      {"layers", c.layers},
      {"heads", c.heads},
      {"kv_heads", c.kv_heads},
      {"head_dim", c.head_dim},
      {"ffn", c.ffn},
      {"vocab", c.vocab},
      {"context", c.context},
      {"norm_eps", c.norm_eps},
      {"rope_theta", c.rope_theta},
      {"tied_output", c.tied_output},
      {"qkv_bias", c.qkv_bias},
      {"output_bias", c.output_bias},
      {"activation", word_of(kActivations, c.activation)},
  };
  if (c.sliding_window > 0) json["sliding_window"] = c.sliding_window;
  if (const auto& s = c.rope_scaling; s.kind != Scaling::kNone)
    json["rope_scaling"] = {{"kind", word_of(kScalings, s.kind)},
                            {"factor", s.factor},
                            {"low_freq_factor", s.low_freq_factor},
                            {"high_freq_factor", s.high_freq_factor},
                            {"original_context", s.original_context}};
  if (!c.rope_factors.empty()) json["rope_factors"] = c.rope_factors;
  return json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace);
}

ModelConfig config_by_name(const std::string& text) {
  const NameAndLayers wanted = split_name(text);
  // A name is a file's stem, never a path.
  if (wanted.name.empty() || wanted.name.find('/') != std::string::npos)
    throw ConfigError(concat("there is no model shape called \"", wanted.name,
                             "\"; those that there are: ", known_models()));
  for (const fs::path& directory : model_directories()) {
    const fs::path file = directory / (wanted.name + ".json");
    std::ifstream in(file, std::ios::binary);
    if (!in) continue;
    std::ostringstream content;
    content << in.rdbuf();
    ModelConfig config = config_from_json(content.str(), file.string());
    if (wanted.layers > config.layers)
      throw ConfigError(concat("model \"", text, "\": ", wanted.name, " has ", config.layers,
                               " layers, fewer than the ", wanted.layers, " asked for"));
    if (wanted.layers > 0) config.layers = wanted.layers;
    config.name = text;
    return config;
  }
  throw ConfigError(concat("there is no model shape called \"", wanted.name,
                           "\"; those that there are: ", known_models()));
}

}  // namespace barge
