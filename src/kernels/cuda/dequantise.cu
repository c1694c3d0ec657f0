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
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/operations.h"

namespace barge::cuda {
namespace {

constexpr int kRowsAThread = 4, kMostThreads = 128, kWarpThreads = 32;

// The number 0..255 in byte `i` of a word: it becomes the low byte of 2^23, which is then taken
// off. Two operations, where a conversion from an integer runs at a quarter of their rate.
__device__ float byte_number(unsigned word, int i) {
  constexpr unsigned kTwoTo23 = 0x4b000000u;
  return __uint_as_float(__byte_perm(word, kTwoTo23, 0x7440u | static_cast<unsigned>(i))) - 0x1p23f;
}

// Eight neighbouring numbers as they are stored.
template <Encoding kEncoding>
struct Stored {
  Eight numbers;  // not grouped: the numbers themselves
};
template <>
struct Stored<Encoding::kQ4> {
  unsigned codes;
};
template <>
struct Stored<Encoding::kQ8> {
  uint2 codes;
};

template <Encoding kEncoding>
constexpr int kEightBytes = sizeof(Stored<kEncoding>);
template <>
constexpr int kEightBytes<Encoding::kF16> = 16;
template <>
constexpr int kEightBytes<Encoding::kBF16> = 16;

constexpr DType dtype_of(Encoding encoding) {
  return encoding == Encoding::kF16    ? DType::kF16
         : encoding == Encoding::kBF16 ? DType::kBF16
                                       : DType::kF32;
}

template <Encoding kEncoding>
__device__ Stored<kEncoding> load_stored(const std::byte* at) {
  if constexpr (kEncoding == Encoding::kQ4)
    return {*reinterpret_cast<const unsigned*>(at)};
  else if constexpr (kEncoding == Encoding::kQ8)
    return {*reinterpret_cast<const uint2*>(at)};
  else
    return {load_wide<dtype_of(kEncoding)>(at)};
}

struct Task {
  const std::byte* panel;
  PanelLayout layout;
  MatrixView to;
  int group_log2;  // regular panels only
};

// Scales and mins of eight columns: one of each along the input axis, else eight.
template <GroupAxis kAxis>
struct Scales {
  uint4 scale, min;  // f16
};
template <>
struct Scales<GroupAxis::kInput> {
  unsigned short scale, min;
};

// `at`: of the first scale.
template <Encoding kEncoding, GroupAxis kAxis>
__device__ Scales<kAxis> load_scales(const PanelLayout& layout, const std::byte* at) {
  using Bits = decltype(Scales<kAxis>::scale);
  Scales<kAxis> result{};
  result.scale = *reinterpret_cast<const Bits*>(at);
  if constexpr (kEncoding == Encoding::kQ4)
    result.min = *reinterpret_cast<const Bits*>(at + (layout.mins_offset - layout.scales_offset));
  return result;
}

__device__ Eight spread(unsigned short f16) {
  const float x = f32_of_f16(f16);
  return {{x, x, x, x, x, x, x, x}};
}
__device__ Eight spread(const uint4& f16) { return eight_of<DType::kF16>(f16); }

// scale * code has at most 19 bits, so that it is exact, and a sum with it rounds but once.
template <Encoding kEncoding, typename Scales>
__device__ Eight decoded(const Stored<kEncoding>& stored, const Scales& scales) {
  const Eight scale = spread(scales.scale), min = spread(scales.min);
  Eight result;
  if constexpr (kEncoding == Encoding::kQ4) {
    const unsigned even = stored.codes & 0x0f0f0f0fu, odd = (stored.codes >> 4) & 0x0f0f0f0fu;
#pragma unroll
    for (int i = 0; i < kEight; ++i)
      result.x[i] = scale.x[i] * byte_number(i % 2 == 0 ? even : odd, i / 2) + min.x[i];
  } else {
    // An inverted sign bit makes a code code + 128.
    const unsigned first = stored.codes.x ^ 0x80808080u, last = stored.codes.y ^ 0x80808080u;
#pragma unroll
    for (int i = 0; i < kEight; ++i)
      result.x[i] = scale.x[i] * (byte_number(i < 4 ? first : last, i % 4) - 128.0f);
  }
  return result;
}

constexpr bool is_grouped(Encoding encoding) {
  return encoding == Encoding::kQ4 || encoding == Encoding::kQ8;
}

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
  const std::byte* codes = task.panel + r0 * static_cast<std::int64_t>(layout.row_bytes) +
                           c * kEightBytes<kEncoding> / kEight;
  const std::byte* scale =
      task.panel + layout.scales_offset +
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
  std::byte* at = number_at(task.to, r0, c);
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
  const std::byte* codes = task.panel + r * static_cast<std::int64_t>(layout.row_bytes);
  const std::int64_t group = layout.format.group;
  const std::int64_t scale_idx = layout.format.axis == GroupAxis::kInput
                                     ? r * layout.groups + c / group
                                     : r / group * layout.cols + c;
  const std::byte* scale = task.panel + layout.scales_offset + 2 * scale_idx;
  const std::byte* min = task.panel + layout.mins_offset + 2 * scale_idx;
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
  std::byte* at = number_at(task.to, r, c);
  if (task.to.dtype == DType::kF16)
    store_number<DType::kF16>(at, x);
  else if (task.to.dtype == DType::kBF16)
    store_number<DType::kBF16>(at, x);
  else
    store_number<DType::kF32>(at, add ? x + load_number<DType::kF32>(at) : x);
}

Task task_of(const WeightPanel& panel, const MatrixView& to) {
  const auto group = static_cast<unsigned>(panel.layout.format.group);
  return {panel.data, panel.layout, to, static_cast<int>(std::bit_width(group)) - 1};
}

// Whether the fast kernel can take it: all matrices but those made for tests.
bool is_regular(const Task& task) {
  const WeightFormat& format = task.layout.format;
  if (task.layout.cols % kEight != 0 || !is_wide(task.panel) || !is_wide(task.to)) return false;
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
           blocks_a_row),
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

void decode_rows(cudaStream_t stream, const WeightPanel& rows, MatrixView out, Epilogue epilogue) {
  run(stream, task_of(rows, out), epilogue == Epilogue::kAdd);
}

}  // namespace barge::cuda
