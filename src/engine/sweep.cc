#include "engine/sweep.h"

#include <cmath>
#include <utility>

#include "core/errors.h"

namespace barge {

Sweep::Sweep(const Pack& pack, const Family& family, WeightStore& weights, KvStore& kv,
             Kernels& kernels, Device& device, SweepBuffers& buffers, const Options& options)
    : pack_(pack),
      family_(family),
      weights_(weights),
      kernels_(kernels),
      device_(device),
      buffers_(buffers),
      options_(options),
      parts_(family.parts()),
      kv_pipeline_(kv, device, family.config().layers, options.kv_staging_bytes) {
  for (const Part& part : parts_) {
    std::vector<int>& indices = tensors_.emplace_back();
    for (const TensorSpec& tensor : part.tensors) {
      const int index = pack.find(tensor.name);
      const PackTensor& packed = pack.tensors()[static_cast<std::size_t>(index)];
      if (packed.rows != tensor.rows || packed.cols != tensor.cols)
        throw FormatError(concat("tensor ", tensor.name, " of ", pack.directory().string(),
                                 " should be [", tensor.rows, ", ", tensor.cols, "] but is [",
                                 packed.rows, ", ", packed.cols,
                                 "]; run `barge pack` again to rebuild it"));
      indices.push_back(index);
    }
  }
}

std::vector<int> Sweep::visits(const Pack& pack, const Family& family) {
  std::vector<int> visits;
  for (const Part& part : family.parts())
    for (const TensorSpec& tensor : part.tensors)
      if (tensor.kind == TensorSpec::Kind::kMatrix ||
          (tensor.kind == TensorSpec::Kind::kTable && part.kind != Part::Kind::kEmbed))
        visits.push_back(pack.find(tensor.name));
  return visits;
}

Event Sweep::run(const Block& block) {
  block_ = &block;
  for (Arena* arena : {&buffers_.hidden, &buffers_.attended, &buffers_.wanted}) arena->reset();
  lookups_read_.wait();  // of the sweep before, which is long over
  buffers_.lookup.reset();
  const ModelConfig& config = family_.config();
  hidden_ = buffers_.hidden.matrix(rows(), config.hidden, DType::kF32);
  attended_ = buffers_.attended.matrix(rows(), std::int64_t{config.heads} * config.head_dim,
                                       options_.compute);
  kv_pipeline_.begin(block);
  kv_pipeline_.prefetch();
  for (part_ = 0; part_ < parts_.size(); ++part_) {
    buffers_.scratch.reset();
    family_.forward(parts_[part_], *this);
  }
  if (!device_.unified() && num_wanted() > 0)
    device_.compute().copy(buffers_.host_logits.data(), Tier::kHost, logits_.data, Tier::kDevice,
                           static_cast<std::size_t>(logits_.rows * logits_.stride) * sizeof(float));
  return device_.compute().record();
}

std::span<const float> Sweep::logits(int row) const {
  const std::byte* first = device_.unified() ? logits_.data : buffers_.host_logits.data();
  return {reinterpret_cast<const float*>(first) + row * logits_.stride,
          static_cast<std::size_t>(logits_.cols)};
}

Kernels& Sweep::kernels() {
  if (parts_[part_].kind == Part::Kind::kOutput && num_wanted() == 0) return null_kernels_;
  return kernels_;
}

MatrixView Sweep::scratch(std::int64_t cols, DType dtype) {
  return buffers_.scratch.matrix(rows(), cols, dtype);
}

void Sweep::lookup(int tensor, std::span<const std::int32_t> ids, Epilogue epilogue) {
  const int index = pack_tensor(tensor);
  const PackTensor& table = pack_.tensors()[static_cast<std::size_t>(index)];
  WeightFormat format = table.format;
  format.axis = GroupAxis::kInput;
  WeightPanel encoded{
      .data = nullptr,
      .layout = panel_layout(format, static_cast<std::int64_t>(ids.size()), table.cols)};
  std::byte* to = buffers_.lookup.bytes(encoded.layout.bytes);
  encoded.data = to;
  device_.compute().wait(weights_.lookup(index, ids, to));
  kernels_.decode_rows(encoded, hidden_, epilogue);
  lookups_read_ = device_.compute().record();
}

void Sweep::linear(MatrixView x, int tensor, int bias, MatrixView y, Epilogue epilogue) {
  kv_pipeline_.prefetch();  // of the next layer
  const int index = pack_tensor(tensor);
  const PackTensor& matrix = pack_.tensors()[static_cast<std::size_t>(index)];
  const float* bias_row = bias < 0 ? nullptr : vector(bias);
  for (std::int64_t row = 0; row < matrix.rows;) {
    WeightStore::Run run = weights_.next();
    if (run.tensor != index || run.first_row != row)
      throw Error(concat("row ", row, " of ", matrix.name, " was wanted, but row ", run.first_row,
                         " of ", pack_.tensors()[static_cast<std::size_t>(run.tensor)].name,
                         " came; this is a bug of barge"));
    std::int64_t run_rows = 0;
    for (const WeightPanel& panel : run.panels) run_rows += panel.layout.rows;
    device_.compute().wait(run.ready);
    if (x.rows > 0)
      kernels_.linear(x, run.panels, bias_row == nullptr ? nullptr : bias_row + row,
                      y.columns(row, run_rows), epilogue);
    weights_.release(std::move(run), device_.compute().record());
    row += run_rows;
  }
}

std::vector<AttentionSpan> Sweep::attention_spans(const Block::MicroBatch& batch,
                                                  const KvStore::Lease& lease) const {
  std::vector<AttentionSpan> spans;
  for (std::size_t i = 0; i < batch.num_members; ++i) {
    const Block::Member& member = block_->members[batch.first_member + i];
    spans.push_back({.first_row = member.first_row,
                     .rows = member.rows,
                     .first_position = member.first_position,
                     .prompt = member.prompt,
                     .pages = lease.pages(i)});
  }
  return spans;
}

void Sweep::attend(int, MatrixView q, MatrixView k, MatrixView v) {
  const ModelConfig& config = family_.config();
  const float scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  for (const Block::MicroBatch& batch : block_->micro_batches) {
    KvStore::Lease lease = kv_pipeline_.take();
    kv_pipeline_.prefetch();  // of the next micro-batch
    device_.compute().wait(lease.ready);
    const std::vector<AttentionSpan> spans = attention_spans(batch, lease);
    kernels_.append_kv(options_.kv, options_.page_positions, spans, k, v);
    kernels_.attend(options_.kv, options_.page_positions, spans, config.heads, scale, q, attended_);
    kv_pipeline_.close(std::move(lease), device_.compute().record());
  }
}

MatrixView Sweep::wanted_hidden() {
  const MatrixView rows = wanted_scratch(hidden_.cols, DType::kF32);
  if (num_wanted() > 0) kernels_.gather_rows(hidden_, block_->wanted, rows);
  return rows;
}

MatrixView Sweep::wanted_scratch(std::int64_t cols, DType dtype) {
  return buffers_.wanted.matrix(num_wanted(), cols, dtype);
}

MatrixView Sweep::logits() {
  logits_ = wanted_scratch(family_.config().vocab, DType::kF32);
  return logits_;
}

}  // namespace barge
