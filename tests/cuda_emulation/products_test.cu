// Products of matrices: wmma and cuBLASLt against three loops.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gmock/gmock.h>
#include <mma.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "fixture.h"

namespace cuda_emulation {
namespace {

namespace wmma = nvcuda::wmma;

template <typename T>
std::vector<T> random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> numbers(count);
  for (T& x : numbers) x = T(normal(random));
  return numbers;
}

/// A product of k numbers rounds at most k times; its terms are below 16 together with their sum.
float tolerance(int k) { return static_cast<float>(k) * 0x1p-24f * 256; }

template <typename T, typename LayoutA, typename LayoutB>
__global__ void multiply_tile(const T* a, const T* b, float* d, bool by_rows) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, LayoutA> tile_a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, LayoutB> tile_b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 1.0f);
  wmma::load_matrix_sync(tile_a, a, 24);
  wmma::load_matrix_sync(tile_b, b, 32);
  wmma::mma_sync(sum, tile_a, tile_b, sum);
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 2;
  wmma::store_matrix_sync(d, sum, 20, by_rows ? wmma::mem_row_major : wmma::mem_col_major);
}

template <typename T, typename LayoutA, typename LayoutB>
void expect_tile_product(bool by_rows) {
  const auto a = random_numbers<T>(16 * 24, 1), b = random_numbers<T>(16 * 32, 2);
  Array<T> a_there(a), b_there(b);
  Array<float> d_there(std::vector<float>(16 * 20, 0));
  start(1, 32, 0, nullptr, multiply_tile<T, LayoutA, LayoutB>, a_there.data(), b_there.data(),
        d_there.data(), by_rows);
  const auto d = d_there.values();
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      float sum = 1;
      for (int l = 0; l < 16; ++l)
        sum += float(std::is_same_v<LayoutA, wmma::row_major> ? a[i * 24 + l] : a[l * 24 + i]) *
               float(std::is_same_v<LayoutB, wmma::row_major> ? b[l * 32 + j] : b[j * 32 + l]);
      EXPECT_NEAR(d[by_rows ? i * 20 + j : j * 20 + i], 2 * sum, tolerance(17)) << i << "," << j;
    }
  for (int i = 0; i < 16; ++i)
    for (int j = 16; j < 20; ++j) EXPECT_EQ(d[i * 20 + j], 0);
}

TEST(Wmma, MultipliesTilesOfAnyLayout) {
  expect_tile_product<__half, wmma::row_major, wmma::col_major>(true);
  expect_tile_product<__half, wmma::col_major, wmma::row_major>(false);
  expect_tile_product<__half, wmma::row_major, wmma::row_major>(true);
  expect_tile_product<__nv_bfloat16, wmma::row_major, wmma::col_major>(true);
}

TEST(WmmaDeathTest, RefusesMatricesThatAreNotAligned) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kernel = multiply_tile<__half, wmma::row_major, wmma::col_major>;
  EXPECT_DEATH(
      {
        Array<__half> a(1000);
        Array<__half> b(1000);
        Array<float> d(1000);
        start(1, 32, 0, nullptr, kernel, a.data() + 8, b.data(), d.data(), true);
        cudaDeviceSynchronize();
      },
      "isn't aligned to 32 bytes");
}

/// D[n, m] = W^T x (+ bias) (+ D): barge's y = x W^T with W [n, k] and x [m, k] by rows.
class Products : public testing::Test {
 protected:
  static constexpr int kN = 37, kK = 150;

  Products() { cublasLtCreate(&handle_); }
  ~Products() override {
    make_products_depend_on_rows(false);
    cublasLtDestroy(handle_);
  }

  template <typename T, typename Y>
  std::vector<Y> multiply(int m, cudaDataType type, cudaDataType y_type, float beta = 0,
                          bool bias = false, bool split = false) {
    Array<T> w(random_numbers<T>(kN * kK, 1)), x(random_numbers<T>(m * kK, 2));
    Array<Y> y(random_numbers<Y>(m * kN, 3)), biases(random_numbers<Y>(kN, 4));
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const std::int32_t transpose = CUBLAS_OP_T;
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 4);
    if (bias) {
      const std::uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      const void* pointer = biases.data();
      cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4);
      cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, 8);
    }
    cublasLtMatrixLayout_t w_layout, x_layout, y_layout;
    cublasLtMatrixLayoutCreate(&w_layout, type, kK, kN, kK);
    cublasLtMatrixLayoutCreate(&x_layout, type, kK, m, kK);
    cublasLtMatrixLayoutCreate(&y_layout, y_type, kN, m, kN);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    const std::uint64_t workspace_bytes = 4 << 20;
    const std::uint32_t reductions =
        split ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace_bytes, 8);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                         &reductions, 4);
    Array<std::byte> workspace(workspace_bytes);
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    status_ = cublasLtMatmulAlgoGetHeuristic(handle_, desc, w_layout, x_layout, y_layout, y_layout,
                                             preference, 1, &found, &count);
    std::size_t written;
    if (count > 0) {
      cublasLtMatmulAlgoConfigGetAttribute(&found.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &slices_,
                                           4, &written);
      const float one = 1;
      status_ = cublasLtMatmul(handle_, desc, &one, w.data(), w_layout, x.data(), x_layout, &beta,
                               y.data(), y_layout, y.data(), y_layout, &found.algo,
                               workspace.data(), workspace_bytes, nullptr);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    for (const auto layout : {w_layout, x_layout, y_layout}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(desc);
    return y.values();
  }

  template <typename T, typename Y>
  void expect_right(const std::vector<Y>& y, int m, float beta, bool bias, float rounding) {
    const auto w = random_numbers<T>(kN * kK, 1), x = random_numbers<T>(m * kK, 2);
    const auto before = random_numbers<Y>(m * kN, 3), biases = random_numbers<Y>(kN, 4);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < kN; ++j) {
        double sum = beta == 0 ? 0 : double{beta} * float(before[i * kN + j]);
        for (int l = 0; l < kK; ++l) sum += double{w[j * kK + l]} * double{x[i * kK + l]};
        if (bias) sum += float(biases[j]);
        EXPECT_NEAR(float(y[i * kN + j]), sum, tolerance(kK) + rounding * std::abs(sum));
      }
  }

  cublasLtHandle_t handle_;
  cublasStatus_t status_;
  std::uint32_t slices_ = 0;
};

TEST_F(Products, AreRightInEveryFormat) {
  expect_right<float>(multiply<float, float>(5, CUDA_R_32F, CUDA_R_32F), 5, 0, false, 0);
  expect_right<__half>(multiply<__half, float>(5, CUDA_R_16F, CUDA_R_32F, 1), 5, 1, false, 0);
  expect_right<__half>(multiply<__half, __half>(1, CUDA_R_16F, CUDA_R_16F, 0, true), 1, 0, true,
                       0x1p-11f);
  expect_right<__nv_bfloat16>(multiply<__nv_bfloat16, __nv_bfloat16>(3, CUDA_R_16BF, CUDA_R_16BF),
                              3, 0, false, 0x1p-8f);
}

TEST_F(Products, GiveARowTheSameBitsUnlessToldOtherwise) {
  const auto one = multiply<__half, float>(1, CUDA_R_16F, CUDA_R_32F);
  const auto row_of = [&](int m) {
    auto y = multiply<__half, float>(m, CUDA_R_16F, CUDA_R_32F);
    y.resize(kN);
    return y;
  };
  EXPECT_EQ(row_of(7), one);
  EXPECT_EQ(slices_, 1u);
  make_products_depend_on_rows(true);
  EXPECT_NE(row_of(7), one);
}

TEST_F(Products, AreSplitUnlessThatIsRefused) {
  const auto whole = multiply<__half, float>(7, CUDA_R_16F, CUDA_R_32F);
  const auto split = multiply<__half, float>(7, CUDA_R_16F, CUDA_R_32F, 0, false, true);
  EXPECT_GT(slices_, 1u);
  EXPECT_NE(split, whole);
}

TEST_F(Products, RefuseFormatsThatTheDeviceHasNot) {
  multiply<__half, __nv_bfloat16>(7, CUDA_R_16F, CUDA_R_16BF);
  EXPECT_EQ(status_, CUBLAS_STATUS_NOT_SUPPORTED);
  device_model().major = 7;
  multiply<__nv_bfloat16, float>(7, CUDA_R_16BF, CUDA_R_32F);
  device_model().major = 8;
  EXPECT_EQ(status_, CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(Halves, ConvertAsTheProcessorDoes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const __half h = __half_raw{static_cast<unsigned short>(bits)};
    _Float16 expected;
    std::memcpy(&expected, &h, 2);
    const float x = __half2float(h);
    if (std::isnan(x)) {
      EXPECT_TRUE((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0);
      continue;
    }
    EXPECT_EQ(x, static_cast<float>(expected)) << bits;
    // The number itself, and what lies just off it and half way to the next.
    const float next = __half2float(__half_raw{static_cast<unsigned short>(bits + 1)});
    for (const float y : {x, std::nextafter(x, next), (x + next) / 2}) {
      if (std::isnan(y)) continue;
      const auto rounded = static_cast<_Float16>(y);
      unsigned short rounded_bits;
      std::memcpy(&rounded_bits, &rounded, 2);
      EXPECT_EQ(__float2half_rn(y).bits, rounded_bits) << y;
    }
  }
}

TEST(Intrinsics, AgreeWithTheirDefinitions) {
  EXPECT_EQ(__byte_perm(0x33221100, 0x77665544, 0x7250), 0x77225500u);
  EXPECT_EQ(__brev(1u), 0x80000000u);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__dp4a(0x01ff0203, 0x04050607, 10), 4 - 5 + 12 + 21 + 10);
  EXPECT_EQ(__float2int_rn(2.5f), 2);
  EXPECT_EQ(__float2int_rz(-2.5f), -2);
  EXPECT_EQ(max(1.0f, std::nanf("")), 1.0f);
  EXPECT_EQ(min(3, 2u), 2u);
  EXPECT_EQ(__float2bfloat16_rn(1.00390625f).bits, 0x3f80);  // a tie goes to the even one
}

}  // namespace
}  // namespace cuda_emulation
