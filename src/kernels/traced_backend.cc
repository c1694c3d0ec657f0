#include "kernels/traced_backend.h"

#include <utility>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

using Lane = Trace::Lane;

class TracedStream final : public Stream {
 public:
  TracedStream(Stream& stream, Trace& trace, Lane lane)
      : stream_(stream), trace_(trace), lane_(lane) {}

  void wait(const Event& event) override {
    Event begin = stream_.record();
    stream_.wait(event);
    trace_.span(lane_, {.name = event.name(), .wait = true}, std::move(begin), stream_.record());
  }
  Event record() override { return stream_.record(); }
  void copy(void* to, Tier to_tier, const void* from, Tier from_tier, std::size_t bytes) override {
    Event begin = stream_.record();
    stream_.copy(to, to_tier, from, from_tier, bytes);
    trace_.span(lane_,
                {.name = concat(format_bytes(bytes), " from ", name_of(from_tier), " to ",
                                name_of(to_tier)),
                 .bytes = bytes},
                std::move(begin), stream_.record());
  }
  void call(std::function<void()> work) override {
    Event begin = stream_.record();
    stream_.call(std::move(work));
    trace_.span(lane_, {.name = "host function"}, std::move(begin), stream_.record());
  }

 private:
  Stream& stream_;
  Trace& trace_;
  const Lane lane_;
};

class TracedDevice final : public Device {
 public:
  TracedDevice(Device& device, Trace& trace)
      : device_(device),
        compute_(device.compute(), trace, Lane::kCompute),
        load_(device.load(), trace, Lane::kLoad),
        store_(device.store(), trace, Lane::kStore) {}

  std::string name() const override { return device_.name(); }
  bool unified() const override { return device_.unified(); }
  Buffer allocate(Tier tier, std::size_t bytes, std::string_view tag) override {
    return device_.allocate(tier, bytes, tag);
  }
  Stream& compute() override { return compute_; }
  Stream& load() override { return load_; }
  Stream& store() override { return store_; }
  const Clock& clock() const override { return device_.clock(); }
  LinkTraffic link_traffic() const override { return device_.link_traffic(); }
  double compute_seconds() const override { return device_.compute_seconds(); }
  std::map<std::string, double> compute_waits() const override { return device_.compute_waits(); }

 private:
  Device& device_;
  TracedStream compute_, load_, store_;
};

std::int64_t outputs(std::span<const WeightPanel> panels) {
  std::int64_t rows = 0;
  for (const WeightPanel& panel : panels) rows += panel.layout.rows;
  return rows;
}

std::size_t bytes_of(std::span<const WeightPanel> panels) {
  std::size_t bytes = 0;
  for (const WeightPanel& panel : panels) bytes += panel.layout.bytes;
  return bytes;
}

std::string attention_name(const char* what, std::span<const AttentionSpan> spans) {
  std::int64_t rows = 0;
  for (const AttentionSpan& span : spans) rows += span.rows;
  return concat(what, " ", rows, " of ", spans.size(), " sequences");
}

class TracedKernels final : public Kernels {
 public:
  TracedKernels(std::unique_ptr<Kernels> kernels, Stream& stream, Trace& trace)
      : kernels_(std::move(kernels)), stream_(stream), trace_(trace) {}
  void decode_rows(const WeightPanel& rows, MatrixView out, Epilogue epilogue) override {
    if (epilogue == Epilogue::kStore) ++sweep_;  // the tokens' rows: nothing else begins a sweep
    traced("look up", [&] { kernels_->decode_rows(rows, out, epilogue); });
  }
  void rms_norm(MatrixView x, const float* weight, float eps, MatrixView y) override {
    traced("norm", [&] { kernels_->rms_norm(x, weight, eps, y); });
  }
  void layer_norm(MatrixView x, const float* weight, const float* bias, float eps,
                  MatrixView y) override {
    traced("norm", [&] { kernels_->layer_norm(x, weight, bias, eps, y); });
  }
  void linear(MatrixView x, std::span<const WeightPanel> panels, const float* bias, MatrixView y,
              Epilogue epilogue) override {
    traced(
        concat("product ", x.rows, " x ", x.cols, " x ", outputs(panels)),
        [&] { kernels_->linear(x, panels, bias, y, epilogue); }, bytes_of(panels));
  }
  void rope(MatrixView x, int head_dim, std::span<const std::int32_t> positions,
            std::span<const float> inverse_frequencies) override {
    traced("rope", [&] { kernels_->rope(x, head_dim, positions, inverse_frequencies); });
  }
  void activate(Activation activation, MatrixView gate, MatrixView up, MatrixView y) override {
    traced("activation", [&] { kernels_->activate(activation, gate, up, y); });
  }
  void append_kv(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
                 MatrixView k, MatrixView v) override {
    traced(attention_name("append", spans),
           [&] { kernels_->append_kv(format, page_positions, spans, k, v); });
  }
  void attend(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
              int heads, float scale, MatrixView q, MatrixView out) override {
    traced(attention_name("attention", spans),
           [&] { kernels_->attend(format, page_positions, spans, heads, scale, q, out); });
  }
  void gather_rows(MatrixView x, std::span<const std::int32_t> rows, MatrixView y) override {
    traced("gather", [&] { kernels_->gather_rows(x, rows, y); });
  }
  void draw(MatrixView logits, std::span<const DrawParams> params, std::int32_t* ids) override {
    traced(concat("draw ", params.size()), [&] { kernels_->draw(logits, params, ids); });
  }

 private:
  template <typename Work>
  void traced(std::string name, const Work& work, std::size_t bytes = 0) {
    Event begin = stream_.record();
    work();
    trace_.span(Lane::kCompute, {.name = std::move(name), .bytes = bytes, .sweep = sweep_},
                std::move(begin), stream_.record());
  }

  const std::unique_ptr<Kernels> kernels_;
  Stream& stream_;
  Trace& trace_;
  int sweep_ = -1;
};

class TracedBackend final : public Backend {
 public:
  TracedBackend(std::unique_ptr<Backend> backend, Trace& trace)
      : backend_(std::move(backend)), trace_(trace), device_(backend_->device(), trace) {}
  ~TracedBackend() override { trace_.drain(); }  // events must not outlive the device

  Device& device() override { return device_; }
  DType preferred_compute_type() const override { return backend_->preferred_compute_type(); }
  std::unique_ptr<Kernels> make_kernels(const KernelLimits& limits) override {
    return std::make_unique<TracedKernels>(backend_->make_kernels(limits),
                                           backend_->device().compute(), trace_);
  }
  PerTier<std::size_t> workspace_bytes(const KernelLimits& limits) override {
    return backend_->workspace_bytes(limits);
  }

 private:
  const std::unique_ptr<Backend> backend_;
  Trace& trace_;
  TracedDevice device_;
};

}  // namespace

std::unique_ptr<Backend> make_traced_backend(std::unique_ptr<Backend> backend, Trace& trace) {
  return std::make_unique<TracedBackend>(std::move(backend), trace);
}

}  // namespace barge
