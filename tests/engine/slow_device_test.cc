// A device that falls behind what it is given: nothing is taken from under it.
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "tests/support/forwarding_backend.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

constexpr double kLink = 4e9;

void sleep_in(Stream& stream, int milliseconds) {
  stream.call([=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
}

// Kernels begin late after each wait for something else.
class HesitantBackend final : public Backend {
 public:
  explicit HesitantBackend(Budgets& budgets)
      : to_(make_reference_backend({.threads = 1, .emulate_link = kLink}, budgets)) {}

  Device& device() override { return device_; }
  DType preferred_compute_type() const override { return to_->preferred_compute_type(); }
  std::unique_ptr<Kernels> make_kernels(const KernelLimits& limits) override {
    return to_->make_kernels(limits);
  }
  PerTier<std::size_t> workspace_bytes(const KernelLimits& limits) override {
    return to_->workspace_bytes(limits);
  }

 private:
  class Hesitant final : public Stream {
   public:
    explicit Hesitant(Stream& to) : to_(to) {}
    void wait(const Event& event) override {
      to_.wait(event);
      if (event.state()) sleep_in(to_, 5);
    }
    Event record() override { return to_.record(); }
    void copy(void* to, Tier to_tier, const void* from, Tier from_tier,
              std::size_t bytes) override {
      to_.copy(to, to_tier, from, from_tier, bytes);
    }
    void call(std::function<void()> work) override { to_.call(std::move(work)); }

   private:
    Stream& to_;
  };
  class Slow final : public Device {
   public:
    explicit Slow(Device& to) : to_(to), compute_(to.compute()) {}
    std::string name() const override { return to_.name(); }
    bool unified() const override { return to_.unified(); }
    Buffer allocate(Tier tier, std::size_t bytes, std::string_view tag) override {
      return to_.allocate(tier, bytes, tag);
    }
    Stream& compute() override { return compute_; }
    Stream& load() override { return to_.load(); }
    Stream& store() override { return to_.store(); }
    const Clock& clock() const override { return to_.clock(); }
    LinkTraffic link_traffic() const override { return to_.link_traffic(); }
    double compute_seconds() const override { return to_.compute_seconds(); }

   private:
    Device& to_;
    Hesitant compute_;
  };

  std::unique_ptr<Backend> to_;
  Slow device_{to_->device()};
};

Budgets large() {
  return Budgets(std::size_t{1} << 30, std::size_t{1} << 30, std::size_t{1} << 30);
}

// A prompt of many sweeps for whose results nobody waits.
GenerationRequest long_prompt(int max_tokens) {
  GenerationRequest request;
  for (int i = 0; i < 100; ++i) request.prompt.push_back(i * 37 % 300);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

TestSetup in_small_sweeps() {
  TestSetup setup;
  setup.emulate_link = kLink;
  setup.reference_kernels = true;
  setup.policy.gpu_batch_size = setup.policy.num_gpu_batches = 1;
  setup.policy.sweep_tokens = 6;
  // No ring through which weights come in step with the device; but staging for two layers' pages,
  // so that the next sweep's leases come late and hold up no load before them.
  setup.policy.weights = {.device = 1, .host = 0, .disk = 0};
  return setup;
}

TEST(SlowDevice, SeesItsOwnRowsOfTheTableThoughTheNextSweepIsGiven) {
  const TestModel model(tiny_llama_config());
  Budgets budgets = large();
  std::uint64_t hashes[2];
  for (const bool slow : {false, true}) {
    HesitantBackend hesitant(budgets);
    const auto plain = make_reference_backend({.threads = 1, .emulate_link = kLink}, budgets);
    TestSetup setup = in_small_sweeps();
    setup.device = slow ? &hesitant : plain.get();
    TestEngine test(model, setup);
    std::vector<GenerationRequest> requests;
    requests.push_back(long_prompt(3));
    const auto answers = run_all(*test.engine, std::move(requests));
    EXPECT_EQ(answers[0].error, "");
    hashes[slow] = answers[0].hash();
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(SlowDevice, KeepsItsMemoryUntilItIsDoneThoughTheEngineIsDestroyed) {
  const TestModel model(tiny_llama_config());
  for (int milliseconds : {15, 40, 65}) {
    Budgets budgets = large();
    ForwardingBackend device(
        make_reference_backend({.threads = 1, .emulate_link = kLink}, budgets));
    device.after_linear = [&] { sleep_in(device.device().compute(), 3); };
    TestSetup setup = in_small_sweeps();
    setup.device = &device;
    TestEngine test(model, setup);
    GenerationRequest request = long_prompt(3);
    std::promise<FinishReason> end;
    request.on_done = [&](FinishReason reason, const std::string&) { end.set_value(reason); };
    test.engine->submit(std::move(request));
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    test.engine.reset();
    EXPECT_EQ(end.get_future().get(), FinishReason::kCancelled);
    EXPECT_EQ(budgets.device.used(), 0u);
  }
}

}  // namespace
}  // namespace barge
