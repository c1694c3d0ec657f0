#include <gmock/gmock.h>

#include <algorithm>

#include "core/errors.h"
#include "engine/buffers.h"
#include "engine/engine.h"
#include "engine/legs.h"
#include "engine/scratch_meter.h"
#include "model/config.h"

namespace barge {
namespace {

using testing::ElementsAre;

WeightFormat f32(const TensorSpec&) { return {.encoding = Encoding::kF32}; }

ModelShape shape_of_named(const std::string& name, DType compute = DType::kF32) {
  const auto family = make_family(config_by_name(name));
  const KernelLimits limits = kernel_limits(*family, Policy{}, compute);
  return shape_of(*family, f32, 16, 64, limits, {.device = 12345});
}

const ModelShape::Matrix& matrix(const ModelShape& shape, const std::string& name) {
  return *std::find_if(shape.matrices.begin(), shape.matrices.end(),
                       [&](const auto& m) { return m.name == name; });
}

TEST(ScratchMeter, AddsUpWhatAPartAsksForInTheTypeOfTheProducts) {
  const auto family = make_family(config_by_name("smollm2-135m@1"));
  const ModelConfig& c = family->config();
  const Part mlp = family->parts()[2];
  // Normed input, gate and up; the activation is done in place.
  EXPECT_EQ(ScratchMeter::read(*family, mlp, DType::kF32).scratch_bytes,
            4u * static_cast<std::size_t>(c.hidden + 2 * c.ffn));
  EXPECT_EQ(ScratchMeter::read(*family, mlp, DType::kBF16).scratch_bytes,
            2u * static_cast<std::size_t>(c.hidden + 2 * c.ffn));
  const auto output = ScratchMeter::read(*family, family->parts().back(), DType::kF32);
  EXPECT_EQ(output.scratch_bytes, 0u);
  EXPECT_EQ(output.wanted_bytes, 4u * static_cast<std::size_t>(2 * c.hidden + c.vocab));
  EXPECT_THAT(output.multiplied, ElementsAre(1));
}

TEST(ScratchMeter, PadsRowsToCacheLines) {
  EXPECT_EQ(padded_row_bytes(16, DType::kF32), 64u);
  EXPECT_EQ(padded_row_bytes(17, DType::kF32), 128u);
  EXPECT_EQ(padded_row_bytes(17, DType::kBF16), 64u);
}

TEST(ShapeOf, ListsATiedTableOnceAndAsVisited) {
  const ModelShape shape = shape_of_named("smollm2-135m@2");
  EXPECT_EQ(shape.layers, 2);
  ASSERT_EQ(shape.matrices.size(), 1u + 2 * 7);
  const auto& embed = matrix(shape, "embed");
  EXPECT_TRUE(embed.table);
  EXPECT_TRUE(embed.visited);
  EXPECT_EQ(shape.table_row_bytes, 4u * static_cast<std::size_t>(shape.hidden));
  EXPECT_EQ(shape.workspace_bytes.device, 12345u);
}

TEST(ShapeOf, KnowsThatOptLooksUpPositionsAndNeverMultipliesByThem) {
  const ModelShape shape = shape_of_named("opt-125m@1");
  EXPECT_FALSE(matrix(shape, "positions").visited);
  EXPECT_TRUE(matrix(shape, "embed").visited);
  EXPECT_EQ(shape.table_row_bytes, 2 * 4u * static_cast<std::size_t>(shape.hidden));
}

TEST(ShapeOf, DoesNotMultiplyByTheTableOfAnUntiedModel) {
  const ModelShape shape = shape_of_named("llama-2-7b@1");
  EXPECT_FALSE(matrix(shape, "embed").visited);
  EXPECT_FALSE(matrix(shape, "output").table);
  EXPECT_TRUE(matrix(shape, "output").visited);
}

TEST(ShapeOf, CutsLegsAtAttention) {
  const auto family = make_family(config_by_name("opt-125m@3"));
  const std::vector<Part> parts = family->parts();
  std::vector<std::size_t> lengths;
  std::size_t next = 0;
  for (const Leg& leg : legs_of(parts)) {
    EXPECT_EQ(leg.first_part, next);
    next += leg.num_parts;
    lengths.push_back(leg.num_parts);
    EXPECT_EQ(leg.in_halves, leg.first_part > 0 && next < parts.size());
  }
  EXPECT_EQ(next, parts.size());
  EXPECT_THAT(lengths, ElementsAre(1, 1, 2, 2, 1, 1));  // embed, q k v, ..., the last MLP, output
  const ModelShape shape = shape_of_named("opt-125m@3");
  EXPECT_EQ(matrix(shape, "layers.1.o").leg, matrix(shape, "layers.2.v").leg);
  EXPECT_NE(matrix(shape, "layers.1.v").leg, matrix(shape, "layers.1.o").leg);
  EXPECT_EQ(matrix(shape, "embed").leg, -1);
}

TEST(ShapeOf, PanelsHoldAllRowsInWholeSectors) {
  const ModelShape shape = shape_of_named("smollm2-135m@1");
  for (const auto& m : shape.matrices) {
    std::size_t bytes = 0;
    for (const std::size_t panel : m.panel_bytes) {
      EXPECT_EQ(panel % kSectorBytes, 0u);
      bytes += panel;
    }
    EXPECT_GE(bytes, static_cast<std::size_t>(m.rows * m.cols) * 4) << m.name;
  }
}

TEST(ShapeOf, NamesTheBitsThatAKvCacheCannotHave) {
  const auto family = make_family(config_by_name("opt-125m@1"));
  EXPECT_THAT([&] { (void)shape_of(*family, f32, 8, 64, {}, {}); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("got 8")));
}

}  // namespace
}  // namespace barge
