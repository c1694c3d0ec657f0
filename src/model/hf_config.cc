#include "model/hf_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/errors.h"
#include "model/json_fields.h"

namespace barge {
namespace {

using Activation = ModelConfig::Activation;

Activation activation(const JsonFields& fields, const char* key, const char* absent) {
  constexpr std::array<std::pair<std::string_view, Activation>, 7> kNames{
      {{"silu", Activation::kSilu},
       {"swish", Activation::kSilu},
       {"relu", Activation::kRelu},
       {"gelu", Activation::kGeluErf},
       {"gelu_new", Activation::kGeluTanh},
       {"gelu_fast", Activation::kGeluTanh},
       {"gelu_pytorch_tanh", Activation::kGeluTanh}}};
  const std::string text = fields.text(key, absent);
  for (const auto& [name, value] : kNames)
    if (name == text) return value;
  fields.refuse(key, "silu, relu or a kind of gelu");
}

// "rope_scaling" of transformers up to version 4, "rope_parameters" (theta among them) since.
void read_rope(const JsonFields& fields, ModelConfig& c) {
  c.rope_theta = fields.number("rope_theta", c.rope_theta);
  auto scaling = fields.object("rope_parameters");
  if (!scaling) scaling = fields.object("rope_scaling");
  if (!scaling) return;
  c.rope_theta = scaling->number("rope_theta", c.rope_theta);
  const char* key = scaling->has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling->text(key, "default");
  auto& s = c.rope_scaling;
  if (type == "default") return;
  if (type != "linear" && type != "llama3") scaling->refuse(key, "default, linear or llama3");
  s.factor = scaling->number("factor");
  s.kind = ModelConfig::RopeScaling::Kind::kLinear;
  if (type == "linear") return;
  s.kind = ModelConfig::RopeScaling::Kind::kLlama3;
  s.low_freq_factor = scaling->number("low_freq_factor");
  s.high_freq_factor = scaling->number("high_freq_factor");
  s.original_context = scaling->integer("original_max_position_embeddings");
}

ModelConfig llama(const JsonFields& fields, const std::string& type) {
  ModelConfig c;
  c.family = "llama";
  c.hidden = fields.integer("hidden_size");
  c.layers = fields.integer("num_hidden_layers");
  c.heads = fields.integer("num_attention_heads");
  c.kv_heads = fields.integer("num_key_value_heads", c.heads);
  c.head_dim = fields.integer("head_dim", c.heads > 0 ? c.hidden / c.heads : 0);
  c.ffn = fields.integer("intermediate_size");
  c.vocab = fields.integer("vocab_size");
  c.context = fields.integer("max_position_embeddings");
  c.norm_eps = fields.number("rms_norm_eps", 1e-6f);
  read_rope(fields, c);
  // Qwen2 writes a window that it doesn't use.
  if (fields.flag("use_sliding_window", type == "mistral"))
    c.sliding_window = fields.integer("sliding_window", 0);
  if (c.sliding_window > 0) c.context = std::min(c.context, c.sliding_window);
  c.tied_output = fields.flag("tie_word_embeddings", false);
  const bool biased = fields.flag("attention_bias", false);
  c.qkv_bias = biased || type == "qwen2";
  c.output_bias = biased;
  if (fields.flag("mlp_bias", false)) fields.refuse("mlp_bias", "false: barge has no biases there");
  c.activation = activation(fields, "hidden_act", "silu");
  return c;
}

ModelConfig opt(const JsonFields& fields) {
  ModelConfig c;
  c.family = "opt";
  c.hidden = fields.integer("hidden_size");
  c.layers = fields.integer("num_hidden_layers");
  c.heads = c.kv_heads = fields.integer("num_attention_heads");
  c.head_dim = c.heads > 0 ? c.hidden / c.heads : 0;
  c.ffn = fields.integer("ffn_dim");
  c.vocab = fields.integer("vocab_size");
  c.context = fields.integer("max_position_embeddings");
  c.tied_output = fields.flag("tie_word_embeddings", true);
  c.qkv_bias = c.output_bias = true;
  c.activation = activation(fields, "activation_function", "relu");
  if (!fields.flag("do_layer_norm_before", true))
    fields.refuse("do_layer_norm_before",
                  "true: models that normalise after each half of a layer, as opt-350m does, "
                  "aren't run");
  if (fields.integer("word_embed_proj_dim", c.hidden) != c.hidden)
    fields.refuse("word_embed_proj_dim", concat("hidden_size ", c.hidden,
                                                ": models that project their embedding, as "
                                                "opt-350m does, aren't run"));
  if (!fields.flag("enable_bias", true)) fields.refuse("enable_bias", "true");
  if (!fields.flag("layer_norm_elementwise_affine", true))
    fields.refuse("layer_norm_elementwise_affine", "true");
  if (fields.flag("_remove_final_layer_norm", false))
    fields.refuse("_remove_final_layer_norm", "false");
  return c;
}

}  // namespace

ModelConfig config_from_hf(const std::string& text, const std::string& name,
                           const std::string& source) {
  const nlohmann::json json = parse_json_object(text, source);
  const JsonFields fields(json, source);
  const std::string type = fields.text("model_type");
  if (fields.has("quantization_config"))
    fields.refuse("quantization_config", "an unquantised checkpoint (F32, F16 or BF16)");
  ModelConfig c;
  if (type == "llama" || type == "mistral" || type == "qwen2")
    c = llama(fields, type);
  else if (type == "opt")
    c = opt(fields);
  else
    fields.refuse("model_type", "llama, mistral, qwen2 or opt");
  c.name = name;
  c.validate(source);
  return c;
}

}  // namespace barge
