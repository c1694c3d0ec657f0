// One output, whatever the policy (design §7): the same tokens and the same bits of all logits.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "offload/disk_queue.h"
#include "tests/engine/policy_run.h"

namespace barge {
namespace {

struct Format {
  const char* name;
  DType compute;
  int weight_bits, kv_bits;
  int activation_bits = 16;
};

void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

struct Variant {
  const char* name;
  std::function<void(TestSetup&)> change;
  unsigned order = 0;  // seed of the order of the lines; 0: as they are
};

using Shares = PerTier<double>;

std::vector<Variant> variants() {
  const auto homes = [](Shares weights, Shares kv, double link = 0) {
    return [=](TestSetup& s) {
      s.policy.weights = weights;
      s.policy.kv = kv;
      s.emulate_link = link;
    };
  };
  const auto all_disk = [](auto change) {
    return [change](TestSetup& s) {
      s.policy.weights = s.policy.kv = {.device = 0, .host = 0, .disk = 1};
      change(s);
    };
  };
  constexpr double kLink = 4e9;
  const auto cpu_attends = [=](Shares kv, auto change) {
    return [=](TestSetup& s) {
      homes({0.3, 0.3, 0.4}, kv, kLink)(s);
      s.policy.cpu_attention = true;
      change(s);
    };
  };
  const auto nothing_else = [](TestSetup&) {};
  return {
      {"one sequence at a time",
       [](TestSetup& s) { s.policy.gpu_batch_size = s.policy.num_gpu_batches = 1; }},
      {"all sequences at once", [](TestSetup& s) { s.policy.gpu_batch_size = 24; }},
      {"many micro-batches",
       [](TestSetup& s) {
         s.policy.gpu_batch_size = 1;
         s.policy.num_gpu_batches = 9;
       }},
      {"weights on disk", homes({0, 0, 1}, {0, 1, 0})},
      {"KV on disk", homes({0, 1, 0}, {0, 0, 1})},
      {"both in part", homes({0, 0.7, 0.3}, {0, 0.4, 0.6})},
      {"a link, all on the device", homes({1, 0, 0}, {1, 0, 0}, kLink)},
      {"a link, all on the host", homes({0, 1, 0}, {0, 1, 0}, kLink)},
      {"a link, all on disk", homes({0, 0, 1}, {0, 0, 1}, kLink)},
      {"a link, three tiers", homes({0.3, 0.3, 0.4}, {0.25, 0.25, 0.5}, kLink)},
      {"three tiers for one sequence at a time",
       [=](TestSetup& s) {
         homes({0.3, 0.3, 0.4}, {0.25, 0.25, 0.5}, kLink)(s);
         s.policy.gpu_batch_size = s.policy.num_gpu_batches = 1;
       }},
      {"pread", all_disk([](TestSetup& s) { s.io = DiskQueue::Io::kPread; })},
      {"io_uring or what there is", all_disk([](TestSetup& s) { s.policy.ring_bytes = 1 << 20; })},
      {"smallest chunks", [](TestSetup& s) { s.policy.sweep_tokens = 6; }},
      {"whole prompts", [](TestSetup& s) { s.policy.sweep_tokens = 500; }},
      {"small pages", all_disk([](TestSetup& s) { s.policy.page_positions = 4; })},
      {"large pages", all_disk([](TestSetup& s) { s.policy.page_positions = 64; })},
      {"lines in another order", [](TestSetup&) {}, 1},
      {"a third order, on disk", all_disk([](TestSetup& s) { s.policy.sweep_tokens = 23; }), 2},
      {"two threads", [](TestSetup& s) { s.threads = 2; }},
      {"a KV cache too small for the block",
       [](TestSetup& s) {
         s.policy.gpu_batch_size = 12;
         s.policy.kv_positions = 20;
       }},
      {"the CPU attends", cpu_attends({0, 1, 0}, nothing_else)},
      {"the CPU attends, with KV on disk", cpu_attends({0, 0, 1}, nothing_else)},
      {"the CPU attends to all sequences at once",
       cpu_attends({0, 0.5, 0.5}, [](TestSetup& s) { s.policy.gpu_batch_size = 24; })},
      {"the CPU attends to one sequence at a time",
       cpu_attends({0, 1, 0},
                   [](TestSetup& s) { s.policy.gpu_batch_size = s.policy.num_gpu_batches = 1; })},
      {"the CPU attends to many micro-batches",
       cpu_attends({0, 0.6, 0.4},
                   [](TestSetup& s) {
                     s.policy.gpu_batch_size = 1;
                     s.policy.num_gpu_batches = 9;
                     s.policy.page_positions = 4;
                     s.policy.sweep_tokens = 11;
                   }),
       3},
      {"the CPU attends in one layer", cpu_attends({0.5, 0.3, 0.2}, nothing_else), 4},
      {"the CPU attends in one layer, in smallest chunks",
       cpu_attends({0.6, 0, 0.4}, [](TestSetup& s) { s.policy.sweep_tokens = 6; })},
      {"the CPU attends where KV is too small for the block",
       cpu_attends({0, 1, 0},
                   [](TestSetup& s) {
                     s.policy.gpu_batch_size = 12;
                     s.policy.kv_positions = 20;
                     s.threads = 2;
                   })},
      {"no over-commitment",
       [](TestSetup& s) {
         s.policy.gpu_batch_size = 12;
         s.policy.kv_positions = 20;
         s.policy.over_commit = false;
       }},
  };
}

class PolicyInvariance : public testing::TestWithParam<Format> {};

TEST_P(PolicyInvariance, SameTokensAndSameBitsOfLogits) {
  const Format& format = GetParam();
  const std::string suite = testing::UnitTest::GetInstance()->current_test_suite()->name();
  if (suite.starts_with("Slow") && std::getenv("BARGE_TEST_ALL") == nullptr)
    GTEST_SKIP() << "a long one: BARGE_TEST_ALL isn't set";
  if (format.compute == DType::kBF16 && !tests_on_cuda() &&
      preferred_compute_type() != DType::kBF16)
    GTEST_SKIP() << "this processor doesn't multiply bfloat16";
  const bool grouped = format.activation_bits == 8;
  const TestModel model(grouped ? tiny_grouped_config() : tiny_llama_config(), format.weight_bits);
  if (!model.pack().file(0).direct())
    std::cerr << "/proc/self/io is not compared: the temporary directory's file system refuses "
                 "O_DIRECT\n";
  TestSetup setup;
  setup.compute = format.compute;
  setup.activation_bits = format.activation_bits;
  setup.policy.kv_bits = format.kv_bits;
  std::map<int, std::vector<TestAnswer>> by_place;
  const auto& first = by_place[-1] = run_under(model, setup, policy_job());
  std::size_t differing = 0;  // answers, so that the job isn't 24 times the same
  for (std::size_t i = 1; i < first.size(); ++i)
    differing += first[i].hash() != first[i - 1].hash();
  ASSERT_EQ(differing, first.size() - 1);

  // ThreadSanitizer, which takes ten times as long, sees a third of them.
  const std::vector<Variant> all = variants();
  for (std::size_t v = 0; v < all.size(); v += kReferenceKernels ? 3 : 1) {
    const Variant& variant = all[v];
    SCOPED_TRACE(variant.name);
    TestSetup changed = setup;
    variant.change(changed);
    changed.policy.sweep_tokens =
        std::max(changed.policy.sweep_tokens, changed.policy.block_sequences());
    const auto answers = run_under(model, changed, policy_job(), variant.order);
    const auto& expected = by_place.try_emplace(place_of_attention(changed), answers).first->second;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_EQ(answers[i].error, "") << "line " << i;
      ASSERT_EQ(answers[i].ids(), expected[i].ids()) << "line " << i;
      ASSERT_EQ(answers[i].hash(), expected[i].hash()) << "line " << i;
    }
  }
}

std::string name_of_format(const testing::TestParamInfo<Format>& info) { return info.param.name; }

std::vector<Format> quick_formats() {
  std::vector<Format> formats{{"f32_w4_kv16", DType::kF32, 4, 16}};
  if (tests_on_cuda())
    formats.push_back({"f16_w4_kv4", DType::kF16, 4, 4});
  else
    formats.push_back({"f32_w4_kv16_in_8_bits", DType::kF32, 4, 16, 8});
  return formats;
}

INSTANTIATE_TEST_SUITE_P(Quick, PolicyInvariance, testing::ValuesIn(quick_formats()),
                         name_of_format);
INSTANTIATE_TEST_SUITE_P(Slow, PolicyInvariance,
                         testing::Values(Format{"f32_w32_kv32", DType::kF32, 32, 32},
                                         Format{"f32_w8_kv4", DType::kF32, 8, 4},
                                         Format{"bf16_w4_kv16", DType::kBF16, 4, 16},
                                         Format{"bf16_w16_kv4", DType::kBF16, 16, 4}),
                         name_of_format);

}  // namespace
}  // namespace barge
