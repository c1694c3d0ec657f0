#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "core/matrix_view.h"
#include "kernels/kernels.h"

namespace barge::cuda {

/// y (+)= x W^T + bias. w [outputs, inputs] and x [rows, inputs] have one type; y [rows, outputs]
/// is f32 or of that type too. Products accumulate in f32, without TF32.
struct MatmulProblem {
  MatrixView w, x, y;
  const void* bias = nullptr;  // [outputs] of y's type, or null
  Epilogue epilogue = Epilogue::kStore;

  /// The same for rows [first, first + count) of x and y.
  MatmulProblem row_range(std::int64_t first, std::int64_t count) const;
  /// The same for outputs [first, first + count).
  MatmulProblem output_range(std::int64_t first, std::int64_t count) const;
};

/// All that an algorithm may depend on: neither rows nor outputs, which a plan decides.
struct MatmulShape {
  std::int64_t inputs = 0;
  DType input = DType::kF32, output = DType::kF32;
  // What addresses and distances of rows are multiples of, in bytes, at most 16 (w: always 16).
  int x_alignment = 16, y_alignment = 16;
  int bias_alignment = 0;  // of its address; 0: none is added

  auto operator<=>(const MatmulShape&) const = default;
};
std::string to_string(const MatmulShape& shape);

/// One product by cuBLASLt at a time, with a given algorithm. One thread.
class Matmul {
 public:
  static constexpr std::size_t kWorkspaceBytes = 32 << 20;  // cuBLAS's own size on Hopper

  /// An algorithm of a shape, for any number of rows and outputs.
  struct Algorithm {
    cublasLtMatmulAlgo_t algorithm{};
    bool takes_bias = false;  // else a bias has to be added afterwards
  };

  /// `workspace`: kWorkspaceBytes on the device. Throws DeviceError.
  explicit Matmul(std::span<std::byte> workspace);

  /// What `cublasLtMatmulAlgoGetHeuristic` likes best for a large product of this shape, of those
  /// that sum a row's products in one order: no split-K, no reduction between blocks. Throws
  /// DeviceError if there is none.
  Algorithm choose(const MatmulShape& shape) const;

  /// Throws DeviceError, naming shape and rows. The bias only if the algorithm takes it.
  void run(cudaStream_t stream, const MatmulProblem& problem, const Algorithm& algorithm) const;

 private:
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  };
  std::optional<cublasLtMatmulAlgo_t> find(const MatmulShape& shape, bool bias) const;

  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy> handle_;
  const std::span<std::byte> workspace_;
};

}  // namespace barge::cuda
