#include "cublasLt.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "calls.h"
#include "cublaslt_objects.h"
#include "emulation.h"
#include "executor.h"
#include "handles.h"
#include "memory.h"

using namespace cuda_emulation;

namespace {

std::atomic<bool> depends_on_rows = false;

/// What an algorithm's 64 opaque bytes hold here: one number an attribute of its configuration.
struct Algo {
  std::uint32_t attributes[9];
  bool operator==(const Algo&) const = default;
};
constexpr std::size_t kSplit = CUBLASLT_ALGO_CONFIG_SPLITK_NUM;
constexpr std::size_t kReduction = CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME;
constexpr std::size_t kSplitWorkspaceBytes = 1 << 20;

Algo algo_of(const cublasLtMatmulAlgo_t& opaque) {
  Algo algo;
  std::memcpy(&algo, opaque.data, sizeof algo);
  return algo;
}
cublasLtMatmulAlgo_t opaque_of(const Algo& algo) {
  cublasLtMatmulAlgo_t opaque{};
  std::memcpy(opaque.data, &algo, sizeof algo);
  return opaque;
}
Algo make_algo(std::uint32_t slices) {
  Algo algo{};
  algo.attributes[CUBLASLT_ALGO_CONFIG_ID] = slices > 1 ? 21 : 6;
  algo.attributes[CUBLASLT_ALGO_CONFIG_TILE_ID] = CUBLASLT_MATMUL_TILE_128x128;
  algo.attributes[kSplit] = slices;
  algo.attributes[kReduction] =
      slices > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
  return algo;
}
std::size_t workspace_of(const Algo& algo) {
  return algo.attributes[kSplit] > 1 ? kSplitWorkspaceBytes : 0;
}

bool is_float(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

bool supported(const cublasLtMatmulDescOpaque_t& desc, const Product& of) {
  const bool types = is_float(of.a.type) && of.a.type == of.b.type && is_float(of.d.type) &&
                     of.c.type == of.d.type && (of.d.type == CUDA_R_32F || of.d.type == of.a.type);
  const bool arch = of.a.type != CUDA_R_16BF || device_model().major >= 8;
  const bool bias = desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                    (desc.epilogue == CUBLASLT_EPILOGUE_BIAS && of.bias_type == of.d.type);
  return types && arch && bias && desc.scale_type == CUDA_R_32F && desc.pointer_mode == 0;
}

bool fits(const Product& of) {
  const auto inner_b = of.transpose_b ? of.b.cols : of.b.rows;
  const auto cols_b = of.transpose_b ? of.b.rows : of.b.cols;
  const auto rows_a = of.transpose_a ? of.a.cols : of.a.rows;
  for (const MatrixLayout* layout : {&of.a, &of.b, &of.c, &of.d})
    if (layout->stride < static_cast<std::int64_t>(layout->rows)) return false;
  return rows_a == of.d.rows && cols_b == of.d.cols && inner_b == of.inner() &&
         of.c.rows == of.d.rows && of.c.cols == of.d.cols;
}

Product product_of(const cublasLtMatmulDescOpaque_t& desc, const MatrixLayout& a,
                   const MatrixLayout& b, const MatrixLayout& c, const MatrixLayout& d) {
  Product product{.a = a, .b = b, .c = c, .d = d};
  product.transpose_a = desc.transpose_a != CUBLAS_OP_N;
  product.transpose_b = desc.transpose_b != CUBLAS_OP_N;
  if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS) product.bias = desc.bias;
  product.bias_type = desc.bias_type < 0 ? d.type : static_cast<cudaDataType>(desc.bias_type);
  return product;
}

bool on_device(const void* data, std::uint64_t bytes) {
  return Memory::get().place(data, bytes) == Memory::Place::kDevice;
}

}  // namespace

void cuda_emulation::make_products_depend_on_rows(bool depend) { depends_on_rows = depend; }

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Product product = product_of(*desc, a->layout, b->layout, c->layout, d->layout);
  if (!fits(product)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*desc, product)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {.algo = *algo,
             .workspaceSize = workspace_of(algo_of(*algo)),
             .state = CUBLAS_STATUS_SUCCESS,
             .wavesCount = 1,
             .reserved = {}};
  return CUBLAS_STATUS_SUCCESS;
}

// The best one is split along K where that is allowed: who doesn't want that must say so.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  for (const std::uint32_t slices : {3u, 1u}) {
    const Algo algo = make_algo(slices);
    if (*found == wanted || workspace_of(algo) > preference->workspace_bytes) continue;
    if (slices > 1 && (preference->reductions & algo.attributes[kReduction]) == 0) continue;
    const cublasLtMatmulAlgo_t opaque = opaque_of(algo);
    const auto status =
        cublasLtMatmulAlgoCheck(handle, desc, a, b, c, d, &opaque, &results[*found]);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    ++*found;
  }
  return *found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, int wanted, int ids[], int* found) {
  *found = 0;
  for (const std::uint32_t slices : {3u, 1u})
    if (*found < wanted)
      ids[(*found)++] = static_cast<int>(make_algo(slices).attributes[CUBLASLT_ALGO_CONFIG_ID]);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, int id, cublasLtMatmulAlgo_t* algo) {
  *algo = opaque_of(make_algo(id == 21 ? 3 : 1));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  if (bytes < sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  const Algo configured = algo_of(*algo);
  std::memcpy(value, &configured.attributes[attribute], sizeof(std::uint32_t));
  if (written != nullptr) *written = sizeof(std::uint32_t);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  Algo changed = algo_of(*algo);
  if (bytes != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&changed.attributes[attribute], value, bytes);
  *algo = opaque_of(changed);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (refuse(Call::kProduct)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Algo by = algo == nullptr ? make_algo(1) : algo_of(*algo);
  const cublasLtMatmulAlgo_t opaque = opaque_of(by);
  cublasLtMatmulHeuristicResult_t result;
  const auto status = cublasLtMatmulAlgoCheck(handle, desc, a_layout, b_layout, c_layout, d_layout,
                                              &opaque, &result);
  if (status != CUBLAS_STATUS_SUCCESS) return status;

  Product product =
      product_of(*desc, a_layout->layout, b_layout->layout, c_layout->layout, d_layout->layout);
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  product.a_data = a;
  product.b_data = b;
  product.c_data = c;
  product.d_data = d;
  product.slices = by.attributes[kSplit];
  if (depends_on_rows) product.slices += product.d.cols / 3 % 4;
  if (!is_stream(stream) || !on_device(a, product.a.bytes()) || !on_device(b, product.b.bytes()) ||
      !on_device(d, product.d.bytes()) || (product.beta != 0 && !on_device(c, product.c.bytes())) ||
      (product.bias != nullptr && !on_device(product.bias, product.d.rows)) ||
      workspace_bytes < result.workspaceSize ||
      (result.workspaceSize > 0 && !on_device(workspace, workspace_bytes)))
    return CUBLAS_STATUS_INVALID_VALUE;
  Executor::get().give(state_of(stream), {.run = [product] { product.run(); }, .can_fail = true});
  return CUBLAS_STATUS_SUCCESS;
}
