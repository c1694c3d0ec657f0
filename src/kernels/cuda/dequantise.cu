// Weights from their stored form into that of the matrix product, once a sweep: bound by memory.
//
// A thread takes eight columns of kRowsAThread rows. So a warp's loads (for 4-bit codes 128 bytes a
// row) and stores (512 bytes of a 16-bit type) are each one run of whole sectors, and several rows
// are on their way at once; loading 16 bytes of codes a thread would scatter its stores instead.
// Along the output axis the rows share eight scales.
#include <algorithm>
#include <bit>

#include "core/bytes.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.cuh"

namespace barge::cuda {
namespace {

constexpr int kRowsAThread = 4, kMostThreads = 128, kWarpThreads = 32;

struct Task {
  const std::byte* panel;
  PanelLayout layout;
  MatrixView to;
  int group_log2;  // regular panels only
  // Panels of the layout, `spacing` bytes apart: blockIdx.z names one.
  unsigned count;
  std::int64_t spacing;
};

__device__ const std::byte* panel_of(const Task& task) {
  return task.panel + blockIdx.z * task.spacing;
}
__device__ std::int64_t first_row_of(const Task& task) { return blockIdx.z * task.layout.rows; }

// How the numbers reach the matrix `to`.
enum class Target { kF32, kF16, kBF16, kAddF32 };
constexpr DType dtype_of(Target target) {
  return target == Target::kF16    ? DType::kF16
         : target == Target::kBF16 ? DType::kBF16
                                   : DType::kF32;
}
template <Target kTarget>
__device__ void put(std::byte* at, Eight numbers) {
  if constexpr (kTarget == Target::kAddF32) {
    const Eight there = load_wide<DType::kF32>(at);
#pragma unroll
    for (int i = 0; i < kEight; ++i) numbers.x[i] += there.x[i];
  }
  store_wide<dtype_of(kTarget)>(at, numbers);
}

template <Encoding kEncoding, GroupAxis kAxis, Target kTarget>
__global__ void __launch_bounds__(kMostThreads) dequantise_kernel(Task task) {
  const PanelLayout& layout = task.layout;
  const std::int64_t r0 = std::int64_t{blockIdx.x} * kRowsAThread;
  const std::int64_t c = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kEight;
  if (c >= layout.cols) return;
  const int last = static_cast<int>(
      (layout.rows - r0 < kRowsAThread ? layout.rows - r0 : std::int64_t{kRowsAThread}) - 1);

  // Past the last row it is read again: so all loads are given, without a branch, before the
  // first is waited for. Along the output axis a thread's rows are in one group.
  constexpr int kScales = kAxis == GroupAxis::kInput ? kRowsAThread : 1;
  Stored<kEncoding> stored[kRowsAThread];
  Scales<kAxis> scales[kScales];
  const std::byte* panel = panel_of(task);
  const std::byte* codes = panel + r0 * static_cast<std::int64_t>(layout.row_bytes) +
                           c * kEightBytes<kEncoding> / kEight;
  const std::byte* scale =
      panel + layout.scales_offset +
      2 * (kAxis == GroupAxis::kInput ? r0 * layout.groups + (c >> task.group_log2)
                                      : (r0 >> task.group_log2) * layout.cols + c);
#pragma unroll
  for (int i = 0; i < kRowsAThread; ++i) {
    stored[i] = load_stored<kEncoding>(codes);
    if constexpr (is_grouped(kEncoding))
      if (i < kScales) scales[i] = load_scales<kEncoding, kAxis>(layout, scale);
    codes += i < last ? layout.row_bytes : 0;
    scale += i < last ? 2 * layout.groups : 0;
  }
  std::byte* at = number_at(task.to, first_row_of(task) + r0, c);
#pragma unroll
  for (int i = 0; i < kRowsAThread; ++i) {
    if (i > last) break;
    if constexpr (is_grouped(kEncoding))
      put<kTarget>(at, decoded<kEncoding>(stored[i], scales[i % kScales]));
    else
      put<kTarget>(at, stored[i].numbers);
    at += task.to.stride * static_cast<std::int64_t>(size_of(dtype_of(kTarget)));
  }
}

// Any number of any panel, in the plainest way.
__device__ float number_of(const Task& task, std::int64_t r, std::int64_t c) {
  const PanelLayout& layout = task.layout;
  const std::byte* panel = panel_of(task);
  const std::byte* codes = panel + r * static_cast<std::int64_t>(layout.row_bytes);
  const std::int64_t group = layout.format.group;
  const std::int64_t scale_idx = layout.format.axis == GroupAxis::kInput
                                     ? r * layout.groups + c / group
                                     : r / group * layout.cols + c;
  const std::byte* scale = panel + layout.scales_offset + 2 * scale_idx;
  const std::byte* min = panel + layout.mins_offset + 2 * scale_idx;
  switch (layout.format.encoding) {
    case Encoding::kF32:
      return load_number<DType::kF32>(codes + 4 * c);
    case Encoding::kF16:
      return load_number<DType::kF16>(codes + 2 * c);
    case Encoding::kBF16:
      return load_number<DType::kBF16>(codes + 2 * c);
    case Encoding::kQ8:
      return load_number<DType::kF16>(scale) *
             static_cast<float>(reinterpret_cast<const std::int8_t*>(codes)[c]);
    case Encoding::kQ4: {
      const auto pair = static_cast<unsigned>(codes[c / 2]);
      const auto code = static_cast<float>(c % 2 == 0 ? pair & 15u : pair >> 4);
      return load_number<DType::kF16>(scale) * code + load_number<DType::kF16>(min);
    }
  }
  return 0;
}

// For what lies at odd addresses: a thread a number.
__global__ void dequantise_any_kernel(Task task, bool add) {
  const std::int64_t r = blockIdx.x, c = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (c >= task.layout.cols) return;
  const float x = number_of(task, r, c);
  std::byte* at = number_at(task.to, first_row_of(task) + r, c);
  if (task.to.dtype == DType::kF16)
    store_number<DType::kF16>(at, x);
  else if (task.to.dtype == DType::kBF16)
    store_number<DType::kBF16>(at, x);
  else
    store_number<DType::kF32>(at, add ? x + load_number<DType::kF32>(at) : x);
}

Task task_of(const WeightPanel& panel, const MatrixView& to, std::size_t count = 1,
             std::size_t spacing = 0) {
  const auto group = static_cast<unsigned>(panel.layout.format.group);
  return {panel.data,
          panel.layout,
          to,
          static_cast<int>(std::bit_width(group)) - 1,
          static_cast<unsigned>(count),
          static_cast<std::int64_t>(spacing)};
}

// Whether the fast kernel can take it: all matrices but those made for tests.
bool is_regular(const Task& task) {
  const WeightFormat& format = task.layout.format;
  if (task.layout.cols % kEight != 0 || !is_wide(task.panel) || !is_wide(task.to) ||
      !is_wide(task.panel + task.spacing))
    return false;
  return !is_grouped(format.encoding) ||
         (std::has_single_bit(static_cast<unsigned>(format.group)) && format.group >= kEight);
}

template <Encoding kEncoding, GroupAxis kAxis>
void run_regular(const Launch& on, const Task& task, Target target) {
  switch (target) {
    case Target::kF32:
      return launch(on, dequantise_kernel<kEncoding, kAxis, Target::kF32>, task);
    case Target::kF16:
      return launch(on, dequantise_kernel<kEncoding, kAxis, Target::kF16>, task);
    case Target::kBF16:
      return launch(on, dequantise_kernel<kEncoding, kAxis, Target::kBF16>, task);
    case Target::kAddF32:
      return launch(on, dequantise_kernel<kEncoding, kAxis, Target::kAddF32>, task);
  }
}

template <GroupAxis kAxis>
void run_grouped(const Launch& on, const Task& task, Target target) {
  if (task.layout.format.encoding == Encoding::kQ4)
    run_regular<Encoding::kQ4, kAxis>(on, task, target);
  else
    run_regular<Encoding::kQ8, kAxis>(on, task, target);
}

void run(cudaStream_t stream, const Task& task, bool add) {
  const PanelLayout& layout = task.layout;
  if (layout.rows == 0 || layout.cols == 0) return;
  const bool regular = is_regular(task);
  const std::size_t threads_a_row =
      divide_up(static_cast<std::size_t>(layout.cols), regular ? kEight : 1);
  const std::size_t block =
      std::min<std::size_t>(round_up(threads_a_row, kWarpThreads), kMostThreads);
  const unsigned blocks_a_row = blocks_for(threads_a_row, block);
  const Launch on{
      dim3(blocks_for(static_cast<std::size_t>(layout.rows), regular ? kRowsAThread : 1),
           blocks_a_row, task.count),
      dim3(static_cast<unsigned>(block)), stream};
  if (!regular) return launch(on, dequantise_any_kernel, task, add);
  const Target target = task.to.dtype == DType::kF16    ? Target::kF16
                        : task.to.dtype == DType::kBF16 ? Target::kBF16
                        : add                           ? Target::kAddF32
                                                        : Target::kF32;
  switch (layout.format.encoding) {
    case Encoding::kF32:
      return run_regular<Encoding::kF32, GroupAxis::kInput>(on, task, target);
    case Encoding::kF16:
      return run_regular<Encoding::kF16, GroupAxis::kInput>(on, task, target);
    case Encoding::kBF16:
      return run_regular<Encoding::kBF16, GroupAxis::kInput>(on, task, target);
    case Encoding::kQ8:
    case Encoding::kQ4:
      return layout.format.axis == GroupAxis::kInput
                 ? run_grouped<GroupAxis::kInput>(on, task, target)
                 : run_grouped<GroupAxis::kOutput>(on, task, target);
  }
}

}  // namespace

void dequantise(cudaStream_t stream, const WeightPanel& panel, MatrixView to) {
  run(stream, task_of(panel, to), false);
}

void dequantise_alike(cudaStream_t stream, const WeightPanel& first, std::size_t count,
                      std::size_t spacing, MatrixView to) {
  constexpr std::size_t kMostAtOnce = 65535;  // of a grid's third dimension
  WeightPanel panel = first;
  for (std::int64_t row = 0; count > 0;) {
    const std::size_t some = std::min(count, kMostAtOnce);
    const auto rows = static_cast<std::int64_t>(some) * panel.layout.rows;
    run(stream, task_of(panel, to.row_range(row, rows), some, spacing), false);
    panel.data += some * spacing;
    row += rows;
    count -= some;
  }
}

void decode_rows(cudaStream_t stream, const WeightPanel& rows, MatrixView out, Epilogue epilogue) {
  run(stream, task_of(rows, out), epilogue == Epilogue::kAdd);
}

}  // namespace barge::cuda
