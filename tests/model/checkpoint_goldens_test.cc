// Families and readers against Hugging Face's logits, with the plainest possible arithmetic: one
// sequence at a time, every position at once, in double where sums are long.
#include <gmock/gmock.h>

#include <cmath>
#include <deque>
#include <map>

#include "model/checkpoint.h"
#include "model/family.h"
#include "model/forward.h"
#include "tests/support/goldens.h"

namespace barge {
namespace {

using Matrix = std::vector<float>;

class PlainForward final : public Forward, public Kernels {
 public:
  PlainForward(const Checkpoint& checkpoint, std::vector<std::int32_t> tokens)
      : checkpoint_(checkpoint), config_(checkpoint.config()), tokens_(std::move(tokens)) {
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      positions_.push_back(static_cast<std::int32_t>(i));
    hidden_ = matrix(rows(), config_.hidden);
    logits_ = matrix(rows(), config_.vocab);
  }

  MatrixView run() {
    const auto family = make_family(config_);
    for (const Part& part : family->parts()) {
      part_ = &part;
      family->forward(part, *this);
    }
    return logits_;
  }

  Kernels& kernels() override { return *this; }
  std::int64_t rows() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::span<const std::int32_t> tokens() const override { return tokens_; }
  std::span<const std::int32_t> positions() const override { return positions_; }
  DType compute_type() const override { return DType::kF32; }
  MatrixView hidden() override { return hidden_; }
  MatrixView scratch(std::int64_t cols, DType) override { return matrix(rows(), cols); }
  MatrixView wanted_hidden() override { return hidden_; }
  MatrixView wanted_scratch(std::int64_t cols, DType) override { return matrix(rows(), cols); }
  MatrixView logits() override { return logits_; }
  const float* vector(int tensor) override { return load(tensor).data(); }

  void lookup(int tensor, std::span<const std::int32_t> ids, Epilogue epilogue) override {
    const Matrix& table = load(tensor);
    for (std::int64_t r = 0; r < rows(); ++r)
      for (std::int64_t c = 0; c < config_.hidden; ++c) {
        float& at = hidden_.row_as<float>(r)[c];
        const float got =
            table[static_cast<std::size_t>(ids[static_cast<std::size_t>(r)] * config_.hidden + c)];
        at = epilogue == Epilogue::kAdd ? at + got : got;
      }
  }
  void linear(MatrixView x, int tensor, int bias, MatrixView y, Epilogue epilogue) override {
    const Matrix& w = load(tensor);
    const Matrix* b = bias < 0 ? nullptr : &load(bias);
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t o = 0; o < y.cols; ++o) {
        double sum = b == nullptr ? 0 : (*b)[static_cast<std::size_t>(o)];
        for (std::int64_t i = 0; i < x.cols; ++i)
          sum += double{x.row_as<float>(r)[i]} * w[static_cast<std::size_t>(o * x.cols + i)];
        float& at = y.row_as<float>(r)[o];
        at = static_cast<float>(epilogue == Epilogue::kAdd ? at + sum : sum);
      }
  }
  MatrixView projected(std::int64_t cols) override { return matrix(rows(), cols); }
  MatrixView attended() override { return attended_; }
  void attend(int, MatrixView q, MatrixView k, MatrixView v) override {
    const MatrixView out = attended_ = matrix(rows(), q.cols);
    const std::int64_t dim = config_.head_dim, shared = config_.heads / config_.kv_heads;
    for (std::int64_t r = 0; r < rows(); ++r)
      for (std::int64_t h = 0; h < config_.heads; ++h) {
        const std::int64_t key = h / shared * dim;
        std::vector<double> weight;
        double total = 0;
        for (std::int64_t p = 0; p <= r; ++p) {
          double dot = 0;
          for (std::int64_t i = 0; i < dim; ++i)
            dot += double{q.row_as<float>(r)[h * dim + i]} * k.row_as<float>(p)[key + i];
          total += weight.emplace_back(std::exp(dot / std::sqrt(static_cast<double>(dim))));
        }
        for (std::int64_t i = 0; i < dim; ++i) {
          double sum = 0;
          for (std::int64_t p = 0; p <= r; ++p)
            sum += weight[static_cast<std::size_t>(p)] * v.row_as<float>(p)[key + i];
          out.row_as<float>(r)[h * dim + i] = static_cast<float>(sum / total);
        }
      }
  }
  void rms_norm(MatrixView x, const float* weight, float eps, MatrixView y) override {
    norm(x, weight, nullptr, eps, y);
  }
  void layer_norm(MatrixView x, const float* weight, const float* bias, float eps,
                  MatrixView y) override {
    norm(x, weight, bias, eps, y);
  }
  void rope(MatrixView x, int head_dim, std::span<const std::int32_t> positions,
            std::span<const float> frequencies) override {
    const std::int64_t half = head_dim / 2;
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t c = 0; c < x.cols; ++c) {
        if (c % head_dim >= half) continue;
        const double angle = double{frequencies[static_cast<std::size_t>(c % head_dim)]} *
                             positions[static_cast<std::size_t>(r)];
        float &a = x.row_as<float>(r)[c], &b = x.row_as<float>(r)[c + half];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
        a = static_cast<float>(turned);
      }
  }
  void activate(Activation activation, MatrixView gate, MatrixView up, MatrixView y) override {
    for (std::int64_t r = 0; r < gate.rows; ++r)
      for (std::int64_t c = 0; c < gate.cols; ++c) {
        const float g = gate.row_as<float>(r)[c];
        const float act =
            activation == Activation::kRelu ? std::max(g, 0.0f) : g / (1 + std::exp(-g));
        y.row_as<float>(r)[c] = act * (up.data == nullptr ? 1 : up.row_as<float>(r)[c]);
      }
  }
  void decode_rows(const WeightPanel&, MatrixView, Epilogue) override { FAIL(); }
  void linear(MatrixView, std::span<const WeightPanel>, const float*, MatrixView,
              Epilogue) override {
    FAIL();
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
  static void norm(MatrixView x, const float* weight, const float* bias, float eps, MatrixView y) {
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const float* in = x.row_as<float>(r);
      double mean = 0, square = 0;
      for (std::int64_t c = 0; c < x.cols && bias != nullptr; ++c) mean += in[c] / double(x.cols);
      for (std::int64_t c = 0; c < x.cols; ++c)
        square += (in[c] - mean) * (in[c] - mean) / double(x.cols);
      for (std::int64_t c = 0; c < x.cols; ++c)
        y.row_as<float>(r)[c] = static_cast<float>(
            (in[c] - mean) / std::sqrt(square + eps) * weight[c] + (bias == nullptr ? 0 : bias[c]));
    }
  }
  const Matrix& load(int index) {
    const TensorSpec& t = part_->tensors.at(static_cast<std::size_t>(index));
    Matrix& weights = weights_[t.name];
    if (weights.empty()) {
      weights.resize(static_cast<std::size_t>(t.rows * t.cols));
      checkpoint_.read_rows(t, 0, t.rows, weights);
    }
    return weights;
  }
  MatrixView matrix(std::int64_t rows, std::int64_t cols) {
    auto& floats = memory_.emplace_back(static_cast<std::size_t>(rows * cols));
    return {reinterpret_cast<std::byte*>(floats.data()), DType::kF32, rows, cols, cols};
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
  std::deque<Matrix> memory_;
  std::map<std::string, Matrix> weights_;
  MatrixView hidden_, attended_, logits_;
  const Part* part_ = nullptr;
};

TEST(CheckpointGoldens, EveryFamilyAndFormatGivesTheLogitsOfHuggingFace) {
  const std::filesystem::path directory = std::filesystem::path(BARGE_TEST_DATA) / "goldens";
  int compared = 0;
  for (const std::string& name : golden_names(directory)) {
    const Goldens goldens = read_goldens(directory, name);
    if (!name.starts_with("tiny-")) continue;  // real models are for the engine's tests
    const auto checkpoint = open_checkpoint(goldens.model);
    EXPECT_EQ(checkpoint->config().vocab, goldens.vocab) << name;
    double worst = 0, largest = 0;
    for (const Golden& golden : goldens.sequences) {
      std::vector<std::int32_t> fed(golden.prompt.begin(), golden.prompt.end());
      fed.insert(fed.end(), golden.tokens.begin(), golden.tokens.end() - 1);
      PlainForward forward(*checkpoint, fed);
      const MatrixView logits = forward.run();
      for (std::size_t i = 0; i < golden.positions.size(); ++i)
        for (const auto& [id, wanted] : golden.positions[i].logits) {
          const auto row = static_cast<std::int64_t>(golden.prompt.size() - 1 + i);
          worst = std::max(worst, std::abs(double{logits.row_as<float>(row)[id]} - wanted));
          largest = std::max(largest, std::abs(double{wanted}));
        }
    }
    // f32 sums of a few hundred terms, through a few layers, on both sides.
    EXPECT_LT(worst, 2e-5 * std::max(1.0, largest)) << name;
    ++compared;
  }
  EXPECT_GE(compared, 9);
}

}  // namespace
}  // namespace barge
