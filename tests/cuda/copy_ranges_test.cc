#include "kernels/cuda/copy_ranges.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/copy_batch.h"
#include "tests/cuda/fixture.h"

namespace barge::cuda {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::size_t kWordsOfUnit = 4;  // 16 bytes

Words counting(std::size_t count) {
  Words words(count);
  std::iota(words.begin(), words.end(), 1u);
  return words;
}

// Pieces of `units` 16 bytes each, shuffled, with 16 bytes between that stay as they were.
void expect_copied(cudaStream_t stream, const std::vector<std::size_t>& units) {
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  const std::size_t total =
      kWordsOfUnit * (std::accumulate(units.begin(), units.end(), std::size_t{0}) + units.size());
  const Words source = counting(total);
  Words want(total, 0);
  const OnDevice<std::uint32_t> from(source), to(want);
  std::vector<CopyRange> ranges(units.size());
  std::vector<std::size_t> from_at(units.size());
  for (std::size_t i = 0, at = 0; i < units.size(); at += kWordsOfUnit * (units[i++] + 1))
    from_at[i] = at;
  std::size_t at = kWordsOfUnit;
  for (const std::size_t i : order) {
    const std::size_t words = kWordsOfUnit * units[i];
    ranges[i] = {to.data() + at, from.data() + from_at[i], words * sizeof(std::uint32_t)};
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from_at[i]), words,
                want.begin() + static_cast<std::ptrdiff_t>(at));
    at += words + kWordsOfUnit;
  }
  copy_ranges(stream, ranges);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  EXPECT_EQ(to.read(), want) << units.size() << " ranges";
}

class CopyRangesTest : public CudaTest {};

TEST_F(CopyRangesTest, CopiesEveryRangeAndNothingBeside) {
  expect_copied(stream(), {1});
  expect_copied(stream(), {127});
  expect_copied(stream(), {128});  // a warp's piece
  expect_copied(stream(), {129});
  expect_copied(stream(), {1, 128, 31, 129, 256, 32, 33, 5});
  expect_copied(stream(), {16384, 1, 8192});  // more pieces than warps
}

TEST_F(CopyRangesTest, TakesAnyNumberOfRanges) {
  expect_copied(stream(), {});
  expect_copied(stream(), {3, 0, 2, 0});
  for (const std::size_t count : {kCopyRangesOfALaunch - 1, kCopyRangesOfALaunch,
                                  kCopyRangesOfALaunch + 1, 2 * kCopyRangesOfALaunch + 7}) {
    std::vector<std::size_t> units(count);
    for (std::size_t i = 0; i < count; ++i) units[i] = 1 + i * 7 % 67;
    expect_copied(stream(), units);
  }
}

TEST(SuitsKernelTest, WholeWordsOfFewBytes) {
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); };
  EXPECT_TRUE(suits_kernel({at(4096), at(16), 48}));
  EXPECT_TRUE(suits_kernel({at(4096), at(16), std::size_t{128} << 10}));
  EXPECT_FALSE(suits_kernel({at(4096), at(16), (std::size_t{128} << 10) + 16}));
  EXPECT_FALSE(suits_kernel({at(4104), at(16), 48}));
  EXPECT_FALSE(suits_kernel({at(4096), at(24), 48}));
  EXPECT_FALSE(suits_kernel({at(4096), at(16), 40}));
}

class CopyBatchTest : public testing::Test {
 protected:
  static std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }
  bool add(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
    return batch_.add(Tier::kDevice, Tier::kDevice, {at(to), at(from), bytes});
  }

  CopyBatch batch_{Tier::kDevice, Tier::kDevice};
};

TEST_F(CopyBatchTest, TakesNeighboursAndSeveralReadersButNoneThatDependOnEachOther) {
  EXPECT_TRUE(add(1000, 5000, 100));
  EXPECT_TRUE(add(1100, 5000, 100));  // behind the first, from the same
  EXPECT_TRUE(add(900, 5050, 100));   // before it
  EXPECT_FALSE(add(1199, 8000, 1));   // writes the second's last byte
  EXPECT_FALSE(add(899, 8000, 2));    // and the third's first
  EXPECT_FALSE(add(800, 8000, 1000));
  EXPECT_FALSE(add(5149, 8000, 10));  // writes what the third reads
  EXPECT_FALSE(add(8000, 1150, 10));  // reads what the second writes
  EXPECT_TRUE(add(5150, 8000, 10));
  EXPECT_EQ(batch_.ranges().size(), 4u);
}

TEST_F(CopyBatchTest, TakesOneWayOnlyAndAsManyAsALaunch) {
  EXPECT_FALSE(batch_.add(Tier::kHost, Tier::kDevice, {at(16), at(4096), 16}));
  EXPECT_FALSE(batch_.add(Tier::kDevice, Tier::kHost, {at(16), at(4096), 16}));
  for (std::size_t i = 0; i < kCopyRangesOfALaunch; ++i) {
    EXPECT_FALSE(batch_.full());
    EXPECT_TRUE(add(16 * (i + 1), 1 << 20, 16));
  }
  EXPECT_TRUE(batch_.full());
  EXPECT_FALSE(add(1 << 21, 1 << 22, 16));
}

}  // namespace
}  // namespace barge::cuda
