#include "kernels/cpu/kv_append.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv_append.cc"
#include "hwy/foreach_target.h"  // must come before highway.h

#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {
namespace {

constexpr std::size_t kChunk = 128;  // numbers whose codes are packed at a time; even

// The smallest and largest of x[0, count).
void range_of(const float* x, std::size_t count, float& low, float& high) {
  const F32Tag d;
  F32Vec least = hn::Set(d, x[0]), most = least;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    least = hn::Min(least, load(x + i));
    most = hn::Max(most, load(x + i));
  }
  low = hn::GetLane(hn::MinOfLanes(d, least));
  high = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < count; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
}

// Codes of x[0, count), count <= kChunk, as 32-bit integers.
void choose_codes(const float* x, std::size_t count, float low, float inverse,
                  std::int32_t* codes) {
  const F32Tag d;
  const I32Tag di;
  const F32Vec least = hn::Set(d, low), factor = hn::Set(d, inverse);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const F32Vec values = i + kLanes <= count ? load(x + i) : load_some(x + i, count - i);
    const F32Vec scaled = hn::Mul(hn::Sub(values, least), factor);
    const auto code = hn::NearestInt(hn::Min(hn::Max(scaled, hn::Zero(d)), hn::Set(d, 15.0f)));
    hn::StoreU(code, di, codes + i);
  }
}

void encode_q4(const float* x, int head_dim, int group, std::byte* codes, std::byte* pairs) {
  for (int first = 0; first < head_dim; first += group, pairs += 4) {
    const int count = std::min(group, head_dim - first);
    float low = 0, high = 0;
    range_of(x + first, static_cast<std::size_t>(count), low, high);
    const F16 pair[2] = {to_f16((high - low) / 15.0f), to_f16(low)};
    std::memcpy(pairs, pair, sizeof pair);
    const float scale = to_f32(pair[0]), inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (int done = 0; done < count; done += kChunk) {
      std::int32_t chunk[kChunk + kLanes];
      const int n = std::min(static_cast<int>(kChunk), count - done), begin = first + done;
      choose_codes(x + begin, static_cast<std::size_t>(n), to_f32(pair[1]), inverse, chunk);
      for (int i = 0; i < n; ++i)
        codes[(begin + i) / 2] |= static_cast<std::byte>(chunk[i] << ((begin + i) % 2 * 4));
    }
  }
}

void encode_head(const KvFormat& format, const float* x, std::byte* codes, std::byte* pairs) {
  const auto count = static_cast<std::size_t>(format.head_dim);
  if (format.encoding == Encoding::kF32) {
    std::memcpy(codes, x, sizeof(float) * count);
  } else if (format.encoding == Encoding::kF16) {
    auto* to = reinterpret_cast<F16*>(codes);
    for_each_vector(count, [=](const auto& get, const auto& put) HWY_ATTR { put(get(x), to); });
  } else {
    encode_q4(x, format.head_dim, format.group, codes, pairs);
  }
}

void AppendRecord(const KvFormat& format, const float* k, const float* v, std::byte* record) {
  std::memset(record, 0, format.record_bytes());  // codes are or'ed in, and gaps are defined
  for (int head = 0; head < format.kv_heads; ++head, k += format.head_dim, v += format.head_dim) {
    encode_head(format, k, record + format.k_offset(head), record + format.k_scale_offset(head));
    encode_head(format, v, record + format.v_offset(head), record + format.v_scale_offset(head));
  }
}

}  // namespace
}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace barge {

HWY_EXPORT(AppendRecord);

void append_record(const KvFormat& format, const float* k, const float* v, std::byte* record) {
  HWY_DYNAMIC_DISPATCH(AppendRecord)(format, k, v, record);
}

}  // namespace barge
#endif
