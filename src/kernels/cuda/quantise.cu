// Weights into their stored form, bit for bit as encode_panel does it: first the scale (and min) of
// each group, then the codes, chosen with the scales as they were rounded. No product is added to
// anything here, so that no contraction can change a bit.
#include "core/bytes.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"

namespace barge::cuda {
namespace {

constexpr int kThreads = 128;

struct Task {
  PanelLayout layout;
  MatrixView from;
  std::byte* panel;
};

// The first of the least (or most) numbers of a group: of 0 and -0 the first one counts.
struct Extreme {
  float value;
  int index;
};
template <bool kLeast>
__device__ Extreme better(const Extreme& a, const Extreme& b) {
  const bool b_beyond = kLeast ? b.value < a.value : b.value > a.value;
  return b_beyond || (b.value == a.value && b.index < a.index) ? b : a;
}
template <bool kLeast, int kLanes>
__device__ float extreme_of_lanes(Extreme mine) {
  for (int step = kLanes / 2; step > 0; step /= 2)
    mine = better<kLeast>(mine, {__shfl_xor_sync(kAllLanes, mine.value, step),
                                 __shfl_xor_sync(kAllLanes, mine.index, step)});
  return mine.value;
}

// kLanes neighbouring threads fit one group: a warp along a row, one thread along a column, so that
// neighbours read neighbouring numbers either way.
template <GroupAxis kAxis>
__global__ void __launch_bounds__(kThreads) fit_kernel(Task task) {
  constexpr int kLanes = kAxis == GroupAxis::kInput ? kWarp : 1;
  const PanelLayout& layout = task.layout;
  const std::int64_t per_line = kAxis == GroupAxis::kInput ? layout.groups : layout.cols;
  const std::int64_t lines = kAxis == GroupAxis::kInput ? layout.rows : layout.groups;
  const std::int64_t idx = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  if (idx >= lines * per_line) return;  // whole warps where they work together
  const std::int64_t line = idx / per_line, at = idx % per_line, group = layout.format.group;
  const std::int64_t r = kAxis == GroupAxis::kInput ? line : line * group;
  const std::int64_t c = kAxis == GroupAxis::kInput ? at * group : at;
  const std::int64_t left = kAxis == GroupAxis::kInput ? layout.cols - c : layout.rows - r;
  const int count = static_cast<int>(left < group ? left : group);
  const float* first = reinterpret_cast<const float*>(number_at(task.from, r, c));
  const std::int64_t step = kAxis == GroupAxis::kInput ? 1 : task.from.stride;

  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  Extreme low{first[0], 0}, high = low, most{fabsf(first[0]), 0};
  for (int i = lane; i < count; i += kLanes) {
    const float x = first[i * step];
    low = better<true>(low, {x, i});
    high = better<false>(high, {x, i});
    most = better<false>(most, {fabsf(x), i});
  }
  const bool q4 = layout.format.encoding == Encoding::kQ4;
  const float min = extreme_of_lanes<true, kLanes>(low);
  const float max = extreme_of_lanes<false, kLanes>(high);
  const float size = extreme_of_lanes<false, kLanes>(most);
  if (lane != 0) return;
  std::byte* scale = task.panel + layout.scales_offset + 2 * idx;
  store_number<DType::kF16>(scale, q4 ? (max - min) / 15.0f : size / 127.0f);
  if (q4) store_number<DType::kF16>(task.panel + layout.mins_offset + 2 * idx, min);
}

// The code of one number in the low bits; Q8: as two's complement.
__device__ unsigned code_of(const Task& task, std::int64_t r, std::int64_t c) {
  const PanelLayout& layout = task.layout;
  const std::int64_t scale_idx = layout.format.axis == GroupAxis::kInput
                                     ? r * layout.groups + c / layout.format.group
                                     : r / layout.format.group * layout.cols + c;
  const float x = *reinterpret_cast<const float*>(number_at(task.from, r, c));
  const float scale = load_number<DType::kF16>(task.panel + layout.scales_offset + 2 * scale_idx);
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  if (layout.format.encoding == Encoding::kQ8)
    return static_cast<unsigned>(
        static_cast<int>(fminf(fmaxf(rintf(x * inverse), -127.0f), 127.0f)));
  const float low = load_number<DType::kF16>(task.panel + layout.mins_offset + 2 * scale_idx);
  return static_cast<unsigned>(fminf(fmaxf(rintf((x - low) * inverse), 0.0f), 15.0f));
}

// A thread writes one number, or a byte of two 4-bit codes: groups may meet within it.
__global__ void __launch_bounds__(kThreads) encode_kernel(Task task) {
  const PanelLayout& layout = task.layout;
  const bool q4 = layout.format.encoding == Encoding::kQ4;
  const std::int64_t r = blockIdx.x;
  const std::int64_t unit = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  const std::int64_t c = q4 ? 2 * unit : unit;
  if (c >= layout.cols) return;
  std::byte* row = task.panel + r * static_cast<std::int64_t>(layout.row_bytes);
  const auto number = [&] { return *reinterpret_cast<const float*>(number_at(task.from, r, c)); };
  switch (layout.format.encoding) {
    case Encoding::kF32:
      return store_number<DType::kF32>(row + 4 * c, number());
    case Encoding::kF16:
      return store_number<DType::kF16>(row + 2 * c, number());
    case Encoding::kBF16:
      return store_number<DType::kBF16>(row + 2 * c, number());
    case Encoding::kQ8:
      row[c] = static_cast<std::byte>(code_of(task, r, c));
      return;
    case Encoding::kQ4: {
      const unsigned even = code_of(task, r, c);
      const unsigned odd = c + 1 < layout.cols ? code_of(task, r, c + 1) : 0;
      row[unit] = static_cast<std::byte>(even | odd << 4);
    }
  }
}

}  // namespace

void quantise(cudaStream_t stream, const PanelLayout& layout, MatrixView from, std::byte* panel) {
  if (layout.rows == 0 || layout.cols == 0) return;
  const Task task{layout, from, panel};
  const auto rows = static_cast<std::size_t>(layout.rows);
  const auto cols = static_cast<std::size_t>(layout.cols);
  const auto groups = static_cast<std::size_t>(layout.groups);
  // What lies between the codes, the scales and the mins is zero.
  check(cudaMemsetAsync(panel, 0, layout.bytes, stream), "cudaMemsetAsync of a panel");
  const bool q4 = layout.format.encoding == Encoding::kQ4;
  if (q4 || layout.format.encoding == Encoding::kQ8) {
    const dim3 block(kThreads);
    if (layout.format.axis == GroupAxis::kInput)
      launch({dim3(blocks_for(rows * groups * kWarp, kThreads)), block, stream},
             fit_kernel<GroupAxis::kInput>, task);
    else
      launch({dim3(blocks_for(groups * cols, kThreads)), block, stream},
             fit_kernel<GroupAxis::kOutput>, task);
  }
  launch({dim3(static_cast<unsigned>(rows), blocks_for(q4 ? divide_up(cols, 2) : cols, kThreads)),
          dim3(kThreads), stream},
         encode_kernel, task);
}

}  // namespace barge::cuda
