#include "model/config.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/errors.h"
#include "model/family.h"
#include "model/hf_config.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::int64_t parameters(const ModelConfig& config) {
  std::int64_t sum = 0;
  for (const Part& part : make_family(config)->parts())
    for (const TensorSpec& t : part.tensors)
      if (part.kind != Part::Kind::kOutput || t.name != "embed") sum += t.rows * t.cols;
  return sum;
}

TEST(Config, KnowsTheShapesThatThePapersGive) {
  // Parameters as the models' authors count them, in millions, rounded.
  const std::pair<const char*, double> known[] = {
      {"opt-125m", 125},      {"opt-1.3b", 1316},      {"opt-2.7b", 2652},     {"opt-6.7b", 6658},
      {"opt-13b", 12853},     {"opt-30b", 29974},      {"opt-66b", 65719},     {"opt-175b", 174604},
      {"llama-2-7b", 6738},   {"llama-2-13b", 13016},  {"llama-2-70b", 68977}, {"llama-3-8b", 8030},
      {"llama-3-70b", 70554}, {"smollm2-135m", 134.5}, {"qwen2.5-1.5b", 1544}, {"rand1b", 1170}};
  for (const auto& [name, millions] : known)
    EXPECT_NEAR(static_cast<double>(parameters(config_by_name(name))) / 1e6, millions,
                millions * 0.005)
        << name;
}

TEST(Config, TakesFewerLayersThanTheNameHas) {
  EXPECT_EQ(config_by_name("opt-175b@4").layers, 4);
  EXPECT_EQ(config_by_name("opt-175b@4").hidden, config_by_name("opt-175b").hidden);
  for (const char* bad : {"opt-125m@0", "opt-125m@", "opt-125m@-1", "opt-125m@13", "opt-125m@2x",
                          "opt-125m@99999999999"})
    EXPECT_THROW(config_by_name(bad), ConfigError) << bad;
}

TEST(Config, NamesTheModelsThatThereAreWhenItKnowsNoneOfThatName) {
  for (const char* bad : {"gpt-5", "", "../models/rand1b", "/etc/passwd"})
    EXPECT_THAT([&] { config_by_name(bad); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr("rand1b"), HasSubstr("opt-175b"))))
        << bad;
}

TEST(Config, LooksInTheUsersDirectoryFirst) {
  const auto directory = std::filesystem::path(testing::TempDir()) / "own_models";
  std::filesystem::create_directories(directory);
  ModelConfig own = config_by_name("rand1b");
  own.layers = 3;
  std::ofstream(directory / "rand1b.json") << config_to_json(own);
  ::setenv("BARGE_MODELS_DIR", directory.c_str(), 1);
  const int layers = config_by_name("rand1b").layers;
  const int other = config_by_name("opt-125m").layers;  // not there: the next place has it
  ::unsetenv("BARGE_MODELS_DIR");
  std::filesystem::remove_all(directory);
  EXPECT_EQ(layers, 3);
  EXPECT_EQ(other, 12);
}

TEST(Config, ComesBackWholeFromItsJson) {
  ModelConfig c = config_by_name("llama-3-8b");
  c.name = "a \"name\"";
  c.norm_eps = 1e-6f;
  c.rope_scaling = {.kind = ModelConfig::RopeScaling::Kind::kLlama3,
                    .factor = 8.1f,
                    .low_freq_factor = 1.5f,
                    .high_freq_factor = 4.25f,
                    .original_context = 4096};
  c.rope_factors.assign(64, 1.1f);
  c.sliding_window = 77;
  c.qkv_bias = c.output_bias = c.tied_output = true;
  c.activation = ModelConfig::Activation::kGeluErf;
  const ModelConfig back = config_from_json(config_to_json(c), "test");
  EXPECT_EQ(config_to_json(back), config_to_json(c));
  EXPECT_EQ(back.norm_eps, c.norm_eps);
  EXPECT_EQ(back.rope_factors, c.rope_factors);
  EXPECT_EQ(back.rope_scaling.original_context, 4096);
  EXPECT_EQ(back.activation, c.activation);
}

TEST(Config, NamesSourceFieldAndValueOfWhatCannotBe) {
  const ModelConfig good = config_by_name("rand1b");
  const std::pair<void (*)(ModelConfig&), const char*> bad[] = {
      {[](ModelConfig& c) { c.hidden = 0; }, "hidden"},
      {[](ModelConfig& c) { c.layers = -1; }, "layers"},
      {[](ModelConfig& c) { c.layers = 1 << 20; }, "layers"},
      {[](ModelConfig& c) { c.kv_heads = 3; }, "kv_heads"},
      {[](ModelConfig& c) { c.kv_heads = 64; }, "kv_heads"},
      {[](ModelConfig& c) { c.head_dim = 63; }, "head_dim"},
      {[](ModelConfig& c) { c.vocab = 1 << 30; }, "vocab"},
      {[](ModelConfig& c) { c.context = 0; }, "context"},
      {[](ModelConfig& c) { c.norm_eps = 0; }, "norm_eps"},
      {[](ModelConfig& c) { c.rope_theta = -1; }, "rope_theta"},
      {[](ModelConfig& c) { c.rope_scaling.factor = 0; }, "factor"},
      {[](ModelConfig& c) {
         c.rope_factors = {1, 2};
       },
       "rope_factors"},
  };
  for (const auto& [spoil, field] : bad) {
    ModelConfig c = good;
    spoil(c);
    EXPECT_THAT([&] { c.validate("there.json"); },
                ThrowsMessage<FormatError>(AllOf(HasSubstr("there.json"), HasSubstr(field))))
        << field;
  }
}

TEST(Config, RefusesJsonThatIsNoConfig) {
  const std::string good = config_to_json(config_by_name("rand1b"));
  const std::pair<std::string, std::string> edits[] = {
      {"\"hidden\"", "\"hiden\""}, {"2048", "2048.5"},
      {"2048", "\"2048\""},        {"2048", "99999999999999999999"},
      {"\"silu\"", "\"sine\""},    {"2048", "null"},
      {"\"llama\"", "7"},          {"false", "0"}};
  for (const auto& [from, to] : edits) {
    std::string text = good;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    EXPECT_THROW(config_from_json(text, "test"), FormatError) << from << " -> " << to;
  }
  for (const char* text :
       {"", "[]", "{", "null", "{\"a\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}"})
    EXPECT_THROW(config_from_json(text, "test"), FormatError) << text;
}

constexpr const char* kLlama = R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":2,
  "num_attention_heads":4,"intermediate_size":96,"vocab_size":300,"max_position_embeddings":128)";

TEST(HfConfig, FillsInWhatTransformersLeavesOut) {
  const ModelConfig c = config_from_hf(std::string(kLlama) + "}", "m", "config.json");
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_FLOAT_EQ(c.norm_eps, 1e-6f);
  EXPECT_FALSE(c.tied_output);
  EXPECT_EQ(c.rope_scaling.kind, ModelConfig::RopeScaling::Kind::kNone);
}

TEST(HfConfig, ReadsRopeScalingOfBothWritings) {
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const ModelConfig c = config_from_hf(
        std::string(kLlama) + ",\"" + field +
            R"(":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
            "original_max_position_embeddings":64,"rope_theta":500000.0}})",
        "m", "config.json");
    EXPECT_EQ(c.rope_scaling.kind, ModelConfig::RopeScaling::Kind::kLlama3);
    EXPECT_EQ(c.rope_scaling.factor, 8.0f);
    EXPECT_EQ(c.rope_theta, 500000.0f);
    EXPECT_EQ(c.rope_scaling.original_context, 64);
  }
}

TEST(HfConfig, LimitsTheContextToASlidingWindowThatIsUsed) {
  std::string mistral = kLlama;
  mistral.replace(mistral.find("llama"), 5, "mistral");
  EXPECT_EQ(config_from_hf(mistral + R"(,"sliding_window":32})", "m", "c").context, 32);
  EXPECT_EQ(config_from_hf(mistral + R"(,"sliding_window":null})", "m", "c").context, 128);
  std::string qwen = kLlama;
  qwen.replace(qwen.find("llama"), 5, "qwen2");
  const ModelConfig c =
      config_from_hf(qwen + R"(,"sliding_window":32,"use_sliding_window":false})", "m", "c");
  EXPECT_EQ(c.context, 128);
  EXPECT_TRUE(c.qkv_bias);
  EXPECT_FALSE(c.output_bias);
}

TEST(HfConfig, SaysWhyItRefusesAModel) {
  const std::string opt = R"({"model_type":"opt","hidden_size":64,"num_hidden_layers":2,
    "num_attention_heads":4,"ffn_dim":96,"vocab_size":300,"max_position_embeddings":128)";
  EXPECT_EQ(config_from_hf(opt + "}", "m", "c").family, "opt");
  const std::pair<std::string, const char*> bad[] = {
      {opt + R"(,"do_layer_norm_before":false})", "opt-350m"},
      {opt + R"(,"word_embed_proj_dim":32})", "opt-350m"},
      {std::string(kLlama) + R"(,"mlp_bias":true})", "mlp_bias"},
      {std::string(kLlama) + R"(,"rope_scaling":{"type":"yarn","factor":2.0}})", "yarn"},
      {std::string(kLlama) + R"(,"quantization_config":{}})", "quantization_config"},
      {R"({"model_type":"mamba"})", "mamba"},
      {R"({})", "model_type"}};
  for (const auto& [text, word] : bad)
    EXPECT_THAT([&] { config_from_hf(text, "m", "config.json"); },
                ThrowsMessage<FormatError>(AllOf(HasSubstr(word), HasSubstr("config.json"))));
}

}  // namespace
}  // namespace barge
