#include "kernels/cuda/matmul.h"

#include <algorithm>
#include <array>
#include <memory>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge::cuda {
namespace {

// The product for which algorithms are chosen: large enough to fill a GPU, so that tiles are.
constexpr std::int64_t kNominalRows = 1024, kNominalOutputs = 4096;
constexpr int kCandidates = 16;

void check(cublasStatus_t status, const char* call, const std::string& what = {}) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(concat("cuBLASLt failed at ", call, what.empty() ? "" : " for ", what, ": ",
                           cublasLtGetStatusName(status)));
}

cudaDataType_t cuda_type(DType type) {
  return type == DType::kF32 ? CUDA_R_32F : type == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

// cuBLAS counts by columns: what is row-major here is its transpose there.
class Layout {
 public:
  explicit Layout(const MatrixView& matrix) {
    check(cublasLtMatrixLayoutCreate(&layout_, cuda_type(matrix.dtype),
                                     static_cast<std::uint64_t>(matrix.cols),
                                     static_cast<std::uint64_t>(matrix.rows), matrix.stride),
          "cublasLtMatrixLayoutCreate");
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Description {
 public:
  // `bias` null: none.
  Description(const void* bias, DType bias_type) {
    check(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (bias == nullptr) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(cuda_type(bias_type)));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  ~Description() { cublasLtMatmulDescDestroy(description_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  cublasLtMatmulDesc_t get() const { return description_; }

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  cublasLtMatmulDesc_t description_ = nullptr;
};

class Preference {
 public:
  explicit Preference(const MatmulShape& shape) {
    check(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{Matmul::kWorkspaceBytes});
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{16});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t(shape.x_alignment));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t(shape.y_alignment));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t(shape.y_alignment));
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <typename T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  }

  cublasLtMatmulPreference_t preference_ = nullptr;
};

// A matrix at no address, whose rows are apart by a multiple of `alignment` bytes and no more.
MatrixView nominal(DType type, std::int64_t rows, std::int64_t cols, int alignment) {
  constexpr std::int64_t kLine = 64;
  const auto size = static_cast<std::int64_t>(size_of(type));
  const std::int64_t whole = (cols * size + kLine - 1) / kLine * kLine;
  return {nullptr, type, rows, cols, (whole + (alignment < 16 ? alignment : 0)) / size};
}

struct NominalLayouts {
  NominalLayouts(const MatmulShape& shape, std::int64_t rows, std::int64_t outputs)
      : w(nominal(shape.input, outputs, shape.inputs, 16)),
        x(nominal(shape.input, rows, shape.inputs, shape.x_alignment)),
        y(nominal(shape.output, rows, outputs, shape.y_alignment)) {}

  const Layout w, x, y;
};

template <typename T>
T setting(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written),
        "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

bool sums_in_one_order(const cublasLtMatmulAlgo_t& algorithm) {
  // Some algorithms have no split-K at all and say 0.
  return setting<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
         setting<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) ==
             CUBLASLT_REDUCTION_SCHEME_NONE;
}

// It was found for one number of rows and of outputs, but all others will use it too.
bool takes_any_size(cublasLtHandle_t handle, const Description& description,
                    const MatmulShape& shape, const cublasLtMatmulAlgo_t& algorithm) {
  for (const std::int64_t rows : {1, 33, 128, 16384})
    for (const std::int64_t outputs : {1, 8, 1000, 8192}) {
      const NominalLayouts sized(shape, rows, outputs);
      cublasLtMatmulHeuristicResult_t result{};
      if (cublasLtMatmulAlgoCheck(handle, description.get(), sized.w.get(), sized.x.get(),
                                  sized.y.get(), sized.y.get(), &algorithm,
                                  &result) != CUBLAS_STATUS_SUCCESS ||
          result.workspaceSize > Matmul::kWorkspaceBytes)
        return false;
    }
  return true;
}

}  // namespace

std::string to_string(const MatmulShape& shape) {
  return concat(shape.inputs, " inputs in ", name_of(shape.input), " to ", name_of(shape.output),
                shape.bias_alignment > 0 ? " with a bias" : "", ", rows at multiples of ",
                shape.x_alignment, " and ", shape.y_alignment, " bytes");
}

MatmulProblem MatmulProblem::row_range(std::int64_t first, std::int64_t count) const {
  return {w, x.row_range(first, count), y.row_range(first, count), bias, epilogue};
}

MatmulProblem MatmulProblem::output_range(std::int64_t first, std::int64_t count) const {
  const auto* const from = static_cast<const std::byte*>(bias);
  return {w.row_range(first, count), x, y.columns(first, count),
          from == nullptr ? nullptr : from + static_cast<std::size_t>(first) * size_of(y.dtype),
          epilogue};
}

Matmul::Matmul(std::span<std::byte> workspace) : workspace_(workspace) {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

Matmul::Algorithm Matmul::choose(const MatmulShape& shape) const {
  for (const bool bias : {true, false}) {
    if (bias && shape.bias_alignment == 0) continue;
    if (const auto found = find(shape, bias)) return {*found, bias};
  }
  throw DeviceError(concat("cuBLASLt has no algorithm without split-K for ", to_string(shape)));
}

std::optional<cublasLtMatmulAlgo_t> Matmul::find(const MatmulShape& shape, bool bias) const {
  const NominalLayouts large(shape, kNominalRows, kNominalOutputs);
  // An address is looked at for its alignment only.
  const auto* const at =
      reinterpret_cast<const void*>(static_cast<std::uintptr_t>(shape.bias_alignment));
  const Description description(bias ? at : nullptr, shape.output);
  const Preference preference(shape);

  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), description.get(), large.w.get(), large.x.get(), large.y.get(), large.y.get(),
      preference.get(), kCandidates, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
  check(status, "cublasLtMatmulAlgoGetHeuristic", to_string(shape));
  std::optional<cublasLtMatmulAlgo_t> best;
  for (const auto& result : std::span(found).first(static_cast<std::size_t>(count))) {
    if (result.state != CUBLAS_STATUS_SUCCESS || !sums_in_one_order(result.algo)) continue;
    if (takes_any_size(handle_.get(), description, shape, result.algo)) return result.algo;
    if (!best) best = result.algo;  // a product that it doesn't take will say so
  }
  return best;
}

void Matmul::run(cudaStream_t stream, const MatmulProblem& p, const Algorithm& algorithm) const {
  const Layout w(p.w), x(p.x), y(p.y);
  const Description description(algorithm.takes_bias ? p.bias : nullptr, p.y.dtype);
  const float alpha = 1, beta = p.epilogue == Epilogue::kAdd ? 1 : 0;
  const cublasStatus_t status =
      cublasLtMatmul(handle_.get(), description.get(), &alpha, p.w.data, w.get(), p.x.data, x.get(),
                     &beta, p.y.data, y.get(), p.y.data, y.get(), &algorithm.algorithm,
                     workspace_.data(), workspace_.size(), stream);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check(status, "cublasLtMatmul",
        concat(p.x.rows, " rows of ", p.x.cols, " inputs and ", p.w.rows, " outputs in ",
               name_of(p.x.dtype), " to ", name_of(p.y.dtype)));
}

}  // namespace barge::cuda
