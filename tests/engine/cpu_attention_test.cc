// Decode attention of the CPU beside a discrete device: what crosses the link, what runs at the
// same time, what happens when it fails. That bytes don't change is policy_invariance_test's.
#include <gmock/gmock.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "core/errors.h"
#include "engine/kv_format.h"
#include "tests/support/forwarding_backend.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const TestModel& tiny() {
  static const TestModel model(tiny_llama_config());
  return model;
}

TestSetup attending_setup() {
  TestSetup setup;
  setup.emulate_link = 4e9;
  setup.policy.cpu_attention = true;
  return setup;
}

// As many as the block has room for, each with a prompt of its own, all equally long.
std::vector<GenerationRequest> one_block(int max_tokens) {
  std::vector<GenerationRequest> requests(6);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (int t = 0; t < 6; ++t)
      requests[i].prompt.push_back(static_cast<TokenId>(i * 41 + 7 * static_cast<std::size_t>(t)));
    requests[i].max_tokens = max_tokens;
    requests[i].ignore_eos = true;
  }
  return requests;
}

TEST(CpuAttention, LetsNoKvOfAnswersCrossTheLink) {
  const std::size_t record = kv_format_of(tiny_llama_config(), 32, 64).record_bytes();
  const std::size_t layers = 2, prompts = 6 * 6, answers = 6 * 8;
  for (const PerTier<double> kv : {PerTier<double>{0, 1, 0}, PerTier<double>{0, 0.5, 0.5}}) {
    TestSetup setup = attending_setup();
    setup.policy.kv = kv;
    for (const bool cpu : {true, false}) {
      setup.policy.cpu_attention = cpu;
      TestEngine test(tiny(), setup);
      for (const TestAnswer& answer : run_all(*test.engine, one_block(9)))
        EXPECT_EQ(answer.error, "");
      const EngineStats stats = test.engine->stats();
      EXPECT_EQ(stats.kv.link_up_bytes, record * layers * (prompts + (cpu ? 0 : answers)));
      EXPECT_EQ(stats.kv.link_down_bytes > 0, !cpu);
      EXPECT_EQ(stats.cpu_attention_seconds > 0, cpu);
    }
  }
}

// Lets each attention of the CPU end only when the device has done a product that was given to it
// later: of the other half. Where none comes, the sequence was alone in its sweep: a request that
// came late, or one that is the last.
class Overlap {
 public:
  Backend& device() { return device_; }
  Backend& cpu() { return cpu_; }
  int attended() const { return attended_; }  // beside the device's products
  int alone() const { return alone_; }

  Overlap(std::unique_ptr<Backend> device, std::unique_ptr<Backend> cpu)
      : device_(std::move(device)), cpu_(std::move(cpu)) {
    device_.after_linear = [this] {
      ++given_;
      device_.device().compute().call([this] {
        const std::scoped_lock lock(mutex_);
        ++done_;
        changed_.notify_all();
      });
    };
    cpu_.before_attend = [this] {
      cpu_.device().compute().call([this, before = given_] {
        std::unique_lock lock(mutex_);
        const auto later = [&] { return done_ > before; };
        ++(changed_.wait_for(lock, std::chrono::seconds(2), later) ? attended_ : alone_);
      });
    };
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int given_ = 0;                            // products, on the engine's thread
  int done_ = 0, attended_ = 0, alone_ = 0;  // guarded by mutex_
  ForwardingBackend device_, cpu_;           // last: their streams use all of the above
};

TEST(CpuAttention, RunsWhileTheDeviceMultipliesTheOtherHalf) {
  if (tests_on_cuda()) GTEST_SKIP() << "the device's stream is watched on the CPU";
  for (const int batches : {2, 3}) {
    TestSetup setup = attending_setup();
    setup.policy.gpu_batch_size = 6 / batches;
    setup.policy.num_gpu_batches = batches;
    Budgets budgets(std::size_t{1} << 30, std::size_t{1} << 30, std::size_t{1} << 30);
    Overlap overlap(make_reference_backend({.threads = 1, .emulate_link = 4e9}, budgets),
                    make_reference_backend({.threads = 1}, budgets));
    setup.device = &overlap.device();
    setup.attention = &overlap.cpu();
    TestEngine test(tiny(), setup);
    for (const TestAnswer& answer : run_all(*test.engine, one_block(5)))
      EXPECT_EQ(answer.error, "");
    test.engine.reset();
    // Layers, micro-batches, decode sweeps; more if a sweep began before all requests were there.
    EXPECT_GE(overlap.attended() + overlap.alone(), 2 * batches * 4);
    EXPECT_GE(overlap.attended(), 3 * overlap.alone());
  }
}

// Each side waits for what it wants of the other, however late that comes.
TEST(CpuAttention, IsRightWhicheverSideIsSlow) {
  if (tests_on_cuda()) GTEST_SKIP() << "the device's stream is held up on the CPU";
  TestSetup plain;
  plain.emulate_link = 4e9;
  plain.reference_kernels = true;
  TestEngine alone(tiny(), plain);
  const auto expected = run_all(*alone.engine, one_block(6));
  for (const bool device_is_slow : {true, false}) {
    Budgets budgets(std::size_t{1} << 30, std::size_t{1} << 30, std::size_t{1} << 30);
    ForwardingBackend device(make_reference_backend({.threads = 1, .emulate_link = 4e9}, budgets));
    ForwardingBackend cpu(make_reference_backend({.threads = 1}, budgets));
    const auto sleep = [](ForwardingBackend& side) {
      side.device().compute().call(
          [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    };
    if (device_is_slow)
      device.after_linear = [&] { sleep(device); };
    else
      cpu.before_attend = [&] { sleep(cpu); };
    TestSetup setup = attending_setup();
    setup.policy.weights = {0, 0.5, 0.5};
    setup.device = &device;
    setup.attention = &cpu;
    TestEngine test(tiny(), setup);
    const auto answers = run_all(*test.engine, one_block(6));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].ids(), expected[i].ids()) << i;
      EXPECT_EQ(answers[i].hash(), expected[i].hash()) << i;
    }
  }
}

TEST(CpuAttention, ItsFailureEndsAllRequests) {
  Budgets budgets(std::size_t{1} << 30, std::size_t{1} << 30, std::size_t{1} << 30);
  ForwardingBackend cpu(make_reference_backend({.threads = 1}, budgets));
  int calls = 0;
  cpu.before_attend = [&] {
    if (++calls == 6)
      cpu.device().compute().call([] { throw Error("the CPU has lost its attention"); });
  };
  TestSetup setup = attending_setup();
  setup.attention = &cpu;
  TestEngine test(tiny(), setup);
  for (const TestAnswer& answer : run_all(*test.engine, one_block(9))) {
    EXPECT_EQ(answer.reason, FinishReason::kError);
    EXPECT_EQ(answer.error, "the CPU has lost its attention");
  }
  EXPECT_THAT(test.engine->failure(), HasSubstr("lost its attention"));
}

// The device gives up while the CPU is about to attend to the other half.
TEST(CpuAttention, AFailureOfTheWeightsLeavesNothingUnderWay) {
  const TestModel model(tiny_llama_config());
  const PackTensor& tensor =
      model.pack().tensors()[static_cast<std::size_t>(model.pack().find("layers.0.up"))];
  const PackPanel& panel = tensor.panels.front();
  Budgets budgets(std::size_t{1} << 30, std::size_t{1} << 30, std::size_t{1} << 30);
  ForwardingBackend cpu(make_reference_backend({.threads = 1}, budgets));
  cpu.before_attend = [&] {
    cpu.device().compute().call([] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
  };
  TestSetup setup = attending_setup();
  setup.policy.weights = {0, 0, 1};
  setup.attention = &cpu;
  TestEngine test(model, setup);
  std::vector<GenerationRequest> requests = one_block(40);
  int tokens = 0;
  requests.front().on_logits = [&](const float*, int) {
    if (++tokens == 2)
      std::filesystem::resize_file(model.pack().file(panel.file).path(), panel.offset);
  };
  for (const TestAnswer& answer : run_all(*test.engine, std::move(requests)))
    EXPECT_THAT(answer.error, HasSubstr("cannot read"));
  EXPECT_GT(test.engine->stats().cpu_attention_seconds, 0);
}

TEST(CpuAttention, TakesOnlyACpuThatIsTheHost) {
  Budgets budgets(std::size_t{1} << 30, std::size_t{1} << 30, std::size_t{1} << 30);
  const auto discrete = make_reference_backend({.threads = 1, .emulate_link = 1e9}, budgets);
  TestSetup setup = attending_setup();
  setup.attention = discrete.get();
  EXPECT_THAT([&] { TestEngine(tiny(), setup); },
              ThrowsMessage<ConfigError>(HasSubstr("only the CPU can attend")));
}

TEST(CpuAttention, IsNothingOfItsOwnWhereTheDeviceIsTheCpu) {
  if (tests_on_cuda()) GTEST_SKIP() << "a GPU isn't the CPU";
  TestSetup setup = attending_setup();
  setup.emulate_link = 0;
  TestEngine test(tiny(), setup);
  for (const TestAnswer& answer : run_all(*test.engine, one_block(4))) EXPECT_EQ(answer.error, "");
  EXPECT_EQ(test.engine->stats().cpu_attention_seconds, 0);
}

}  // namespace
}  // namespace barge
