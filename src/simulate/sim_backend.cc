#include "simulate/sim_backend.h"

#include <utility>
#include <vector>

#include "quant/bits.h"

namespace barge {
namespace {

double numbers(MatrixView x) { return static_cast<double>(x.rows) * static_cast<double>(x.cols); }

// Takes time and computes nothing: results stay the zeros that memory was.
class SimKernels final : public Kernels {
 public:
  SimKernels(SimStream& stream, const OperationCost& cost, std::vector<Buffer> memory)
      : stream_(stream), cost_(cost), memory_(std::move(memory)) {}

  void decode_rows(const WeightPanel&, MatrixView out, Epilogue) override {
    work("look up", cost_.elementwise(numbers(out)));
  }
  void rms_norm(MatrixView x, const float*, float, MatrixView) override { norm(x); }
  void layer_norm(MatrixView x, const float*, const float*, float, MatrixView) override { norm(x); }
  void linear(MatrixView x, std::span<const WeightPanel> panels, const float*, MatrixView,
              Epilogue) override {
    double outputs = 0;
    std::size_t bytes = 0;
    for (const WeightPanel& panel : panels) {
      outputs += static_cast<double>(panel.layout.rows);
      bytes += panel.layout.bytes;
    }
    work("product",
         cost_.product(static_cast<double>(x.rows), outputs, static_cast<double>(x.cols),
                       bits_of(panels.front().layout.format.encoding)),
         bytes);
  }
  void rope(MatrixView x, int, std::span<const std::int32_t>, std::span<const float>) override {
    work("rope", cost_.elementwise(numbers(x)));
  }
  void activate(Activation, MatrixView, MatrixView, MatrixView y) override {
    work("activation", cost_.elementwise(numbers(y)));
  }
  void append_kv(const KvFormat&, int, std::span<const AttentionSpan>, MatrixView k,
                 MatrixView v) override {
    work("append", cost_.elementwise(numbers(k) + numbers(v)));
  }
  void attend(const KvFormat& format, int, std::span<const AttentionSpan> spans, int heads, float,
              MatrixView, MatrixView) override {
    double prompt_keys = 0, answer_keys = 0;
    for (const AttentionSpan& span : spans) {
      const double rows = span.rows, before = span.first_position;
      (span.prompt ? prompt_keys : answer_keys) += rows * before + rows * (rows + 1) / 2;
    }
    work("attention", cost_.prefill_attention(heads, format.head_dim, prompt_keys) +
                          cost_.decode_attention(heads, format.head_dim, answer_keys,
                                                 static_cast<double>(format.record_bytes()),
                                                 bits_of(format.encoding)));
  }
  void gather_rows(MatrixView, std::span<const std::int32_t>, MatrixView y) override {
    work("gather", cost_.elementwise(numbers(y)));
  }
  void draw(MatrixView logits, std::span<const DrawParams>, std::int32_t*) override {
    work("draw", cost_.draw(numbers(logits)));
  }

 private:
  void norm(MatrixView x) { work("norm", cost_.elementwise(numbers(x))); }
  void work(const char* name, double seconds, std::size_t bytes = 0) {
    stream_.work(name, Seconds(seconds + cost_.call()), bytes);
  }

  SimStream& stream_;
  const OperationCost& cost_;
  const std::vector<Buffer> memory_;
};

class SimBackend final : public Backend {
 public:
  SimBackend(VirtualTime& time, const Profile& profile, const SimDevice::Options& options,
             DType compute, const PerTier<std::size_t>& workspace, Budgets& budgets)
      : cost_(profile), compute_(compute), workspace_(workspace), device_(time, options, budgets) {}

  Device& device() override { return device_; }
  DType preferred_compute_type() const override { return compute_; }
  std::unique_ptr<Kernels> make_kernels(const KernelLimits&) override {
    std::vector<Buffer> memory;
    for (const Tier tier : {Tier::kDevice, Tier::kHost})
      if (workspace_[tier] > 0)
        memory.push_back(device_.allocate(tier, workspace_[tier], "workspace"));
    return std::make_unique<SimKernels>(device_.computing(), cost_, std::move(memory));
  }
  PerTier<std::size_t> workspace_bytes(const KernelLimits&) override { return workspace_; }

 private:
  const OperationCost cost_;
  const DType compute_;
  const PerTier<std::size_t> workspace_;
  SimDevice device_;
};

}  // namespace

std::unique_ptr<Backend> make_sim_backend(VirtualTime& time, const Profile& profile,
                                          const SimDevice::Options& options, DType compute,
                                          const PerTier<std::size_t>& workspace, Budgets& budgets) {
  return std::make_unique<SimBackend>(time, profile, options, compute, workspace, budgets);
}

}  // namespace barge
