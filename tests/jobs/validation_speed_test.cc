// The largest file that a batch may have: what its validation may cost.
#include <gtest/gtest.h>
#include <time.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "jobs/validation.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

constexpr int kLines = 50'000;
constexpr std::size_t kFileBytes = 200'000'000, kMaxGrowthBytes = std::size_t{64} << 20;
constexpr double kMaxSeconds = 2;  // of processor time: other tests may run beside this

// 50,000 chats of 4,000 bytes as Python's json.dumps writes them.
void write_full_file(const std::filesystem::path& path, const std::string& model) {
  std::ofstream out(path, std::ios::binary);
  std::string words;
  while (words.size() < kFileBytes / kLines)
    words += "Freight, not a taxi: 5 tons to M\\u00fcnchen \\u2013 \\\"now\\\".\\n ";
  for (int i = 0; i < kLines; ++i) {
    std::string line =
        R"({"custom_id": "request-)" + std::to_string(i) +
        R"(", "method": "POST", "url": "/v1/chat/completions", "body": {"model": ")" + model +
        R"(", "max_tokens": 64, "temperature": 0.5, "messages": [)" +
        R"({"role": "system", "content": "Be brief."}, )" + R"({"role": "user", "content": ")";
    const std::string end = "\"}]}}\n";
    std::size_t room = kFileBytes / kLines - line.size() - end.size();
    while (words[room - 1] != ' ') --room;  // not within an escape
    line += words.substr(0, room);
    line.append(kFileBytes / kLines - line.size() - end.size(), ' ');
    out << line << end;
  }
}

// A line of /proc/self/status, such as "VmRSS:" and "VmHWM:", in bytes.
std::size_t memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kilobytes = 0;
  while (status >> word)
    if (word == name) status >> kilobytes;
  return kilobytes << 10;
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class SlowFullFile : public testing::TestWithParam<const char*> {};

TEST_P(SlowFullFile, IsValidatedInTwoSecondsAndLittleMemory) {
  const test::TempDirectory directory;
  write_full_file(directory / "in.jsonl", GetParam());
  ASSERT_EQ(std::filesystem::file_size(directory / "in.jsonl"), kFileBytes);

  std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM begins anew
  const std::size_t before = memory("VmRSS:");
  const double begin = thread_seconds();
  const Validation found =
      validate(directory / "in.jsonl", {Endpoint::kChatCompletions, {"served"}});
  const double seconds = thread_seconds() - begin;
  const std::size_t growth = memory("VmHWM:") - before;
  std::printf("%.2f s, %.1f MiB\n", seconds, static_cast<double>(growth) / (1 << 20));

  EXPECT_EQ(found.num_requests, static_cast<std::size_t>(kLines));
  EXPECT_EQ(found.num_problems, std::string(GetParam()) == "served" ? 0u : kLines);
  EXPECT_LE(seconds, kMaxSeconds);
  EXPECT_LE(growth, kMaxGrowthBytes);
}

INSTANTIATE_TEST_SUITE_P(GoodAndBad, SlowFullFile, testing::Values("served", "unknown"));

}  // namespace
}  // namespace barge
