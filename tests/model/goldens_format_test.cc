#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "tests/support/goldens.h"

namespace barge {
namespace {

namespace fs = std::filesystem;
using testing::Contains;

const fs::path kDirectory = fs::path(BARGE_TEST_DATA) / "goldens";

class GoldensFormat : public testing::TestWithParam<std::string> {};

TEST_P(GoldensFormat, HoldsModelTokensAndALogitOfEachChosenToken) {
  const Goldens goldens = read_goldens(kDirectory, GetParam());
  EXPECT_EQ(goldens.name, GetParam());
  EXPECT_TRUE(goldens.model.empty() || fs::exists(goldens.model)) << goldens.model;
  ASSERT_FALSE(goldens.sequences.empty());
  for (const Golden& golden : goldens.sequences) {
    EXPECT_FALSE(golden.prompt.empty());
    ASSERT_EQ(golden.positions.size(), golden.tokens.size());
    for (const int id : golden.prompt) EXPECT_TRUE(id >= 0 && id < goldens.vocab) << id;
  }
}

TEST_P(GoldensFormat, AnswersAreGreedyAndLogsumexpIsAboveTheLargestLogit) {
  const Goldens goldens = read_goldens(kDirectory, GetParam());
  for (const Golden& golden : goldens.sequences) {
    for (std::size_t i = 0; i < golden.tokens.size(); ++i) {
      const auto& [logsumexp, logits] = golden.positions[i];
      float largest = -INFINITY, chosen = -INFINITY;
      for (const auto& [id, logit] : logits) {
        ASSERT_TRUE(id >= 0 && id < goldens.vocab) << id;
        ASSERT_TRUE(std::isfinite(logit));
        largest = std::max(largest, logit);
        if (id == golden.tokens[i]) chosen = logit;
      }
      // The answer was made token by token and the logits in one pass: both in float32, whose sums
      // of a few thousand products differ by 1e-4 at most, so only a near tie may be swapped.
      EXPECT_GE(chosen, largest - 2e-4f) << "position " << i;
      EXPECT_GE(logsumexp, largest);
      EXPECT_LE(logsumexp, largest + std::log(static_cast<float>(goldens.vocab)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldensFormat, testing::ValuesIn(golden_names(kDirectory)),
                         [](auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

TEST(GoldensFormat, KeepsFamiliesFormatsAndTypes) {
  const auto names = golden_names(kDirectory);
  for (const char* name : {"smollm2", "tiny-llama", "tiny-llama3-rope", "tiny-llama-linear-rope",
                           "tiny-mistral", "tiny-qwen2", "tiny-opt", "tiny-smollm2",
                           "tiny-llama-mixed.gguf", "tiny-llama3-rope-v2.gguf", "tiny-qwen2.gguf"})
    EXPECT_THAT(names, Contains(name));
}

}  // namespace
}  // namespace barge
