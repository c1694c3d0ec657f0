#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "core/thread_pool.h"
#include "kernels/cpu/dequantise.h"
#include "kernels/cpu/linear_plan.h"
#include "kernels/cpu/product.h"
#include "kernels/kernels.h"

namespace barge {

/// y (+)= x W^T + bias from stored weights. A task takes a few tiles of output channels,
/// dequantises each once into its thread's workspace and multiplies its row tiles by them: the
/// tiles stay in the second-level cache, and no 16-bit matrix is ever written to memory.
class Linear {
 public:
  /// Bytes of workspace for each thread.
  static std::size_t workspace_bytes(const KernelLimits& limits);

  /// Thread i works in the `thread_bytes` (workspace_bytes or more) at workspace + i *
  /// thread_bytes, which others may use while this doesn't run.
  Linear(const KernelLimits& limits, ThreadPool& pool, std::byte* workspace,
         std::size_t thread_bytes);

  /// Only from the compute stream's thread.
  void run(const MatrixView& x, const ChannelMap& channels, const float* bias, const MatrixView& y,
           Epilogue epilogue);

 private:
  struct Call;

  Product& product_for(std::int64_t inputs);
  void run_task(const Call& call, const LinearPlan::Task& task, int thread);

  const KernelLimits limits_;
  ThreadPool& pool_;
  std::byte* const workspace_;
  const std::size_t thread_bytes_;
  std::map<std::int64_t, std::unique_ptr<Product>> products_;  // by inputs
};

}  // namespace barge
