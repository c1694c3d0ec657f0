#include "engine/sweep.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/errors.h"
#include "engine/kv_format.h"

namespace barge {
namespace {

bool is_drawn(const std::optional<DrawParams>& draw) { return draw.has_value(); }

}  // namespace

Sweep::Sweep(const Pack& pack, const Family& family, WeightStore& weights, KvStore& kv,
             Kernels& kernels, Device& device, HostAttention* host, SweepBuffers& buffers,
             EngineWaits& waits, const Options& options)
    : pack_(pack),
      family_(family),
      weights_(weights),
      leg_weights_(weights),
      kernels_(kernels),
      device_(device),
      host_(host),
      buffers_(buffers),
      waits_(waits),
      options_(options),
      parts_(family.parts()),
      legs_(legs_of(parts_)),
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
  hidden_ = buffers_.hidden.matrix(block.rows(), config.hidden, DType::kF32);
  attended_ = buffers_.attended.matrix(block.rows(), std::int64_t{config.heads} * config.head_dim,
                                       options_.compute);
  kv_pipeline_.begin(block);
  kv_pipeline_.prefetch();
  for (const Leg& leg : legs_) {
    const std::size_t halves = leg.in_halves ? block.halves.size() : 1;
    for (std::size_t h = 0; h < halves; ++h) {
      half_ = leg.in_halves ? block.halves[h]
                            : Block::Half{.num_micro_batches = block.micro_batches.size(),
                                          .rows = block.rows()};
      leg_weights_.begin(/*first=*/h == 0, /*last=*/h + 1 == halves);
      run_leg(leg);
    }
  }
  draw();
  if (!device_.unified()) send_logits();
  return device_.compute().record();
}

// All rows at once, where the device draws from any; for the others it takes the likeliest token,
// which nobody looks at.
void Sweep::draw() {
  const auto& draws = block_->draws;
  if (std::ranges::none_of(draws, is_drawn)) return;
  std::vector<DrawParams> params;
  for (const auto& draw : draws) params.push_back(draw.value_or(DrawParams{.temperature = 0}));
  kernels_.draw(logits_, params, buffers_.ids.as<std::int32_t>());
  device_.compute().copy(buffers_.host_ids.data(), Tier::kHost, buffers_.ids.data(), Tier::kDevice,
                         params.size() * sizeof(std::int32_t));
}

// Runs of rows that the host looks at.
void Sweep::send_logits() {
  const auto& draws = block_->draws;
  const auto row_bytes = static_cast<std::size_t>(logits_.stride) * sizeof(float);
  for (auto end = draws.begin(); end != draws.end();) {
    const auto first = std::find_if_not(end, draws.end(), is_drawn);
    end = std::find_if(first, draws.end(), is_drawn);
    const auto at = static_cast<std::size_t>(first - draws.begin()) * row_bytes;
    if (first != end)
      device_.compute().copy(buffers_.host_logits.data() + at, Tier::kHost, logits_.data + at,
                             Tier::kDevice, static_cast<std::size_t>(end - first) * row_bytes);
  }
}

void Sweep::run_leg(const Leg& leg) {
  for (std::size_t p = 0; p < leg.num_parts; ++p) {
    part_ = leg.first_part + p;
    buffers_.scratch.reset();
    if (buffers_.projected) buffers_.projected->reset();
    family_.forward(parts_[part_], *this);
  }
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

// Where the CPU attends, each half has rows of its own: it reads them while the other half is in
// the same part.
MatrixView Sweep::projected(std::int64_t cols) {
  if (!buffers_.projected) return scratch(cols, DType::kF32);
  return buffers_.projected->matrix(block_->rows(), cols, DType::kF32)
      .row_range(half_.first_row, half_.rows);
}

MatrixView Sweep::attended() {
  const MatrixView rows = attended_.row_range(half_.first_row, half_.rows);
  if (host_ != nullptr) host_->collect(rows.row_range(0, half_.answers), half_.first_answer);
  return rows;
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
  const Event found = waits_.during("look-up", [&] { return weights_.lookup(index, ids, to); });
  device_.compute().wait(found.named("look-up"));
  kernels_.decode_rows(encoded, hidden_, epilogue);
  lookups_read_ = device_.compute().record();
}

void Sweep::linear(MatrixView x, int tensor, int bias, MatrixView y, Epilogue epilogue) {
  const int index = pack_tensor(tensor);
  const PackTensor& matrix = pack_.tensors()[static_cast<std::size_t>(index)];
  const float* bias_row = bias < 0 ? nullptr : vector(bias);
  for (std::int64_t row = 0; row < matrix.rows;) {
    kv_pipeline_.prefetch();  // of the next layer: staging may be free since the last run
    const WeightStore::Run& run = waits_.during(
        "weights", [&]() -> auto& { return leg_weights_.next(); });
    if (run.tensor != index || run.first_row != row)
      throw Error(concat("row ", row, " of ", matrix.name, " was wanted, but row ", run.first_row,
                         " of ", pack_.tensors()[static_cast<std::size_t>(run.tensor)].name,
                         " came; this is a bug of barge"));
    std::int64_t run_rows = 0;
    for (const WeightPanel& panel : run.panels) run_rows += panel.layout.rows;
    device_.compute().wait(run.ready.named("weights"));
    if (x.rows > 0)
      kernels_.linear(x, run.panels, bias_row == nullptr ? nullptr : bias_row + row,
                      y.columns(row, run_rows), epilogue);
    leg_weights_.used(device_.compute().record());
    row += run_rows;
  }
}

std::vector<AttentionSpan> Sweep::attention_spans(const KvPipeline::Side& side) const {
  std::vector<AttentionSpan> spans;
  for (std::size_t i = 0; i < side.members.size(); ++i) {
    const Block::Member& member = *side.members[i];
    spans.push_back({.first_row = member.first_row - half_.first_row,
                     .rows = member.rows,
                     .first_position = member.first_position,
                     .prompt = member.prompt,
                     .pages = side.lease.pages(i)});
  }
  return spans;
}

void Sweep::attend(int, MatrixView q, MatrixView k, MatrixView v) {
  Event projected;  // without the device's own attention, which the host needn't wait for
  if (host_ != nullptr) projected = device_.compute().record();
  for (std::size_t i = 0; i < half_.num_micro_batches; ++i) {
    KvPipeline::Pages pages = waits_.during("KV", [&] { return kv_pipeline_.take(); });
    kv_pipeline_.prefetch();  // of the next micro-batch
    Event by_device, by_host;
    if (!pages.host.members.empty())
      by_host = host_->attend(attention_spans(pages.host), pages.host.lease.ready, q, k, v,
                              projected, half_.first_answer);
    if (!pages.device.members.empty()) by_device = attend_on_device(pages.device, q, k, v);
    kv_pipeline_.close(std::move(pages), std::move(by_device), std::move(by_host));
  }
}

Event Sweep::attend_on_device(const KvPipeline::Side& side, MatrixView q, MatrixView k,
                              MatrixView v) {
  const ModelConfig& config = family_.config();
  device_.compute().wait(side.lease.ready.named("KV"));
  const std::vector<AttentionSpan> spans = attention_spans(side);
  kernels_.append_kv(options_.kv, options_.page_positions, spans, k, v);
  kernels_.attend(options_.kv, options_.page_positions, spans, config.heads,
                  attention_scale(config), q, attended_.row_range(half_.first_row, half_.rows));
  return device_.compute().record();
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
