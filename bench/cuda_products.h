#pragma once

#include <cublasLt.h>
#include <cuda_fp16.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>

#include "core/errors.h"
#include "kernels/cuda/check.h"

namespace barge::cuda {

inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(concat("cuBLAS failed at ", call, ": ", cublasLtGetStatusName(status)));
}

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) { cuda::check(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  DeviceBytes(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

/// out [rows, n] = x [rows, k] W^T, W [n, k], all f16; the algorithm that cuBLAS likes best.
class Products {
 public:
  Products() : workspace_(kWorkspaceBytes) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    check(cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "DescCreate");
    const cublasOperation_t transposed = CUBLAS_OP_T;  // cuBLAS thinks in columns
    check(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                         sizeof transposed),
          "DescSetAttribute");
  }
  Products(const Products&) = delete;
  ~Products() {
    for (auto& [shape, plan] : plans_)
      for (cublasLtMatrixLayout_t layout : plan.layouts) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(desc_);
    cublasLtDestroy(handle_);
  }

  void run(cudaStream_t stream, const half* w, const half* x, half* out, std::uint64_t rows,
           std::uint64_t n, std::uint64_t k) {
    auto [found, fresh] = plans_.try_emplace({rows, n, k});
    Plan& plan = found->second;
    if (fresh) make(plan, rows, n, k);
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle_, desc_, &one, w, plan.layouts[0], x, plan.layouts[1], &zero, out,
                         plan.layouts[2], out, plan.layouts[2], &plan.algorithm,
                         workspace_.as<void>(), kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  static constexpr std::size_t kWorkspaceBytes = 32u << 20;

  struct Plan {
    std::array<cublasLtMatrixLayout_t, 3> layouts{};
    cublasLtMatmulAlgo_t algorithm{};
  };

  void make(Plan& plan, std::uint64_t rows, std::uint64_t n, std::uint64_t k) {
    const auto layout = [](cublasLtMatrixLayout_t* to, std::uint64_t r, std::uint64_t c) {
      check(cublasLtMatrixLayoutCreate(to, CUDA_R_16F, r, c, static_cast<std::int64_t>(r)),
            "LayoutCreate");
    };
    layout(&plan.layouts[0], k, n);
    layout(&plan.layouts[1], k, rows);
    layout(&plan.layouts[2], n, rows);
    cublasLtMatmulPreference_t wish = nullptr;
    check(cublasLtMatmulPreferenceCreate(&wish), "PreferenceCreate");
    check(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kWorkspaceBytes, sizeof kWorkspaceBytes),
          "PreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_, desc_, plan.layouts[0], plan.layouts[1],
                                         plan.layouts[2], plan.layouts[2], wish, 1, &best, &count),
          "AlgoGetHeuristic");
    cublasLtMatmulPreferenceDestroy(wish);
    plan.algorithm = best.algo;
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  DeviceBytes workspace_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, Plan> plans_;
};

}  // namespace barge::cuda
