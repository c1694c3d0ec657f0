// The table's own part: lists that are copied before a call returns, and what reaches which kernel.
#include "kernels/cuda/cuda_kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cuda/upload_ring.h"
#include "tests/cuda/table_fixture.h"

namespace barge::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using CudaKernelsTest = CudaTableTest;

TEST_F(CudaKernelsTest, CopiesListsBeforeACallReturns) {
  constexpr std::int64_t kRows = 9, kHeadDim = 64, kCols = 2 * kHeadDim;
  make(DType::kF32);
  Matrix x(random_numbers(kRows * kCols, 4), DType::kF32, kRows, kCols);
  Matrix got(DType::kF32, kRows, kCols), want(DType::kF32, kRows, kCols);
  DeviceMatrix x_there(x), got_there(got);
  const Weights w({Encoding::kF32}, kCols, kCols, kCols);
  const DevicePanels w_there(w.panels());
  std::vector<std::int32_t> want_ids(kRows, -77);
  const OnDevice<std::int32_t> ids_there(want_ids);
  Completion gate;  // so that nothing runs before the lists are gone
  device().compute().wait(gate.event());
  for (const auto& [table, from, to, ids] :
       {std::tuple{&this->table(), x_there.view(), got_there.view(), ids_there.data()},
        std::tuple{&reference(), x.view(), want.view(), want_ids.data()}}) {
    std::vector<std::int32_t> rows{8, 0, 3, 3, 1, 2, 7, 6, 5}, positions(kRows);
    std::iota(positions.begin(), positions.end(), 1000);
    std::vector<float> frequencies(kHeadDim / 2);
    for (std::size_t i = 0; i < frequencies.size(); ++i)
      frequencies[i] = std::pow(10000.0f, -static_cast<float>(i) / (kHeadDim / 2));
    table->gather_rows(from, rows, to);
    table->rope(to, kHeadDim, positions, frequencies);
    std::vector<WeightPanel> panels{
        (table == &reference() ? w.panels() : w_there.panels()).front()};
    table->linear(from, panels, nullptr, to, Epilogue::kAdd);
    std::vector<DrawParams> params(kRows, {.temperature = 0});
    table->draw(to, params, ids);
    panels.front() = {};
    std::ranges::fill(params, DrawParams{});
    std::ranges::fill(rows, 0);
    std::ranges::fill(positions, 0);
    std::ranges::fill(frequencies, 0);
  }
  gate.succeed();
  finish();
  got_there.fetch();
  // Sines and cosines of f32 angles, each off by 2 units of 2^-24 at most, times |x| < 5, twice;
  // and a sum of kCols products |x||w| < 25 in f32.
  expect_close(got, want, kRows, kCols, DType::kF32,
               2 * 5 * 2 * 0x1p-24f + kCols * kCols * 0x1p-24f);
  EXPECT_EQ(ids_there.read(), want_ids);  // no two sums are so close
}

TEST_F(CudaKernelsTest, AppendsAndAttendsToPagesAnywhere) {
  constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 64, kPagePositions = 16;
  constexpr std::int64_t kRows = 21;
  make(DType::kF16);
  const KvFormat kv{Encoding::kF16, kKvHeads, kHeadDim};
  Matrix q(random_numbers(kRows * kHeads * kHeadDim, 4), DType::kF32, kRows, kHeads * kHeadDim);
  Matrix k(random_numbers(kRows * kKvHeads * kHeadDim, 5), DType::kF32, kRows, kKvHeads * kHeadDim);
  Matrix v(random_numbers(kRows * kKvHeads * kHeadDim, 6), DType::kF32, kRows, kKvHeads * kHeadDim);
  Matrix got(DType::kF32, kRows, q.view().cols), want(DType::kF32, kRows, q.view().cols);
  DeviceMatrix q_there(q), k_there(k), v_there(v), got_there(got);
  const std::size_t page_bytes = kPagePositions * kv.record_bytes();
  std::vector<std::byte> memory(3 * page_bytes);
  const OnDevice<std::byte> memory_there(memory);
  for (const bool there : {false, true}) {
    std::byte* const base = there ? memory_there.data() : memory.data();
    std::byte* pages[]{base + 2 * page_bytes, base};
    AttentionSpan spans[]{{.first_row = 0, .rows = kRows, .prompt = true, .pages = pages}};
    Kernels& table = there ? this->table() : reference();
    table.append_kv(kv, kPagePositions, spans, there ? k_there.view() : k.view(),
                    there ? v_there.view() : v.view());
    table.attend(kv, kPagePositions, spans, kHeads, 0.125f, there ? q_there.view() : q.view(),
                 there ? got_there.view() : want.view());
    std::ranges::fill(pages, nullptr);
    spans[0] = {};
  }
  finish();
  got_there.fetch();
  // q * scale, the weights and the products with v are rounded to f16 once each; |v| < 5.
  expect_close(got, want, kRows, q.view().cols, DType::kF32, 5 * 8 * 0x1p-11f);
}

TEST_F(CudaKernelsTest, NormsActivatesAndDecodesRows) {
  constexpr std::int64_t kRows = 3, kCols = 129;
  make(DType::kF32);
  Matrix x(random_numbers(kRows * kCols, 4), DType::kF32, kRows, kCols);
  const auto weight = random_numbers(kCols, 5), bias = random_numbers(kCols, 6);
  const OnDevice<float> weight_there(weight), bias_there(bias);
  const Weights rows({Encoding::kQ4, 32}, kRows, kCols, kRows);
  const DevicePanels rows_there(rows.panels());
  Matrix got(DType::kF32, 4 * kRows, kCols), want(DType::kF32, 4 * kRows, kCols);
  const DeviceMatrix x_there(x);
  DeviceMatrix got_there(got);
  for (const bool there : {false, true}) {
    Kernels& table = there ? this->table() : reference();
    const MatrixView from = there ? x_there.view() : x.view();
    const MatrixView y = there ? got_there.view() : want.view();
    const float* const w = there ? weight_there.data() : weight.data();
    const float* const b = there ? bias_there.data() : bias.data();
    table.rms_norm(from, w, 1e-5f, y.row_range(0, kRows));
    table.layer_norm(from, w, b, 1e-5f, y.row_range(kRows, kRows));
    table.activate(Kernels::Activation::kSilu, from, from, y.row_range(2 * kRows, kRows));
    const MatrixView sum = y.row_range(3 * kRows, kRows);
    const WeightPanel encoded = (there ? rows_there.panels() : rows.panels()).front();
    table.decode_rows(encoded, sum, Epilogue::kStore);
    table.decode_rows(encoded, sum, Epilogue::kAdd);
  }
  finish();
  got_there.fetch();
  expect_close(got, want, 4 * kRows, kCols, DType::kF32, 200 * 0x1p-24f);
}

TEST_F(CudaKernelsTest, RefusesWhatItWasNotPlannedFor) {
  make(DType::kF16);
  EXPECT_THAT(
      [&] {
        table().append_kv({Encoding::kBF16, 2, 64}, 16, {}, {}, {});
      },
      ThrowsMessage<ConfigError>(HasSubstr("32, 16 or 4 bits")));
  const KvFormat wide{Encoding::kF16, 2, 128}, odd{Encoding::kF16, 3, 64};
  EXPECT_THAT([&] { table().attend(wide, 16, {}, 4, 1, {}, {}); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("4 heads of 128"), HasSubstr("planned for 4 of 64"))));
  EXPECT_THAT([&] { table().attend(odd, 16, {}, 4, 1, {}, {}); },
              ThrowsMessage<ConfigError>(HasSubstr("over 3 KV heads")));
}

class UploadRingTest : public CudaTableTest {};

TEST_F(UploadRingTest, BringsPiecesOfAllSizesAroundTheRingManyTimes) {
  constexpr std::size_t kRing = 4096, kPieces = 300, kMost = 1500;
  const Buffer there = device().allocate(Tier::kDevice, kRing, "ring");
  UploadRing ring(device(), device().events(), {there.data(), kRing});
  const Buffer seen = device().allocate(Tier::kDevice, kPieces * kMost, "seen");
  const Buffer here = device().allocate(Tier::kHost, kPieces * kMost, "seen");
  const auto piece = [](std::size_t i) {
    return std::vector<std::byte>(1 + i * 787 % kMost, static_cast<std::byte>(1 + i / 2));
  };
  for (std::size_t i = 0; i < kPieces; ++i)
    device().compute().submit([&, i](cudaStream_t stream) {
      const auto bytes = piece(i);
      // The reader, which may run long after the next piece was put.
      check(cudaMemcpyAsync(seen.data() + i * kMost, ring.upload(stream, bytes), bytes.size(),
                            cudaMemcpyDefault, stream),
            "cudaMemcpyAsync");
    });
  device().store().wait(device().compute().record());
  device().store().copy(here.data(), Tier::kHost, seen.data(), Tier::kDevice, kPieces * kMost);
  device().store().record().wait();
  for (std::size_t i = 0; i < kPieces; ++i) {
    const auto bytes = piece(i);
    ASSERT_EQ(std::memcmp(here.data() + i * kMost, bytes.data(), bytes.size()), 0) << "piece " << i;
  }
}

TEST_F(UploadRingTest, CopiesAPieceThatIsRepeatedOnce) {
  const Buffer there = device().allocate(Tier::kDevice, 4096, "ring");
  UploadRing ring(device(), device().events(), {there.data(), 4096});
  const std::vector<std::byte> piece(100, std::byte{1}), other(100, std::byte{2});
  device().compute().call([&] {
    const std::byte* const first = ring.upload(nullptr, piece);
    EXPECT_EQ(ring.upload(nullptr, piece), first);
    EXPECT_NE(ring.upload(nullptr, other), first);
    EXPECT_NE(ring.upload(nullptr, piece), first);
  });
  device().compute().record().wait();
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

TEST_F(UploadRingTest, NamesTheSizeOfAPieceLargerThanTheRing) {
  const Buffer there = device().allocate(Tier::kDevice, 4096, "ring");
  UploadRing ring(device(), device().events(), {there.data(), 4096});
  EXPECT_THAT([&] { ring.upload(nullptr, std::vector<std::byte>(4097)); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("4.25 KiB"), HasSubstr("4.00 KiB"))));
}

}  // namespace
}  // namespace barge::cuda
