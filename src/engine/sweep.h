#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/block.h"
#include "engine/buffers.h"
#include "engine/engine_waits.h"
#include "engine/host_attention.h"
#include "engine/kv_pipeline.h"
#include "engine/leg_weights.h"
#include "engine/legs.h"
#include "engine/null_kernels.h"
#include "kernels/kernels.h"
#include "model/family.h"
#include "model/forward.h"
#include "offload/kv_store.h"
#include "offload/pack.h"
#include "offload/weight_store.h"

namespace barge {

/// One pass of a block through all parts: the zig-zag. Gives the device its work and orders it by
/// events; blocks only where the weight ring or the KV staging is full. Where the CPU attends, the
/// block's halves take turns: each leg of one is given to the device while the CPU attends to the
/// other. One thread.
class Sweep final : public Forward {
 public:
  struct Options {
    DType compute = DType::kF32;
    KvFormat kv;
    int page_positions = 0;
    std::size_t kv_staging_bytes = 0;
  };

  /// References must outlive it. `host`: who attends in the layers that are the host's, or null.
  Sweep(const Pack& pack, const Family& family, WeightStore& weights, KvStore& kv, Kernels& kernels,
        Device& device, HostAttention* host, SweepBuffers& buffers, EngineWaits& waits,
        const Options& options);

  /// The tensors that a sweep multiplies by, in order, as indices into Pack::tensors().
  static std::vector<int> visits(const Pack& pack, const Family& family);

  /// Gives the whole sweep to the device; the block is needed only until this returns. After the
  /// event tokens and logits may be read.
  [[nodiscard]] Event run(const Block& block);
  /// Row `row` of the wanted logits [vocab], in host memory, until the next run; unless the device
  /// drew from it.
  std::span<const float> logits(int row) const;
  /// The token that the device drew from a row of the wanted logits, as Kernels::draw gives it.
  std::int32_t drawn(int row) const { return buffers_.host_ids.as<std::int32_t>()[row]; }
  /// After a failure: closes what is open.
  void abandon() noexcept { kv_pipeline_.abandon(); }

  Kernels& kernels() override;
  std::int64_t rows() const override { return half_.rows; }
  std::span<const std::int32_t> tokens() const override { return of_half(block_->tokens); }
  std::span<const std::int32_t> positions() const override { return of_half(block_->positions); }
  DType compute_type() const override { return options_.compute; }
  MatrixView hidden() override { return hidden_.row_range(half_.first_row, half_.rows); }
  MatrixView scratch(std::int64_t cols, DType dtype) override;
  const float* vector(int tensor) override { return weights_.vector(pack_tensor(tensor)); }
  void lookup(int tensor, std::span<const std::int32_t> ids, Epilogue epilogue) override;
  void linear(MatrixView x, int tensor, int bias, MatrixView y, Epilogue epilogue) override;
  MatrixView projected(std::int64_t cols) override;
  void attend(int layer, MatrixView q, MatrixView k, MatrixView v) override;
  MatrixView attended() override;
  MatrixView wanted_hidden() override;
  MatrixView wanted_scratch(std::int64_t cols, DType dtype) override;
  MatrixView logits() override;

 private:
  int pack_tensor(int tensor) const { return tensors_[part_][static_cast<std::size_t>(tensor)]; }
  std::span<const std::int32_t> of_half(const std::vector<std::int32_t>& rows) const {
    return std::span(rows).subspan(static_cast<std::size_t>(half_.first_row),
                                   static_cast<std::size_t>(half_.rows));
  }
  void run_leg(const Leg& leg);
  void draw();
  void send_logits();
  std::vector<AttentionSpan> attention_spans(const KvPipeline::Side& side) const;
  Event attend_on_device(const KvPipeline::Side& side, MatrixView q, MatrixView k, MatrixView v);
  std::int64_t num_wanted() const { return static_cast<std::int64_t>(block_->wanted.size()); }

  const Pack& pack_;
  const Family& family_;
  WeightStore& weights_;
  LegWeights leg_weights_;
  Kernels& kernels_;
  Device& device_;
  HostAttention* const host_;  // null: nobody attends there
  SweepBuffers& buffers_;
  EngineWaits& waits_;
  const Options options_;
  const std::vector<Part> parts_;
  const std::vector<Leg> legs_;
  std::vector<std::vector<int>> tensors_;  // index in the pack of each part's tensors
  NullKernels null_kernels_;
  KvPipeline kv_pipeline_;
  Event lookups_read_;  // after which the lookup arena may be overwritten

  // Of the sweep under way.
  const Block* block_ = nullptr;
  Block::Half half_;  // that is being given to the device
  std::size_t part_ = 0;
  MatrixView hidden_, attended_, logits_;
};

}  // namespace barge
