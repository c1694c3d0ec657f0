#include "probe/limits.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/pages.h"
#include "kernels/cpu/bare_product.h"

namespace barge {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kDiskThreads = 16;
constexpr std::size_t kPiece = 1_MiB;
constexpr std::uint64_t kWritten = 256_MiB;  // size of the scratch file, written again and again

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Pages of memory, each there.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : data_(map_pages(bytes, "limits")), bytes_(bytes) {
    std::memset(data_, 0x5a, bytes_);
  }
  Memory(const Memory&) = delete;
  ~Memory() { unmap_pages(data_, bytes_); }
  std::byte* data() const { return data_; }

 private:
  std::byte* const data_;
  const std::size_t bytes_;
};

// `piece(memory, number)` does 1 MiB of work or fails with errno. Bytes a second.
double disk_rate(double seconds, const char* what, const std::string& path,
                 const std::function<bool(std::byte*, std::uint64_t)>& piece) {
  const Memory memory(kDiskThreads * kPiece);
  std::atomic<std::uint64_t> next = 0, done = 0;
  std::atomic<int> error = 0;
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kDiskThreads; ++t)
      threads.emplace_back([&, mine = memory.data() + static_cast<std::size_t>(t) * kPiece] {
        while (error == 0 && seconds_since(begin) < seconds)
          if (piece(mine, next++))
            ++done;
          else
            error = errno;
      });
  }
  const double took = seconds_since(begin);
  if (error != 0)
    throw IoError(concat("cannot measure the disk: ", what, " ", path, ": ", std::strerror(error)));
  return static_cast<double>(done * kPiece) / took;
}

}  // namespace

double MachineLimits::best_matrix_ops() const {
  double best = 0;
  for (const auto& [inputs, rate] : matrix_ops) best = std::max(best, rate);
  return best;
}

double MachineLimits::matrix_ops_of(std::int64_t inputs) const {
  const auto found = matrix_ops.find(inputs);
  return found != matrix_ops.end() ? found->second : best_matrix_ops();
}

MachineLimits MachineLimits::in_16_bits() const {
  MachineLimits limits = *this;
  if (!matrix_ops_in_16_bits.empty()) limits.matrix_ops = matrix_ops_in_16_bits;
  return limits;
}

std::map<std::int64_t, double> measure_matrix_ops(DType compute, int activation_bits, int threads,
                                                  std::span<const std::int64_t> inputs,
                                                  double seconds) {
  std::map<std::int64_t, double> rates;
  for (const std::int64_t n : inputs)
    rates[n] = best_product_rate(compute, activation_bits, threads, n,
                                 seconds / static_cast<double>(inputs.size()));
  return rates;
}

double measure_memory_read(int threads, double seconds) {
  constexpr std::size_t kBytes = 64_MiB;
  const Memory memory(kBytes);
  const std::size_t words = kBytes / sizeof(std::uint64_t) / static_cast<std::size_t>(threads);
  double best = 0;
  std::atomic<std::uint64_t> sum = 0;  // so that the reads are needed
  const auto start = Clock::now();
  do {
    const auto begin = Clock::now();
    {
      std::vector<std::jthread> all;
      for (int t = 0; t < threads; ++t)
        all.emplace_back([&, t] {
          const auto* const first = reinterpret_cast<const std::uint64_t*>(memory.data()) +
                                    static_cast<std::size_t>(t) * words;
          std::uint64_t mine = 0;
          for (std::size_t i = 0; i < words; ++i) mine += first[i];
          sum += mine;
        });
    }
    best = std::max(best, static_cast<double>(kBytes) / seconds_since(begin));
  } while (seconds_since(start) < seconds);
  return sum != 0 ? best : 0;
}

double measure_disk_read(const Pack& pack, double seconds) {
  const DiskFile& file = pack.file(0);
  const std::uint64_t pieces = file.bytes() / kPiece;
  if (pieces == 0) return 0;  // nothing that a disk would be needed for
  return disk_rate(seconds, "reading", file.path(), [&](std::byte* to, std::uint64_t number) {
    return pread(file.descriptor(), to, kPiece, static_cast<off_t>(number % pieces * kPiece)) ==
           static_cast<ssize_t>(kPiece);
  });
}

double measure_disk_write(const std::filesystem::path& directory, double seconds) {
  const DiskFile file = DiskFile::scratch(directory);
  return disk_rate(seconds, "writing", file.path(), [&](std::byte* from, std::uint64_t number) {
    const auto offset = static_cast<off_t>(number * kPiece % kWritten);
    return pwrite(file.descriptor(), from, kPiece, offset) == static_cast<ssize_t>(kPiece);
  });
}

}  // namespace barge
