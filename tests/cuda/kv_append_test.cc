// Records of the KV cache as a GPU writes them: bit for bit as encode_kv.
#include "core/errors.h"
#include "tests/cuda/attention_fixture.h"

namespace barge::cuda {
namespace {

using KvAppendTest = CudaTest;

// Heads and groups that are multiples of nothing, a byte of codes in two groups, gaps in records.
constexpr AttentionShape kShapes[] = {
    {Encoding::kF32, 4, 4, 33, 64, 5},  {Encoding::kF32, 3, 3, 64, 64, 16},
    {Encoding::kF16, 1, 1, 64, 64, 7},  {Encoding::kF16, 2, 2, 128, 64, 1},
    {Encoding::kF16, 5, 5, 3, 64, 16},  {Encoding::kQ4, 3, 3, 64, 64, 10},
    {Encoding::kQ4, 2, 2, 80, 32, 3},   {Encoding::kQ4, 3, 3, 5, 64, 1},
    {Encoding::kQ4, 1, 1, 33, 5, 4},    {Encoding::kQ4, 9, 9, 12, 32, 16},
    {Encoding::kQ4, 2, 2, 128, 128, 5}, {Encoding::kQ4, 1, 1, 256, 64, 2},
};

TEST_F(KvAppendTest, WritesTheSameBytesAsTheReferenceInEveryEncoding) {
  for (const AttentionShape& shape : kShapes) {
    Sequences sequences(shape, {1, 17, 2, 33});
    const auto all = sequences.everything(true);
    sequences.append_on_gpu(stream(), all);
    sequences.append_on_host(reference(), all);
    finish_reference();
    ASSERT_TRUE(sequences.gpu_records() == sequences.host_records()) << shape;
  }
}

TEST_F(KvAppendTest, WritesOnlyTheNewPositions) {
  for (const AttentionShape& shape : kShapes) {
    Sequences sequences(shape, {9, 20});
    const std::vector<Part> some{{0, 4, 3, true}, {1, 19, 1, false}, {1, 0, 1, true}};
    sequences.append_on_gpu(stream(), some);
    sequences.append_on_host(reference(), some);
    finish_reference();
    ASSERT_TRUE(sequences.gpu_records() == sequences.host_records()) << shape;
  }
}

TEST_F(KvAppendTest, KeepsTheBitsOfNumbersThatAreOddOnes) {
  constexpr float kOdd[] = {0.0f,      -0.0f,    NAN,   INFINITY, -INFINITY, 70000.0f,
                            -70000.0f, 65519.0f, 1e-7f, -1e-8f,   6e-8f,     2.9e-8f,
                            1e30f,     -1.0f,    1.0f,  65504.0f, 0x1p-14f,  0.1f};
  for (const AttentionShape& shape : kShapes) {
    Sequences sequences(shape, {40});
    std::mt19937 random(5);
    for (std::int64_t r = 0; r < 40; ++r)
      for (std::int64_t c = 0; c < shape.kv_heads * shape.head_dim; ++c) {
        // Rows of zeros of either sign, of few kinds of numbers, of all kinds.
        const std::size_t kinds = r < 10 ? 2 : r < 20 ? 3 : std::size(kOdd);
        sequences.k->set(r, c, kOdd[random() % kinds]);
        // And numbers halfway between codes, which go to the even one.
        const float tie = static_cast<float>(c % shape.group % 31) / 2;
        sequences.v->set(r, c, r % 2 == 0 ? tie : kOdd[random() % kinds]);
      }
    sequences.append_on_gpu(stream(), sequences.everything(true));
    sequences.append_on_host(reference(), sequences.everything(true));
    finish_reference();
    ASSERT_TRUE(sequences.gpu_records() == sequences.host_records()) << shape;
  }
}

TEST_F(KvAppendTest, LaunchesNothingForNoRows) {
  Sequences sequences(kShapes[0], {3});
  sequences.append_on_gpu(stream(), {});
  sequences.append_on_gpu(stream(), {{0, 1, 0, true}});
  EXPECT_TRUE(sequences.gpu_records() == sequences.host_records());
}

TEST_F(KvAppendTest, RefusesAnEncodingThatTheCacheDoesNotHave) {
  Sequences sequences({Encoding::kQ8, 1, 1, 8, 32, 4}, {1});
  EXPECT_THROW(sequences.append_on_gpu(stream(), sequences.everything(true)), ConfigError);
}

}  // namespace
}  // namespace barge::cuda
