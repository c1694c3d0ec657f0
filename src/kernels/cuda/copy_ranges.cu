#include "kernels/cuda/copy_ranges.h"

#include <algorithm>

#include "core/bytes.h"
#include "kernels/cuda/launch.h"

namespace barge::cuda {
namespace {

using Word = uint4;

// A link's latency is 1-2 us and its rate up to 64 GB/s: some 100 KiB on their way fill it. These
// blocks ask for 256 KiB at a time, and leave the other multiprocessors to the kernels that
// compute.
constexpr unsigned kBlocks = 8, kThreads = 512, kWarpThreads = 32, kWarps = kThreads / kWarpThreads;
constexpr unsigned kWordsOfAThread = 4, kPieceWords = kWarpThreads * kWordsOfAThread;

struct Part {
  Word* to;
  const Word* from;
  std::uint32_t words;
  std::uint32_t end;  // pieces of this part and of all before
};
struct Parts {
  Part part[kCopyRangesOfALaunch];
  std::uint32_t count;
};
static_assert(sizeof(Parts) <= 4096, "the parameters of a kernel");

__host__ __device__ constexpr std::uint32_t pieces_of(std::uint32_t words) {
  return (words + kPieceWords - 1) / kPieceWords;
}

// The part that a piece belongs to: the first that ends behind it.
__device__ std::uint32_t part_of(const Parts& parts, std::uint32_t piece) {
  std::uint32_t first = 0, last = parts.count - 1;
  while (first < last) {
    const std::uint32_t middle = (first + last) / 2;
    if (parts.part[middle].end > piece)
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

// A warp copies one piece at a time: all that a thread reads is on its way before it writes.
__global__ void __launch_bounds__(kThreads)
    copy_ranges_kernel(const __grid_constant__ Parts parts) {
  const std::uint32_t warp = blockIdx.x * kWarps + threadIdx.x / kWarpThreads;
  const std::uint32_t lane = threadIdx.x % kWarpThreads;
  const std::uint32_t pieces = parts.part[parts.count - 1].end;
  for (std::uint32_t piece = warp; piece < pieces; piece += gridDim.x * kWarps) {
    const Part& part = parts.part[part_of(parts, piece)];
    const std::uint32_t words = part.words;
    const std::uint32_t first = (piece + pieces_of(words) - part.end) * kPieceWords + lane;
    Word held[kWordsOfAThread];
#pragma unroll
    for (std::uint32_t i = 0; i < kWordsOfAThread; ++i)
      if (first + i * kWarpThreads < words) held[i] = part.from[first + i * kWarpThreads];
#pragma unroll
    for (std::uint32_t i = 0; i < kWordsOfAThread; ++i)
      if (first + i * kWarpThreads < words) part.to[first + i * kWarpThreads] = held[i];
  }
}

void copy_parts(cudaStream_t stream, std::span<const CopyRange> ranges) {
  Parts parts{};
  std::uint32_t pieces = 0;
  for (const CopyRange& range : ranges) {
    const auto words = static_cast<std::uint32_t>(range.bytes / sizeof(Word));
    pieces += pieces_of(words);
    parts.part[parts.count++] = {static_cast<Word*>(range.to), static_cast<const Word*>(range.from),
                                 words, pieces};
  }
  if (pieces == 0) return;
  launch({dim3(std::min(kBlocks, blocks_for(pieces, kWarps))), dim3(kThreads), stream},
         copy_ranges_kernel, parts);
}

}  // namespace

void copy_ranges(cudaStream_t stream, std::span<const CopyRange> ranges) {
  for (; !ranges.empty(); ranges = ranges.subspan(std::min(ranges.size(), kCopyRangesOfALaunch)))
    copy_parts(stream, ranges.first(std::min(ranges.size(), kCopyRangesOfALaunch)));
}

}  // namespace barge::cuda
