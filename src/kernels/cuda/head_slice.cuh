// The numbers of one head of one record that one lane has: kUnits times eight.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/record.cuh"

namespace barge::cuda {

/// A number is raw * scale + low. 4-bit codes stay integers, so that a dot product is scaled once
/// and not for each number.
template <Encoding kEncoding, int kUnits>
struct HeadSlice;

template <int kUnits>
struct HeadSlice<Encoding::kF32, kUnits> {
  Eight eights[kUnits];

  __device__ Eight raw(int unit, unsigned) const { return eights[unit]; }
};

template <int kUnits>
struct HeadSlice<Encoding::kF16, kUnits> {
  uint4 words[kUnits];

  __device__ Eight raw(int unit, unsigned) const { return eight_of<DType::kF16>(words[unit]); }
};

template <int kUnits>
struct HeadSlice<Encoding::kQ4, kUnits> {
  unsigned words[kUnits];
  float scale, low;

  /// Code i times raw_factor(i), exactly: put into the mantissa of 2^23 (RecordLayout::code_base)
  /// where it lies in the word, so that most codes need no shift.
  __device__ Eight raw(int unit, unsigned code_base) const {
    Eight result;
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      const unsigned word = i < 5 ? words[unit] : words[unit] >> 20, at = 4 * (i < 5 ? i : i - 5);
      result.x[i] = __uint_as_float((word & (15u << at)) | code_base) - 8388608.0f;
    }
    return result;
  }
};

/// By what `raw` is too large: a power of two.
template <Encoding kEncoding>
__device__ constexpr float raw_factor(int i) {
  return kEncoding == Encoding::kQ4 ? static_cast<float>(1 << 4 * (i < 5 ? i : i - 5)) : 1.0f;
}

/// Which unit of a head is the i-th of a lane, in a team of `team` lanes: neighbours read
/// neighbouring 16 bytes, which for 4-bit codes are up to four units.
template <Encoding kEncoding, int kUnits>
__device__ inline int unit_of(int lane, int i, int team) {
  return kEncoding == Encoding::kQ4 ? lane * kUnits + i : lane + i * team;
}

/// Reads a lane's slices of heads. Where they lie in a head is found once. kWhole: head_dim is a
/// multiple of 8, and of 8 * kUnits for 4-bit codes, whose groups then don't end inside a slice.
/// Units past the head's end are any numbers of the same head.
template <Encoding kEncoding, int kUnits, bool kWhole>
class SliceReader {
 public:
  using Slice = HeadSlice<kEncoding, kUnits>;

  /// `lane`: in its team.
  __device__ SliceReader(const RecordLayout& layout, int lane, int team) {
    const int units = (layout.head_dim + kEight - 1) / kEight;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      const int unit = unit_of<kEncoding, kUnits>(lane, i, team);
      places_[i] = min(unit, units - kUnits / kPlaces) * kUnitBytes;
    }
    if constexpr (kQ4) pair_ = 4 * (places_[0] / kUnitBytes * kEight / layout.group);
  }

  /// Records don't change while they are read.
  __device__ Slice read(const std::byte* codes, const std::byte* pairs) const {
    static_assert(kWhole);
    Slice slice;
    if constexpr (kQ4) {
      read_words(codes + places_[0], slice.words);
      const unsigned pair = __ldg(reinterpret_cast<const unsigned*>(pairs + pair_));
      slice.scale = f32_of_f16(pair & 0xffffu);
      slice.low = f32_of_f16(pair >> 16);
    } else {
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const auto* at = reinterpret_cast<const uint4*>(codes + places_[i]);
        if constexpr (kEncoding == Encoding::kF16)
          slice.words[i] = __ldg(at);
        else
          slice.eights[i] = eight_floats(__ldg(at), __ldg(at + 1));
      }
    }
    return slice;
  }

  /// The same of a head that isn't whole, and may begin at any even address, number by number.
  __device__ Slice read(const RecordLayout& layout, const std::byte* codes,
                        const std::byte* pairs) const {
    static_assert(!kWhole && kUnits == 1);
    Slice slice{};
    if constexpr (kQ4) {
      for (int i = 0; i < kUnitBytes && places_[0] + i < layout.head_bytes; ++i)
        slice.words[0] |= static_cast<unsigned>(codes[places_[0] + i]) << 8 * i;
      const auto* pair = reinterpret_cast<const unsigned short*>(pairs + pair_);
      slice.scale = f32_of_f16(pair[0]);
      slice.low = f32_of_f16(pair[1]);
    } else {
      const int count = (layout.head_bytes - places_[0]) / (kUnitBytes / kEight);
      if constexpr (kEncoding == Encoding::kF32) {
        slice.eights[0] = load_as<DType::kF32>(codes + places_[0], count, false);
      } else {
        unsigned short halves[kEight] = {};
        for (int i = 0; i < min(count, kEight); ++i)
          halves[i] = reinterpret_cast<const unsigned short*>(codes + places_[0])[i];
        std::memcpy(slice.words, halves, sizeof halves);
      }
    }
    return slice;
  }

 private:
  static constexpr bool kQ4 = kEncoding == Encoding::kQ4;
  static constexpr int kUnitBytes = kQ4 ? 4 : kEncoding == Encoding::kF16 ? 16 : 32;
  static constexpr int kPlaces = kQ4 ? 1 : kUnits;

  __device__ static void read_words(const std::byte* from, unsigned (&words)[kUnits]) {
    if constexpr (kUnits == 4) {
      const uint4 all = __ldg(reinterpret_cast<const uint4*>(from));
      words[0] = all.x;
      words[1] = all.y;
      words[2] = all.z;
      words[3] = all.w;
    } else if constexpr (kUnits == 2) {
      const uint2 all = __ldg(reinterpret_cast<const uint2*>(from));
      words[0] = all.x;
      words[1] = all.y;
    } else {
      words[0] = __ldg(reinterpret_cast<const unsigned*>(from));
    }
  }
  __device__ static Eight eight_floats(const uint4& a, const uint4& b) {
    return {{__uint_as_float(a.x), __uint_as_float(a.y), __uint_as_float(a.z), __uint_as_float(a.w),
             __uint_as_float(b.x), __uint_as_float(b.y), __uint_as_float(b.z),
             __uint_as_float(b.w)}};
  }

  int places_[kPlaces];  // bytes from the head's first code
  int pair_ = 0;         // and from its first pair
};

}  // namespace barge::cuda
