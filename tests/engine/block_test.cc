#include "engine/block.h"

#include <gmock/gmock.h>

#include <functional>
#include <numeric>
#include <vector>

#include "engine/random.h"

namespace barge {
namespace {

using testing::ElementsAre;

std::size_t no_staging(const Block::Member&) { return 0; }

Sequence prompt_of(int tokens, int max_tokens = 5) {
  Sequence s;
  s.request.prompt.resize(static_cast<std::size_t>(tokens));
  std::iota(s.request.prompt.begin(), s.request.prompt.end(), 100);
  s.request.max_tokens = max_tokens;
  return s;
}

Sequence decoding(int prompt, std::vector<TokenId> answer) {
  Sequence s = prompt_of(prompt);
  s.answer = std::move(answer);
  s.fed = prompt + static_cast<int>(s.answer.size()) - 1;
  return s;
}

constexpr BlockLimits kLimits{
    .sequences = 4, .micro_batch_sequences = 2, .rows = 10, .wanted_rows = 4};

TEST(Compose, PutsDecodingSequencesFirstAndFillsTheRestWithPrompts) {
  Sequence a = prompt_of(7), b = decoding(3, {8, 9}), c = prompt_of(5);
  const Block block = compose(std::vector{&a, &b, &c}, kLimits, no_staging);
  ASSERT_EQ(block.members.size(), 3u);
  EXPECT_EQ(block.members[0].sequence, &b);
  EXPECT_FALSE(block.members[0].prompt);
  EXPECT_EQ(block.members[1].sequence, &a);
  EXPECT_EQ(block.members[2].sequence, &c);
  EXPECT_TRUE(block.members[2].prompt);
  EXPECT_THAT(block.tokens, ElementsAre(9, 100, 101, 102, 103, 104, 105, 106, 100, 101));
  EXPECT_THAT(block.positions, ElementsAre(4, 0, 1, 2, 3, 4, 5, 6, 0, 1));
  // The decoded row, the end of a's prompt; c isn't through yet.
  EXPECT_THAT(block.wanted, ElementsAre(0, 7));
  EXPECT_EQ(block.members[2].num_wanted, 0);
  EXPECT_TRUE(block.has_prompts());
}

TEST(Compose, GivesUrgentPromptsTheirRowsBeforeOthers) {
  Sequence a = prompt_of(7), b = decoding(3, {8, 9}), c = prompt_of(5);
  c.request.urgent = true;
  const Block block = compose(std::vector{&a, &b, &c}, kLimits, no_staging);
  ASSERT_EQ(block.members.size(), 3u);
  EXPECT_EQ(block.members[0].sequence, &b);
  EXPECT_EQ(block.members[1].sequence, &c);
  EXPECT_EQ(block.members[1].rows, 5);
  EXPECT_EQ(block.members[2].rows, 4);
}

TEST(Compose, GoesOnInAPromptWhereTheLastChunkEnded) {
  Sequence a = prompt_of(25);
  a.fed = 10;
  const Block block = compose(std::vector{&a}, kLimits, no_staging);
  EXPECT_EQ(block.members[0].first_position, 10);
  EXPECT_EQ(block.members[0].rows, 10);
  EXPECT_EQ(block.tokens.front(), 110);
  EXPECT_TRUE(block.wanted.empty());
}

TEST(Compose, CutsMicroBatchesOfAtMostSoManySequences) {
  Sequence a = decoding(1, {1}), b = decoding(1, {2}), c = decoding(1, {3}), d = prompt_of(2);
  const Block block = compose(std::vector{&a, &b, &c, &d}, kLimits, no_staging);
  ASSERT_EQ(block.micro_batches.size(), 2u);
  EXPECT_EQ(block.micro_batches[0].num_members, 2u);
  EXPECT_EQ(block.micro_batches[1].first_member, 2u);
  EXPECT_EQ(block.micro_batches[1].num_members, 2u);
}

TEST(Compose, CutsMicroBatchesThatWouldTakeMoreThanHalfTheStaging) {
  Sequence a = decoding(1, {1}), b = decoding(1, {2}), c = decoding(1, {3});
  BlockLimits limits = kLimits;
  limits.micro_batch_sequences = 4;
  limits.staging_bytes = 100;
  const Block block = compose(std::vector{&a, &b, &c}, limits, [&](const Block::Member& m) {
    return m.sequence == &a ? 80u : 25u;  // the first alone is more than half
  });
  ASSERT_EQ(block.micro_batches.size(), 2u);
  EXPECT_EQ(block.micro_batches[0].num_members, 1u);
  EXPECT_EQ(block.micro_batches[1].num_members, 2u);
}

TEST(Compose, WantsEachRowOfAPromptWhoseLogprobsAreWantedWithinTheLogitsBuffer) {
  Sequence a = prompt_of(9);
  a.request.prompt_logprobs = true;
  const Block first = compose(std::vector{&a}, kLimits, no_staging);
  EXPECT_EQ(first.members[0].rows, 4);
  EXPECT_THAT(first.wanted, ElementsAre(0, 1, 2, 3));
  a.fed = 8;
  const Block last = compose(std::vector{&a}, kLimits, no_staging);
  EXPECT_THAT(last.wanted, ElementsAre(0));
}

TEST(Compose, TakesThePromptsLastRowForNothingWhereNoAnswerIsAskedFor) {
  Sequence a = prompt_of(5, /*max_tokens=*/0);
  a.request.prompt_logprobs = true;
  const Block block = compose(std::vector{&a}, kLimits, no_staging);
  EXPECT_EQ(block.members[0].rows, 5);
  EXPECT_THAT(block.wanted, ElementsAre(0, 1, 2, 3));
  Sequence b = prompt_of(3, /*max_tokens=*/0);
  EXPECT_TRUE(compose(std::vector{&b}, kLimits, no_staging).wanted.empty());
}

TEST(Compose, KeepsAPromptOpenWhileAnotherHasAllTheLogits) {
  Sequence a = prompt_of(9), b = prompt_of(3);
  a.request.prompt_logprobs = true;  // takes all four rows of logits
  const Block block = compose(std::vector{&a, &b}, kLimits, no_staging);
  ASSERT_EQ(block.members.size(), 2u);
  EXPECT_EQ(block.members[1].rows, 2);
  EXPECT_EQ(block.members[1].num_wanted, 0);
}

TEST(Compose, CutsHalvesWhereTheKeysOfAnswersAreCutMostEvenly) {
  Sequence a = decoding(20, {1}), b = decoding(3, {2}), c = decoding(9, {3}), d = decoding(5, {4});
  Sequence e = prompt_of(4);
  BlockLimits limits = kLimits;
  limits.sequences = 5;
  limits.wanted_rows = 5;
  limits.micro_batch_sequences = 1;
  limits.in_halves = true;
  const Block block = compose(std::vector{&a, &b, &c, &d, &e}, limits, no_staging);
  ASSERT_EQ(block.micro_batches.size(), 5u);
  ASSERT_EQ(block.halves.size(), 2u);  // 21 keys, and 4 + 10 + 6
  EXPECT_EQ(block.halves[0].num_micro_batches, 1u);
  EXPECT_EQ(block.halves[0].rows, 1);
  EXPECT_EQ(block.halves[1].first_micro_batch, 1u);
  EXPECT_EQ(block.halves[1].num_micro_batches, 4u);
  EXPECT_EQ(block.halves[1].first_row, 1);
  EXPECT_EQ(block.halves[1].rows, 3 + 4);
}

TEST(Compose, GivesEachHalfItsShareOfThePromptsAfterItsAnswers) {
  Sequence a = decoding(4, {1}), b = decoding(4, {2}), c = prompt_of(6), d = prompt_of(2);
  Sequence e = prompt_of(4);
  BlockLimits limits{.sequences = 5, .micro_batch_sequences = 8, .rows = 14, .wanted_rows = 5};
  limits.in_halves = true;
  const Block block = compose(std::vector{&a, &c, &d, &b, &e}, limits, no_staging);
  std::vector<Sequence*> order;
  for (const Block::Member& member : block.members) order.push_back(member.sequence);
  EXPECT_THAT(order, ElementsAre(&a, &c, &b, &d, &e));
  EXPECT_THAT(block.wanted, ElementsAre(0, 6, 7, 9, 13));
  ASSERT_EQ(block.halves.size(), 2u);
  const Block::Half& second = block.halves[1];
  EXPECT_EQ(second.first_row, 7);
  EXPECT_EQ(second.rows, 7);
  EXPECT_EQ(second.first_answer, 1);
  EXPECT_EQ(second.answers, 1);
  limits.in_halves = false;
  EXPECT_EQ(compose(std::vector{&a, &c, &d, &b, &e}, limits, no_staging).members[1].sequence, &b);
}

TEST(Compose, KeepsABlockWholeThatHasNoAnswersOrCantBeCut) {
  Sequence a = prompt_of(3), b = prompt_of(3), c = prompt_of(3), d = decoding(1, {1});
  BlockLimits limits = kLimits;
  limits.in_halves = true;
  for (const auto& live : {std::vector{&a, &b, &c}, std::vector{&d, &a}}) {
    const Block block = compose(live, limits, no_staging);
    ASSERT_EQ(block.halves.size(), 1u);
    EXPECT_EQ(block.halves[0].num_micro_batches, block.micro_batches.size());
    EXPECT_EQ(block.halves[0].rows, block.rows());
  }
  limits.in_halves = false;
  EXPECT_EQ(compose(std::vector{&d, &a, &b}, limits, no_staging).halves.size(), 1u);
}

TEST(Compose, AlwaysMakesProgressUntilEveryPromptIsThrough) {
  for (const int rows : {4, 5, 7}) {
    BlockLimits limits = kLimits;
    limits.rows = rows;
    std::vector<Sequence> sequences;
    for (int i = 0; i < 4; ++i) {
      sequences.push_back(prompt_of(1 + 6 * i, /*max_tokens=*/i % 2 * 3));
      sequences.back().request.prompt_logprobs = i >= 2;
    }
    std::vector<Sequence*> live;
    for (Sequence& s : sequences) live.push_back(&s);
    for (int sweep = 0; !live.empty(); ++sweep) {
      ASSERT_LT(sweep, 100);
      const Block block = compose(live, limits, no_staging);
      ASSERT_GT(block.rows(), 0);
      ASSERT_LE(block.rows(), rows);
      ASSERT_LE(block.wanted.size(), 4u);
      for (const Block::Member& m : block.members) {
        m.sequence->fed += m.rows;
        if (m.sequence->prompt_left() == 0) m.sequence->answer.push_back(1);
      }
      std::erase_if(live, [](Sequence* s) { return s->fed >= s->final_positions(); });
    }
  }
}

TEST(Compose, LetsTheDeviceDrawForRequestsThatWantNothingButTokens) {
  const std::function<void(GenerationRequest&)> kNotPlain[] = {
      [](auto& r) { r.sampling.logprobs = 0; },
      [](auto& r) { r.sampling.presence_penalty = 1; },
      [](auto& r) { r.sampling.frequency_penalty = 1; },
      [](auto& r) {
        r.sampling.logit_bias = {{3, 1.0f}};
      },
      [](auto& r) { r.forced = {3}; },
      [](auto& r) { r.prompt_logprobs = true; },
      [](auto& r) { r.on_logits = [](const float*, int) {}; }};
  BlockLimits limits = kLimits;
  limits.device_draws = true;
  for (const auto& change : kNotPlain) {
    Sequence a = decoding(3, {8, 9}), b = decoding(2, {5});
    a.request.sampling = {.temperature = 0.5f, .top_p = 0.25f, .top_k = 7, .seed = 42, .choice = 1};
    change(b.request);
    const Block block = compose(std::vector{&a, &b}, limits, no_staging);
    ASSERT_EQ(block.draws.size(), 2u);
    ASSERT_TRUE(block.draws[0]);
    EXPECT_EQ(block.draws[0]->temperature, 0.5f);
    EXPECT_EQ(block.draws[0]->top_p, 0.25f);
    EXPECT_EQ(block.draws[0]->top_k, 7);
    EXPECT_EQ(block.draws[0]->uniform, uniform(42, 1, 2));  // the answer's third token
    EXPECT_FALSE(block.draws[1]);
    EXPECT_FALSE(compose(std::vector{&a}, kLimits, no_staging).draws[0]);
  }
}

}  // namespace
}  // namespace barge
