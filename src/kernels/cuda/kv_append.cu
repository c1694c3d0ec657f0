#include <cmath>

#include "core/dtype.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/record.cuh"
#include "kernels/cuda/reduce.cuh"

namespace barge::cuda {
namespace {

constexpr int kWarpsABlock = 4, kThreads = kWarpsABlock * kWarp;

__device__ unsigned q4_code(float x, float low, float inverse) {
  const float code = rintf((x - low) * inverse);
  return code > 0 ? static_cast<unsigned>(fminf(code, 15.0f)) : 0;  // NaN becomes 0
}

// Scale and min of x[0, count), the same bits as from a loop that keeps the first of equal numbers
// and never replaces a NaN by a number nor a number by a NaN: of zeros the first one's sign counts.
__device__ ushort2 fit_q4(const float* x, int count, int lane) {
  float low = x[0], high = x[0];
  for (int i = lane; i < count; i += kWarp) {
    low = x[i] < low ? x[i] : low;
    high = high < x[i] ? x[i] : high;
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const float other_low = __shfl_xor_sync(kAllLanes, low, step);
    const float other_high = __shfl_xor_sync(kAllLanes, high, step);
    low = other_low < low ? other_low : low;
    high = high < other_high ? other_high : high;
  }
  if (low == 0) {  // decided by all lanes alike
    int first_zero = count;
    for (int i = lane; i < count && first_zero == count; i += kWarp)
      if (x[i] == 0) first_zero = i;
    for (int step = kWarp / 2; step > 0; step /= 2)
      first_zero = min(first_zero, __shfl_xor_sync(kAllLanes, first_zero, step));
    low = x[first_zero];
  }
  return make_ushort2(to_f16((high - low) / 15.0f).bits, to_f16(low).bits);
}

// One warp encodes a head.
__device__ void encode_q4(const RecordLayout& layout, const float* x, std::byte* codes,
                          std::byte* pairs, int lane) {
  auto* stored = reinterpret_cast<unsigned short*>(pairs);  // at an even address
  for (int g = 0, first = 0; first < layout.head_dim; ++g, first += layout.group) {
    const ushort2 pair = fit_q4(x + first, min(layout.group, layout.head_dim - first), lane);
    if (lane < 2) stored[2 * g + lane] = lane == 0 ? pair.x : pair.y;
  }
  __syncwarp();  // pairs are read back below: a byte's two codes may be of two groups
  const auto code = [&](int i) {
    const auto* pair = stored + 2 * (i / layout.group);
    const float scale = f32_of_f16(pair[0]), low = f32_of_f16(pair[1]);
    return q4_code(x[i], low, scale > 0 ? 1.0f / scale : 0.0f);
  };
  for (int i = 2 * lane; i < layout.head_dim; i += 2 * kWarp)
    codes[i / 2] =
        static_cast<std::byte>(code(i) | (i + 1 < layout.head_dim ? code(i + 1) << 4 : 0));
}

__device__ void encode_head(const RecordLayout& layout, const float* x, std::byte* codes,
                            std::byte* pairs, int lane) {
  if (layout.encoding == Encoding::kQ4) return encode_q4(layout, x, codes, pairs, lane);
  for (int i = lane; i < layout.head_dim; i += kWarp) {
    if (layout.encoding == Encoding::kF32)
      reinterpret_cast<float*>(codes)[i] = x[i];
    else  // as the host rounds, NaN's bits too
      reinterpret_cast<unsigned short*>(codes)[i] = to_f16(x[i]).bits;
  }
}

// A block takes one new position, a warp every fourth of its heads, first of K, then of V.
__global__ void __launch_bounds__(kThreads)
    append_kv_kernel(RecordLayout layout, const NewRecord* records, MatrixView k, MatrixView v) {
  const NewRecord to = records[blockIdx.x];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (int i = warp; i < 2 * layout.kv_heads; i += kWarpsABlock) {
    const bool is_key = i < layout.kv_heads;
    const int head = is_key ? i : i - layout.kv_heads;
    const auto* x = reinterpret_cast<const float*>(
        number_at(is_key ? k : v, to.row, std::int64_t{head} * layout.head_dim));
    encode_head(layout, x, to.record + i * layout.head_bytes,
                to.record + layout.k_pairs + i * layout.pair_bytes, lane);
  }
  if (warp == 0)  // what is left at the record's end
    for (int i = layout.used_bytes + lane; i < layout.record_bytes; i += kWarp)
      to.record[i] = std::byte{0};
}

}  // namespace

void append_kv(cudaStream_t stream, const AttentionWork& work, const std::byte* work_there,
               MatrixView k, MatrixView v) {
  if (work.empty()) return;
  launch({static_cast<unsigned>(work.records().count), kThreads, stream}, append_kv_kernel,
         record_layout(work.format()), work.records().at(work_there), k, v);
}

}  // namespace barge::cuda
