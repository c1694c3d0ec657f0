#include "kernels/cpu/product.h"

#include <algorithm>

namespace barge {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kWatchedByThreadSanitizer = true;
#else
constexpr bool kWatchedByThreadSanitizer = false;
#endif

class PlainProduct final : public Product {
 public:
  PlainProduct(std::int64_t inputs, DType compute) {
    layout_ = {.inputs = inputs,
               .padded_inputs = inputs,
               .bytes = sizeof(float) * static_cast<std::size_t>(inputs * kTileChannels)};
    round_ = compute == DType::kBF16;
  }

  void multiply(int, const std::byte* x, const std::byte* tile, std::byte*, float* sums) override {
    const auto* rows = reinterpret_cast<const float*>(x);
    std::fill_n(sums, kRowTile * kTileChannels, 0.0f);
    for (std::int64_t r = 0; r < kRowTile; ++r, sums += kTileChannels, rows += layout_.inputs) {
      const auto* weights = reinterpret_cast<const float*>(tile);
      for (std::int64_t k = 0; k < layout_.inputs; ++k, weights += kTileChannels)
        for (std::int64_t n = 0; n < kTileChannels; ++n) sums[n] += rows[k] * weights[n];
    }
  }
};

}  // namespace

std::unique_ptr<Product> make_plain_product(std::int64_t inputs, DType compute) {
  return std::make_unique<PlainProduct>(inputs, compute);
}

std::unique_ptr<Product> make_product(std::int64_t inputs, DType compute, int threads) {
  return kWatchedByThreadSanitizer ? make_plain_product(inputs, compute)
                                   : make_onednn_product(inputs, compute, threads);
}

}  // namespace barge
