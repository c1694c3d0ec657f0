#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "kernels/cuda/matmul.h"
#include "kernels/kernels.h"
#include "quant/format.h"

namespace barge::cuda {

/// Matrix products with stored weights. Panels are decoded into a workspace, as many of a call's at
/// once as fit there (those in the compute type already are used where they are), and multiplied
/// with all rows.
///
/// A row's bits are its own: a shape has one algorithm whatever the numbers of rows and outputs,
/// and at its first use the products of 128 rows are compared with those of some of them alone. If
/// the bits differ, this shape is multiplied in tiles of 128 rows from then on, the last one filled
/// up: that costs what the filling costs, at most 127 rows a call, and a launch for each 128 rows.
class Product {
 public:
  /// Bytes of device workspace.
  static std::size_t workspace_bytes(const KernelLimits& limits);

  /// `workspace`: as many, at a multiple of 256. Pins a page of host memory (tag "uploads").
  Product(Device& device, const KernelLimits& limits, std::span<std::byte> workspace);

  /// Kernels::linear on `stream`, always the same one, and always from the same thread. Waits for
  /// the stream when it meets a shape for the first time, and never else. Throws ConfigError if a
  /// decoded panel doesn't fit the workspace.
  void run(cudaStream_t stream, MatrixView x, std::span<const WeightPanel> panels,
           const float* bias, MatrixView y, Epilogue epilogue);

  /// What a row tile had to be taken for, and how many shapes there are. Any thread.
  struct Report {
    std::size_t shapes = 0;
    std::vector<std::string> tiled;
  };
  Report report() const;

 private:
  // An algorithm, and how a row gets the same bits in any company.
  struct Method {
    Matmul::Algorithm algorithm;
    bool tiled = false;
  };
  // Consecutive panels as one matrix.
  struct Decoded {
    MatrixView weights;
    std::size_t num_panels = 0;
  };

  Decoded decode(cudaStream_t stream, std::span<const WeightPanel> panels);
  void multiply(cudaStream_t stream, MatmulProblem problem, const float* bias, int y_alignment);
  const Method& method_for(cudaStream_t stream, const MatmulShape& shape,
                           const MatmulProblem& problem);
  bool rows_keep_their_bits(cudaStream_t stream, const MatmulProblem& problem,
                            const Matmul::Algorithm& algorithm);
  void multiply_in_tiles(cudaStream_t stream, const MatmulProblem& problem,
                         const Matmul::Algorithm& algorithm);

  const DType compute_;
  // Parts of the workspace.
  std::span<std::byte> decoded_, rows_, result_, other_result_, bias_, differences_;
  const Buffer differences_here_;
  Matmul matmul_;
  mutable std::mutex mutex_;  // guards methods_ against report()
  std::map<MatmulShape, Method> methods_;
};

}  // namespace barge::cuda
