// One output, whatever the policy (design §7), for policies that nobody thought of: drawn at
// random, with disks that do only part of what they are asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/disk_queue.h"
#include "tests/engine/limping_disk.h"
#include "tests/engine/policy_run.h"

namespace barge {
namespace {

// How many are drawn; BARGE_TEST_POLICIES says otherwise (200 before a release).
int num_policies() {
  if (const char* wanted = std::getenv("BARGE_TEST_POLICIES")) return std::atoi(wanted);
#if defined(__SANITIZE_THREAD__)
  return 3;
#elif defined(__SANITIZE_ADDRESS__)
  return 6;
#else
  return 30;
#endif
}

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}

  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool one_in(int n) { return between(1, n) == 1; }
  template <typename T>
  T one_of(std::vector<T> choices) {
    return choices[static_cast<std::size_t>(between(0, static_cast<int>(choices.size()) - 1))];
  }
  // In tenths. A device that is the host has its share there.
  PerTier<double> shares(bool unified) {
    if (one_in(4)) return one_of<PerTier<double>>({{0, 1, 0}, {0, 0, 1}, {0, 0.5, 0.5}});
    const int device = unified ? 0 : between(0, 10), host = between(0, 10 - device);
    return {device / 10.0, host / 10.0, (10 - device - host) / 10.0};
  }

 private:
  std::mt19937 random_;
};

// The lines of the usual job, of which some begin alike: with each other, or with what one of them
// had long before.
std::vector<GenerationRequest> job() {
  std::vector<GenerationRequest> requests = policy_job();
  Dice dice(7);
  std::vector<TokenId> common(50);
  for (TokenId& id : common) id = dice.between(0, 299);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::vector<TokenId>& prompt = requests[i].prompt;
    if (i % 3 == 0)
      std::copy_n(common.begin(), std::min(prompt.size(), common.size()), prompt.begin());
    if (i % 6 == 5) prompt = requests[i - 1].prompt;
  }
  return requests;
}

// Of one format: what the bytes may depend on stays as it is.
TestSetup random_setup(const TestSetup& format, Dice& dice) {
  TestSetup s = format;
  if (dice.one_in(2)) s.emulate_link = 4e9;
  s.threads = dice.between(1, 2);
  s.io = dice.one_in(4) ? DiskQueue::Io::kPread : DiskQueue::Io::kAuto;
  Policy& p = s.policy;
  p.gpu_batch_size = dice.one_of<int>({1, 2, 3, 5, 12, 24});
  p.num_gpu_batches = dice.between(1, 6);
  p.weights = dice.shares(s.unified());
  p.kv = dice.shares(s.unified());
  p.cpu_attention = !s.unified() && dice.one_in(3);
  p.page_positions = dice.one_of<int>({4, 8, 16, 64});
  p.sweep_tokens = std::max(p.block_sequences(), dice.one_of<int>({6, 11, 23, 40, 128, 500}));
  p.kv_positions = dice.one_in(3) ? dice.between(16, 60) : 0;
  p.over_commit = !dice.one_in(4);
  p.prefix_sharing = !dice.one_in(4);
  p.ring_bytes = dice.one_in(3) ? 1_MiB : 0;
  return s;
}

struct Format {
  int weight_bits, kv_bits;
};

class Subject {
 public:
  explicit Subject(const Format& format) : model(tiny_llama_config(), format.weight_bits) {
    plain.policy.kv_bits = format.kv_bits;
    plain.policy.prefix_sharing = false;
    by_place[-1] = run_under(model, plain, job());
  }

  const TestModel model;
  TestSetup plain;
  std::map<int, std::vector<TestAnswer>> by_place;
};

// What a policy is compared with; made when it is first asked for.
Subject& subject(int i) {
  static std::array<std::unique_ptr<Subject>, 3> subjects;
  constexpr std::array<Format, 3> kFormats{{{32, 32}, {4, 16}, {4, 4}}};
  const auto which = static_cast<std::size_t>(i) % kFormats.size();
  if (!subjects[which]) subjects[which] = std::make_unique<Subject>(kFormats[which]);
  return *subjects[which];
}

class RandomPolicies : public testing::TestWithParam<int> {};

TEST_P(RandomPolicies, SameTokensAndSameBitsOfLogits) {
  Dice dice(static_cast<std::uint32_t>(1000 + GetParam()));
  Subject& from = subject(GetParam());
  TestSetup setup = random_setup(from.plain, dice);
  LimpingDisk::Counts counts;
  const auto disk_seed = static_cast<std::uint32_t>(GetParam());
  if (dice.one_in(2))
    setup.change_disk = [&counts, disk_seed](std::unique_ptr<DiskBackend> disk) {
      return std::make_unique<LimpingDisk>(std::move(disk), disk_seed, counts);
    };
  SCOPED_TRACE(concat(policy_to_json(setup.policy), setup.unified() ? "" : ", a link"));
  const auto answers =
      run_under(from.model, setup, job(), static_cast<unsigned>(dice.between(0, 5)));
  const auto& expected =
      from.by_place.try_emplace(place_of_attention(setup), answers).first->second;
  for (std::size_t line = 0; line < answers.size(); ++line) {
    ASSERT_EQ(answers[line].error, "") << "line " << line;
    ASSERT_EQ(answers[line].ids(), expected[line].ids()) << "line " << line;
    ASSERT_EQ(answers[line].hash(), expected[line].hash()) << "line " << line;
  }
  if (counts.pieces > 100) {
    EXPECT_GT(counts.faults, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Drawn, RandomPolicies, testing::Range(0, num_policies()));

}  // namespace
}  // namespace barge
