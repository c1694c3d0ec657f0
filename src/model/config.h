#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace barge {

/// The shape of a model: what a family needs to build its layers. Read from config.json, from GGUF
/// metadata, from models/NAME.json or from a pack; checked where it is read (`validate`).
struct ModelConfig {
  struct RopeScaling {
    enum class Kind : std::uint8_t { kNone, kLinear, kLlama3 };
    Kind kind = Kind::kNone;
    float factor = 1;
    float low_freq_factor = 1, high_freq_factor = 4;  // llama3
    int original_context = 8192;                      // llama3
  };
  enum class Activation : std::uint8_t { kSilu, kRelu, kGeluTanh, kGeluErf };

  std::string name;    // of the model, for people
  std::string family;  // "llama" or "opt"
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  int context = 0;  // most positions that the model was made for
  float norm_eps = 1e-5f;
  float rope_theta = 10000;
  RopeScaling rope_scaling;
  /// [head_dim / 2], what each inverse frequency is divided by besides (GGUF's rope_freqs); may be
  /// empty.
  std::vector<float> rope_factors;
  int sliding_window = 0;  // 0: none; only contexts up to the window are served where it is set
  bool tied_output = false, qkv_bias = false, output_bias = false;  // output_bias: of attention
  Activation activation = Activation::kSilu;

  /// Throws FormatError, naming `source`, the field, what was wanted and got.
  void validate(const std::string& source) const;
};

/// JSON with the field names above; the same text for models/NAME.json and pack.json.
ModelConfig config_from_json(const std::string& text, const std::string& source);
std::string config_to_json(const ModelConfig& config);

/// The shape called `name` ("rand1b", "opt-175b@4" takes 4 layers): searched in $BARGE_MODELS_DIR,
/// then beside the program (../share/barge/models), then in the source tree that it was built from.
/// Throws ConfigError with the names that there are.
ModelConfig config_by_name(const std::string& name);

}  // namespace barge
