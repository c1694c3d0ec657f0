#include "kernels/cpu/dequantise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/decode_row.cc"
#include "hwy/foreach_target.h"  // must come before highway.h

#include "hwy/highway.h"
#include "kernels/cpu/decode-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kChunk = 128;  // columns whose codes are unpacked at a time; even

// Columns [first, first + count) of one row, count <= kChunk, `first` even.
template <typename Code>
void decode_codes(const WeightPanel& panel, std::int64_t row, std::int64_t first,
                  std::int64_t count, const Code* codes, float* out) {
  const PanelLayout& layout = panel.layout;
  const std::int64_t size = layout.format.group;
  const std::byte* scales = panel.data + layout.scales_offset;
  const std::byte* mins =
      layout.format.encoding == Encoding::kQ4 ? panel.data + layout.mins_offset : nullptr;
  if (layout.format.axis == GroupAxis::kInput) {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t group = (first + done) / size;
      const std::int64_t end = std::min(count, (group + 1) * size - first);
      const std::int64_t at = 2 * (row * layout.groups + group);
      scale_codes(codes + done, end - done, f16_at(scales + at),
                  mins != nullptr ? f16_at(mins + at) : 0.0f, out + done);
      done = end;
    }
    return;
  }
  const std::int64_t at = 2 * (row / size * layout.cols + first);
  const auto* s = reinterpret_cast<const F16*>(scales + at);
  if (mins == nullptr) {
    for_each_vector(static_cast<std::size_t>(count),
                    [=](const auto& get, const auto& put)
                        HWY_ATTR { put(hn::Mul(get(codes), get(s)), out); });
    return;
  }
  const auto* m = reinterpret_cast<const F16*>(mins + at);
  for_each_vector(static_cast<std::size_t>(count), [=](const auto& get, const auto& put) HWY_ATTR {
    put(hn::MulAdd(get(codes), get(s), get(m)), out);
  });
}

template <typename T>
void copy_numbers(const std::byte* row, std::int64_t first, std::int64_t count, float* out) {
  const T* from = reinterpret_cast<const T*>(row) + first;
  for_each_vector(static_cast<std::size_t>(count),
                  [=](const auto& get, const auto& put) HWY_ATTR { put(get(from), out); });
}

void decode_chunk(const WeightPanel& panel, std::int64_t row, std::int64_t first,
                  std::int64_t count, float* out) {
  const std::byte* codes = panel.data + static_cast<std::size_t>(row) * panel.layout.row_bytes;
  switch (panel.layout.format.encoding) {
    case Encoding::kF32:
      return copy_numbers<float>(codes, first, count, out);
    case Encoding::kF16:
      return copy_numbers<F16>(codes, first, count, out);
    case Encoding::kBF16:
      return copy_numbers<BF16>(codes, first, count, out);
    case Encoding::kQ8:
      return decode_codes(panel, row, first, count,
                          reinterpret_cast<const std::int8_t*>(codes) + first, out);
    case Encoding::kQ4: {
      std::uint8_t nibbles[kChunk];
      unpack_nibbles(codes, first, count, nibbles);
      return decode_codes(panel, row, first, count, nibbles, out);
    }
  }
}

void DecodeRow(const WeightPanel& panel, std::int64_t row, std::int64_t first, std::int64_t count,
               Epilogue epilogue, float* out) {
  for (std::int64_t done = 0; done < count; done += kChunk) {
    const std::int64_t n = std::min(kChunk, count - done);
    float* to = out + done;
    if (epilogue == Epilogue::kStore) {
      decode_chunk(panel, row, first + done, n, to);
      continue;
    }
    float chunk[kChunk];
    decode_chunk(panel, row, first + done, n, chunk);
    for_each_vector(static_cast<std::size_t>(n), [&](const auto& get, const auto& put) HWY_ATTR {
      put(hn::Add(get(to), get(static_cast<const float*>(chunk))), to);
    });
  }
}

}  // namespace
}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace barge {

HWY_EXPORT(DecodeRow);

void decode_row(const WeightPanel& panel, std::int64_t row, std::int64_t first, std::int64_t count,
                Epilogue epilogue, float* out) {
  HWY_DYNAMIC_DISPATCH(DecodeRow)(panel, row, first, count, epilogue, out);
}

}  // namespace barge
#endif
