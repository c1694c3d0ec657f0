#include "model/family.h"

#include <gmock/gmock.h>

#include <deque>
#include <string>
#include <vector>

#include "core/errors.h"
#include "model/forward.h"
#include "model/llama.h"

namespace barge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

ModelConfig tiny(const std::string& family) {
  ModelConfig c{.name = "tiny",
                .family = family,
                .hidden = 8,
                .layers = 2,
                .heads = 4,
                .kv_heads = family == "opt" ? 4 : 2,
                .head_dim = 2,
                .ffn = 10,
                .vocab = 11,
                .context = 16};
  if (family == "opt") {
    c.qkv_bias = c.output_bias = c.tied_output = true;
    c.activation = ModelConfig::Activation::kRelu;
  }
  return c;
}

std::string shape(MatrixView m) {
  return concat(m.rows, "x", m.cols, m.dtype == DType::kF32 ? "" : "c");
}

// Writes down what a family asks for, and holds each call against the shapes of the part.
class Recorder final : public Forward, public Kernels {
 public:
  Recorder(const Part& part, std::int64_t rows, std::int64_t wanted)
      : part_(part),
        tokens_(static_cast<std::size_t>(rows), 3),
        positions_(static_cast<std::size_t>(rows), 5),
        hidden_(matrix(rows, 8, DType::kF32)),
        wanted_(matrix(wanted, 8, DType::kF32)),
        logits_(matrix(wanted, 11, DType::kF32)) {}

  std::vector<std::string> log;

  Kernels& kernels() override { return *this; }
  std::int64_t rows() const override { return hidden_.rows; }
  std::span<const std::int32_t> tokens() const override { return tokens_; }
  std::span<const std::int32_t> positions() const override { return positions_; }
  DType compute_type() const override { return DType::kBF16; }
  MatrixView hidden() override { return hidden_; }
  MatrixView scratch(std::int64_t cols, DType dtype) override {
    return matrix(rows(), cols, dtype);
  }
  const float* vector(int tensor) override {
    const TensorSpec& t = spec(tensor);
    EXPECT_EQ(t.kind, TensorSpec::Kind::kVector) << t.name;
    return &number_;
  }
  void lookup(int tensor, std::span<const std::int32_t> ids, Epilogue epilogue) override {
    EXPECT_EQ(spec(tensor).kind, TensorSpec::Kind::kTable);
    log.push_back(concat("lookup ", short_name(spec(tensor)), sign(epilogue), " ",
                         ids.empty() ? -1 : ids[0]));
  }
  void linear(MatrixView x, int tensor, int bias, MatrixView y, Epilogue epilogue) override {
    const TensorSpec& t = spec(tensor);
    EXPECT_EQ(x.cols, t.cols) << t.name;
    EXPECT_EQ(y.cols, t.rows) << t.name;
    EXPECT_EQ(x.dtype, compute_type()) << t.name;
    if (epilogue == Epilogue::kAdd) {
      EXPECT_EQ(y.dtype, DType::kF32) << t.name;
    }
    if (bias >= 0) {
      EXPECT_EQ(spec(bias).cols, t.rows) << t.name;
    }
    log.push_back(concat(short_name(t), bias < 0 ? "" : "|" + short_name(spec(bias)),
                         sign(epilogue), " ", shape(y)));
  }
  MatrixView projected(std::int64_t cols) override { return matrix(rows(), cols, DType::kF32); }
  MatrixView attended() override { return matrix(rows(), 8, compute_type()); }
  void attend(int layer, MatrixView q, MatrixView k, MatrixView v) override {
    EXPECT_EQ(q.cols, 8);
    log.push_back(concat("attend ", layer, " ", shape(q), " ", shape(k), " ", shape(v)));
  }
  MatrixView wanted_hidden() override { return wanted_; }
  MatrixView wanted_scratch(std::int64_t cols, DType dtype) override {
    return matrix(wanted_.rows, cols, dtype);
  }
  MatrixView logits() override { return logits_; }

  void decode_rows(const WeightPanel&, MatrixView, Epilogue) override { FAIL(); }
  void rms_norm(MatrixView x, const float*, float, MatrixView y) override {
    log.push_back(concat("rms ", shape(x), " ", shape(y)));
  }
  void layer_norm(MatrixView x, const float*, const float*, float, MatrixView y) override {
    log.push_back(concat("ln ", shape(x), " ", shape(y)));
  }
  void linear(MatrixView, std::span<const WeightPanel>, const float*, MatrixView,
              Epilogue) override {
    FAIL();
  }
  void rope(MatrixView x, int head_dim, std::span<const std::int32_t> positions,
            std::span<const float> frequencies) override {
    EXPECT_EQ(static_cast<std::int64_t>(positions.size()), x.rows);
    EXPECT_EQ(static_cast<int>(frequencies.size()), head_dim / 2);
    log.push_back(concat("rope ", shape(x)));
  }
  void activate(Activation, MatrixView gate, MatrixView up, MatrixView) override {
    log.push_back(concat("act ", shape(gate), up.data == nullptr ? "" : " " + shape(up)));
  }
  void append_kv(const KvFormat&, int, std::span<const AttentionSpan>, MatrixView,
                 MatrixView) override {
    FAIL();
  }
  void attend(const KvFormat&, int, std::span<const AttentionSpan>, int, float, MatrixView,
              MatrixView) override {
    FAIL();
  }
  void gather_rows(MatrixView, std::span<const std::int32_t>, MatrixView) override { FAIL(); }
  void draw(MatrixView, std::span<const DrawParams>, std::int32_t*) override { FAIL(); }

 private:
  const TensorSpec& spec(int tensor) const {
    return part_.tensors.at(static_cast<std::size_t>(tensor));
  }
  static std::string short_name(const TensorSpec& t) {
    return t.name.substr(t.name.rfind('.') + 1);
  }
  static const char* sign(Epilogue e) { return e == Epilogue::kAdd ? "+" : ""; }
  MatrixView matrix(std::int64_t rows, std::int64_t cols, DType dtype) {
    auto& bytes = memory_.emplace_back(static_cast<std::size_t>(rows * cols) * 4 + 4);
    return {bytes.data(), dtype, rows, cols, cols};
  }

  const Part& part_;
  std::deque<std::vector<std::byte>> memory_;
  std::vector<std::int32_t> tokens_, positions_;
  MatrixView hidden_, wanted_, logits_;
  float number_ = 0;
};

std::vector<std::string> ask(const Family& family, std::size_t part, std::int64_t rows,
                             std::int64_t wanted = 1) {
  const std::vector<Part> parts = family.parts();
  Recorder recorder(parts.at(part), rows, wanted);
  family.forward(parts.at(part), recorder);
  return recorder.log;
}

TEST(Llama, AsksForEachPanelOnceInTheOrderOfThePart) {
  const auto family = make_family(tiny("llama"));
  EXPECT_THAT(ask(*family, 0, 3), ElementsAre("lookup embed 3"));
  EXPECT_THAT(ask(*family, 1, 3), ElementsAre("rms 3x8 3x8c", "q 3x8", "k 3x4", "v 3x4", "rope 3x8",
                                              "rope 3x4", "attend 0 3x8 3x4 3x4"));
  EXPECT_THAT(ask(*family, 4, 3), ElementsAre("o+ 3x8", "rms 3x8 3x8c", "gate 3x10c", "up 3x10c",
                                              "act 3x10c 3x10c", "down+ 3x8"));
  EXPECT_THAT(ask(*family, 5, 3, 2), ElementsAre("rms 2x8 2x8c", "output 2x11"));
}

TEST(Llama, AddsTheBiasesThatTheConfigHas) {
  ModelConfig c = tiny("llama");
  c.qkv_bias = true;
  EXPECT_THAT(ask(*make_family(c), 1, 1),
              testing::IsSupersetOf({"q|q_bias 1x8", "k|k_bias 1x4", "v|v_bias 1x4"}));
  EXPECT_THAT(ask(*make_family(c), 2, 1), testing::Contains("o+ 1x8"));
  c.output_bias = true;
  EXPECT_THAT(ask(*make_family(c), 2, 1), testing::Contains("o|o_bias+ 1x8"));
  c.qkv_bias = false;
  EXPECT_THAT(ask(*make_family(c), 1, 1), testing::Contains("q 1x8"));
  EXPECT_THAT(ask(*make_family(c), 2, 1), testing::Contains("o|o_bias+ 1x8"));
}

TEST(Llama, MultipliesByTheTableWhereTheOutputIsTied) {
  ModelConfig c = tiny("llama");
  c.tied_output = true;
  const auto family = make_family(c);
  EXPECT_THAT(ask(*family, 5, 1), testing::Contains("embed 1x11"));
  EXPECT_EQ(family->parts().back().tensors[1].name, family->parts().front().tensors[0].name);
}

TEST(Opt, AsksForEachPanelOnceInTheOrderOfThePart) {
  const auto family = make_family(tiny("opt"));
  EXPECT_THAT(ask(*family, 0, 2), ElementsAre("lookup embed 3", "lookup positions+ 7"));
  EXPECT_THAT(ask(*family, 3, 2), ElementsAre("ln 2x8 2x8c", "q|q_bias 2x8", "k|k_bias 2x8",
                                              "v|v_bias 2x8", "attend 1 2x8 2x8 2x8"));
  EXPECT_THAT(ask(*family, 2, 2), ElementsAre("o|o_bias+ 2x8", "ln 2x8 2x8c", "fc1|fc1_bias 2x10c",
                                              "act 2x10c", "fc2|fc2_bias+ 2x8"));
  EXPECT_THAT(ask(*family, 5, 2, 1), ElementsAre("ln 1x8 1x8c", "embed 1x11"));
}

TEST(Families, StillVisitEveryPanelWhenTheBlockHasNoRows) {
  for (const char* name : {"llama", "opt"}) {
    const auto family = make_family(tiny(name));
    for (std::size_t part = 0; part < family->parts().size(); ++part)
      EXPECT_EQ(ask(*family, part, 0, 0).size(), ask(*family, part, 3, 2).size()) << name << part;
  }
}

TEST(Families, RefuseWhatTheyAreNot) {
  EXPECT_THAT([] { make_family(tiny("mamba")); },
              ThrowsMessage<FormatError>(HasSubstr("llama and opt")));
  ModelConfig c = tiny("opt");
  c.qkv_bias = false;
  EXPECT_THAT([&] { make_family(c); }, ThrowsMessage<FormatError>(HasSubstr("biases")));
}

TEST(Rope, LeavesFastDimensionsAndDividesSlowOnesWhenScaledAsLlama3) {
  ModelConfig c = tiny("llama");
  c.head_dim = 64;
  c.rope_theta = 500000;
  const auto plain = rope_inverse_frequencies(c);
  EXPECT_EQ(plain.size(), 32u);
  EXPECT_EQ(plain[0], 1.0f);
  EXPECT_FLOAT_EQ(plain[16], 1.0f / std::sqrt(500000.0f));
  c.rope_scaling = {.kind = ModelConfig::RopeScaling::Kind::kLlama3, .factor = 8};
  const auto scaled = rope_inverse_frequencies(c);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_FLOAT_EQ(scaled[31], plain[31] / 8);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE(scaled[i], plain[i]);
    EXPECT_GE(scaled[i], plain[i] / 8.001f);
  }
  c.rope_scaling = {.kind = ModelConfig::RopeScaling::Kind::kLinear, .factor = 2};
  c.rope_factors.assign(32, 4.0f);
  EXPECT_FLOAT_EQ(rope_inverse_frequencies(c)[5], plain[5] / 8);
}

}  // namespace
}  // namespace barge
