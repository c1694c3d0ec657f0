#include "kernels/cpu/code_product.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/bytes.h"
#include "core/errors.h"
#include "kernels/cpu/row_visit.h"
#include "kernels/rounded_inputs.h"

namespace barge {
namespace {

// Where input k of a group stands.
std::int64_t place_of(const CodeShape& shape, std::int64_t k) {
  return shape.encoding == Encoding::kQ4 ? k / 8 * 8 + k % 2 * 4 + k % 8 / 2 : k;
}

float number(float x) { return x; }
float number(F16 x) { return to_f32(x); }
float number(BF16 x) { return to_f32(x); }

class PlainCodeProduct final : public CodeProduct {
 public:
  void quantise_row(const CodeShape& shape, const MatrixView& x, std::int64_t row,
                    const RowCodes& to) const override {
    visit_row(x, row, [&](const auto* numbers) {
      for (std::int64_t g = 0; g < shape.groups(); ++g) {
        const auto* mine = numbers + g * shape.group;
        std::int32_t most = 0;  // as integers, so that what isn't a number is larger than any
        for (std::int64_t k = 0; k < shape.group; ++k)
          most = std::max(most, std::bit_cast<std::int32_t>(number(mine[k])) & 0x7fffffff);
        const auto largest = std::bit_cast<float>(most);
        const bool nothing = largest < kLeastInput;
        const float inverse = nothing ? 0 : kLargestCode / largest;
        int sum = 0;
        for (std::int64_t k = 0; k < shape.group; ++k) {
          const float code = std::nearbyint(number(mine[k]) * inverse);
          const int whole = std::fabs(code) <= kLargestCode ? static_cast<int>(code) : 0;
          to.codes[g * shape.group + place_of(shape, k)] = static_cast<std::int8_t>(whole);
          sum += whole;
        }
        to.scales[g] = nothing ? 0 : largest / kLargestCode;
        to.sums[g] = shape.encoding == Encoding::kQ4 ? to.scales[g] * static_cast<float>(sum)
                                                     : std::bit_cast<float>(-128 * sum);
      }
    });
  }

  void unpack_tile(const CodeShape& shape, const ChannelMap& channels, std::int64_t first,
                   std::byte* tile) const override {
    const bool q4 = shape.encoding == Encoding::kQ4;
    auto* const codes = reinterpret_cast<std::uint8_t*>(tile);
    auto* const scales = reinterpret_cast<float*>(codes + shape.inputs * kTileChannels);
    float* const lows = scales + shape.groups() * kTileChannels;
    const std::int64_t count = std::min(kTileChannels, channels.channels() - first);
    for (std::int64_t n = 0; n < count; ++n) {
      const auto [panel, row] = channels.find(first + n);
      const std::byte* from = panel->data + static_cast<std::size_t>(row) * panel->layout.row_bytes;
      const std::int64_t block = n / kCodeBlock * kCodeBlock, lane = n % kCodeBlock;
      for (std::int64_t k = 0; k < shape.inputs; ++k) {
        const auto byte = std::to_integer<std::uint8_t>(from[q4 ? k / 2 : k]);
        const std::int64_t place = place_of(shape, k);
        codes[block * shape.inputs + place / 4 * 4 * kCodeBlock + 4 * lane + place % 4] =
            static_cast<std::uint8_t>(!q4          ? byte ^ 128
                                      : k % 2 == 0 ? byte & 15
                                                   : byte >> 4);
      }
      const auto table = [&](std::size_t offset, float* to) {
        const auto* values =
            reinterpret_cast<const F16*>(panel->data + offset) + row * panel->layout.groups;
        for (std::int64_t g = 0; g < shape.groups(); ++g)
          to[block * shape.groups() + g * kCodeBlock + lane] = to_f32(values[g]);
      };
      table(panel->layout.scales_offset, scales);
      if (q4) table(panel->layout.mins_offset, lows);
    }
  }

  void multiply(const CodeShape& shape, const RowCodes& x, std::int64_t rows, const std::byte* tile,
                float* sums) const override {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(tile);
    const auto* scales = reinterpret_cast<const float*>(codes + shape.inputs * kTileChannels);
    const float* lows = scales + shape.groups() * kTileChannels;
    for (std::int64_t r = 0; r < rows; ++r, sums += kTileChannels)
      for (std::int64_t block = 0; block < kTileChannels; block += kCodeBlock)
        multiply_block(shape, x.row(r), codes + block * shape.inputs,
                       scales + block * shape.groups(), lows + block * shape.groups(),
                       sums + block);
  }

 private:
  static void multiply_block(const CodeShape& shape, const RowCodes& x, const std::uint8_t* weights,
                             const float* scales, const float* lows, float* sums) {
    const bool q4 = shape.encoding == Encoding::kQ4;
    std::fill_n(sums, kCodeBlock, 0.0f);
    for (std::int64_t g = 0; g < shape.groups(); ++g) {
      std::int32_t products[kCodeBlock];
      std::fill_n(products, kCodeBlock, q4 ? 0 : std::bit_cast<std::int32_t>(x.sums[g]));
      for (std::int64_t k = g * shape.group; k < (g + 1) * shape.group; k += 4)
        for (std::int64_t n = 0; n < kCodeBlock; ++n)
          for (std::int64_t i = 0; i < 4; ++i)
            products[n] += weights[k * kCodeBlock + 4 * n + i] * x.codes[k + i];
      for (std::int64_t n = 0; n < kCodeBlock; ++n) {
        const std::int64_t at = g * kCodeBlock + n;
        sums[n] = std::fma(static_cast<float>(products[n]), scales[at] * x.scales[g], sums[n]);
        if (q4) sums[n] = std::fma(lows[at], x.sums[g], sums[n]);
      }
    }
  }
};

}  // namespace

std::size_t CodeShape::tile_bytes() const {
  const std::int64_t tables = encoding == Encoding::kQ4 ? 2 : 1;
  return static_cast<std::size_t>(
      kTileChannels * (inputs + tables * groups() * static_cast<std::int64_t>(sizeof(float))));
}

bool multiplies_codes_fast() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("f16c");
}

std::unique_ptr<CodeProduct> make_plain_code_product() {
  return std::make_unique<PlainCodeProduct>();
}

std::unique_ptr<CodeProduct> make_code_product() {
  return multiplies_codes_fast() ? make_vnni_code_product() : make_plain_code_product();
}

}  // namespace barge
