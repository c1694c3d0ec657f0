#pragma once

#include <cstddef>
#include <memory>

#include "core/thread_pool.h"
#include "kernels/cpu/code_product.h"
#include "kernels/cpu/linear_plan.h"
#include "kernels/kernels.h"

namespace barge {

/// As Linear, of inputs rounded to 8 bits: once a call, then the weights' codes are multiplied as
/// they are. For weights of which inputs_are_rounded() says so.
class CodeLinear {
 public:
  /// Bytes of workspace for each thread, and for all together.
  static std::size_t workspace_bytes(const KernelLimits& limits);
  static std::size_t shared_bytes(const KernelLimits& limits);

  /// As Linear's; `shared` has shared_bytes.
  CodeLinear(const KernelLimits& limits, ThreadPool& pool, std::byte* workspace,
             std::size_t thread_bytes, std::byte* shared);

  /// Only from the compute stream's thread. Any number of rows.
  void run(const MatrixView& x, const ChannelMap& channels, const float* bias, const MatrixView& y,
           Epilogue epilogue);

 private:
  struct Call;
  void run_rows(const Call& call);
  void run_task(const Call& call, const RowCodes& codes, const LinearPlan::Task& task, int thread);
  RowCodes codes_of(const CodeShape& shape) const;

  const KernelLimits limits_;
  ThreadPool& pool_;
  std::byte* const workspace_;
  const std::size_t thread_bytes_;
  std::byte* const shared_;
  const std::unique_ptr<CodeProduct> product_;
};

}  // namespace barge
