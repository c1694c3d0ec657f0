#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "core/errors.h"
#include "model/checkpoint.h"
#include "quant/codec.h"

namespace barge {
namespace {

const TensorSpec kGate{"layers.1.gate", 1536, 576, TensorSpec::Kind::kMatrix};

std::vector<float> rows_of(const Checkpoint& checkpoint, const TensorSpec& tensor,
                           std::int64_t first, std::int64_t count) {
  std::vector<float> rows(static_cast<std::size_t>(count * tensor.cols));
  checkpoint.read_rows(tensor, first, count, rows);
  return rows;
}

TEST(DummyCheckpoint, GivesTheSameRowsWhateverIsReadBefore) {
  const auto one = open_checkpoint("dummy:smollm2-135m"),
             two = open_checkpoint("dummy:smollm2-135m");
  const auto all = rows_of(*one, kGate, 0, 40);
  const auto some = rows_of(*two, kGate, 17, 5);
  EXPECT_EQ(std::vector<float>(all.begin() + 17 * 576, all.begin() + 22 * 576), some);
  EXPECT_NE(rows_of(*one, {"layers.2.gate", 1536, 576, TensorSpec::Kind::kMatrix}, 17, 5), some);
  const std::set<float> first(all.begin(), all.begin() + 576);
  EXPECT_GT(first.size(), 30u);  // codes and scales vary within a row
}

TEST(DummyCheckpoint, LooksLikeAFreshlyInitialisedModel) {
  const auto checkpoint = open_checkpoint("dummy:opt-125m@2");
  EXPECT_EQ(checkpoint->config().layers, 2);
  const auto rows = rows_of(*checkpoint, {"layers.0.fc1", 3072, 768}, 0, 300);
  double sum = 0, square = 0;
  for (const float x : rows) {
    sum += x;
    square += double{x} * x;
  }
  const auto n = static_cast<double>(rows.size());
  EXPECT_NEAR(sum / n, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(square / n), 0.02, 0.002);
  const TensorSpec norm{"layers.0.attn_norm", 1, 768, TensorSpec::Kind::kVector};
  EXPECT_THAT(rows_of(*checkpoint, norm, 0, 1), testing::Each(1.0f));
  const TensorSpec bias{"layers.0.q_bias", 1, 768, TensorSpec::Kind::kVector};
  EXPECT_THAT(rows_of(*checkpoint, bias, 0, 1),
              testing::Each(testing::AllOf(testing::Ge(-0.04f), testing::Le(0.04f))));
}

TEST(DummyCheckpoint, GivesPanelsOfTheRowsThatItGives) {
  const auto checkpoint = open_checkpoint("dummy:smollm2-135m");
  for (const std::int64_t cols : {576, 77, 64}) {  // 77: an odd row and a short last group
    const TensorSpec tensor{"layers.0.up", 50, cols, TensorSpec::Kind::kMatrix};
    const auto rows = rows_of(*checkpoint, tensor, 3, 11);
    const PanelLayout layout = panel_layout(checkpoint->stored_format(tensor), 11, cols);
    std::vector<std::byte> panel(layout.bytes);
    checkpoint->read_panel(tensor, 3, layout, panel);
    std::vector<float> decoded(rows.size());
    for (std::int64_t r = 0; r < 11; ++r)
      decode_panel_row(layout, panel, r,
                       std::span(decoded).subspan(static_cast<std::size_t>(r * cols),
                                                  static_cast<std::size_t>(cols)));
    EXPECT_EQ(decoded, rows) << cols;
  }
}

TEST(DummyCheckpoint, HasATokenForEachByteAndOneThatEndsTheText) {
  const TokenizerSpec spec = read_tokenizer("dummy:rand1b");
  EXPECT_EQ(spec.tokens.size(), 49152u);
  EXPECT_EQ(std::set<std::string>(spec.tokens.begin(), spec.tokens.end()).size(), 49152u);
  EXPECT_EQ(spec.tokens['A'], "A");
  EXPECT_EQ(spec.tokens[' '], "\u0120");
  EXPECT_EQ(spec.tokens[0xff], "\u00ff");
  EXPECT_THAT(spec.eos, testing::ElementsAre(49151));
  EXPECT_EQ(spec.types.back(), TokenizerSpec::TokenType::kControl);
}

TEST(DummyCheckpoint, FingerprintNamesTheShape) {
  const auto print = [](const char* model) { return open_checkpoint(model)->fingerprint(); };
  EXPECT_EQ(print("dummy:rand1b"), print("dummy:rand1b"));
  EXPECT_NE(print("dummy:rand1b"), print("dummy:rand1b@2"));
  EXPECT_THROW(open_checkpoint("dummy:"), ConfigError);
  EXPECT_THROW(open_checkpoint("dummy:nothing"), ConfigError);
}

}  // namespace
}  // namespace barge
