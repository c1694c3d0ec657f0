#include "jobs/run_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/fake_generator.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using nlohmann::json;
using test::FakeGenerator;
using test::read_file;
using test::write_file;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string line(int i, const json& extra = json::object()) {
  json body = {{"model", "m"}, {"prompt", concat("prompt ", i)}, {"max_tokens", 8 + i % 30}};
  body.update(extra);
  return json{{"custom_id", concat("id-", i)},
              {"method", "POST"},
              {"url", "/v1/completions"},
              {"body", body}}
             .dump() +
         "\n";
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line(i);
  return text;
}

class RunJob : public testing::Test {
 protected:
  RunJob() {
    options_.input = directory_ / "in.jsonl";
    options_.output = directory_ / "out.jsonl";
    options_.identity = {{"model", "abc"}, {"dtype", "float32"}};
    options_.lookahead = {.least = 7, .most = 7};
  }

  RunSummary run(FakeGenerator& generator,
                 const std::function<void(const JobProgress&)>& progress = {}) {
    return run_job(generator, options_, progress, stop_);
  }
  RunSummary run() {
    FakeGenerator generator;
    return run(generator);
  }

  // Output lines by custom_id ("" for null); fails the test where one comes twice.
  std::map<std::string, json> answers() const {
    std::map<std::string, json> found;
    std::ifstream file(options_.output);
    for (std::string text; std::getline(file, text);) {
      const json answer = json::parse(text);
      const std::string id = answer["custom_id"].is_null() ? "" : answer["custom_id"];
      EXPECT_TRUE(found.emplace(id, answer).second) << id << " was answered twice";
    }
    return found;
  }
  // Their texts, "" for errors.
  std::map<std::string, std::string> texts() const {
    std::map<std::string, std::string> found;
    for (const auto& [id, answer] : answers())
      found[id] = answer["response"]["status_code"] == 200
                      ? answer["response"]["body"]["choices"][0]["text"].get<std::string>()
                      : "";
    return found;
  }

  test::TempDirectory directory_;
  RunOptions options_;
  std::atomic<bool> stop_{false};
};

TEST_F(RunJob, AnswersEveryLineOnce) {
  write_file(options_.input, lines(23));
  JobProgress last;
  FakeGenerator generator;
  const RunSummary summary = run(generator, [&](const JobProgress& now) { last = now; });
  EXPECT_EQ(summary.lines, 23);
  EXPECT_EQ(summary.completed, 23);
  EXPECT_EQ(summary.failed, 0);
  EXPECT_EQ(summary.resumed, 0);
  EXPECT_FALSE(summary.already_complete || summary.stopped);
  EXPECT_GT(summary.generated_tokens, 23 * 8);
  EXPECT_NE(summary.logits_hash, 0u);
  EXPECT_EQ(last.completed, 23);
  EXPECT_EQ(last.seconds_left, 0);
  ASSERT_EQ(answers().size(), 23u);
  const json answer = answers()["id-5"];
  EXPECT_EQ(answer["response"]["status_code"], 200);
  EXPECT_TRUE(answer.at("error").is_null());
  TextRequest request{.prompt = std::string("prompt 5"), .max_tokens = 13};
  request.sampling.seed = derived_seed(0, "id-5");
  EXPECT_EQ(answer["response"]["body"]["choices"][0]["text"], FakeGenerator::answer(request));
}

TEST_F(RunJob, AnswersTheSameWhateverTheWindowAndTheOrderOfLines) {
  write_file(options_.input, lines(11));
  const RunSummary first = run();
  const auto wanted = texts();
  std::string reversed;
  for (int i = 10; i >= 0; --i) reversed += line(i);
  write_file(options_.input, reversed);
  options_.output = directory_ / "other.jsonl";
  options_.lookahead = {.least = 1, .most = 1};
  EXPECT_EQ(run().logits_hash, first.logits_hash);
  EXPECT_EQ(texts(), wanted);
}

TEST_F(RunJob, HandsOverAsManyLinesAsTheLookaheadSays) {
  write_file(options_.input, lines(40));
  const std::size_t bytes = line(10).size();
  // At least 2, at most 9, between them while lines have fewer bytes than these.
  for (const auto& [line_bytes, wanted] :
       {std::pair{std::size_t{1}, 2}, {7 * bytes / 2, 4}, {100 * bytes, 9}}) {
    options_.lookahead = {.least = 2, .most = 9, .line_bytes = line_bytes};
    options_.overwrite = true;
    FakeGenerator generator;
    generator.pause_after(0);
    int handed_over = 0, before_the_first_answer = 0;
    generator.on_submit = [&](const std::string&) { ++handed_over; };
    EXPECT_EQ(run(generator,
                  [&](const JobProgress&) {
                    if (before_the_first_answer == 0) before_the_first_answer = handed_over;
                    generator.resume();
                  })
                  .completed,
              40);
    EXPECT_EQ(before_the_first_answer, wanted);
  }
}

TEST_F(RunJob, AnswersBadLinesWithErrorsAndRunsTheRest) {
  write_file(options_.input, line(0) + "nonsense\n" + line(1, {{"temperature", "hot"}}) + "\n" +
                                 line(2, {{"prompt", "TOO LONG"}}) +
                                 line(3, {{"prompt", "EXPLODE"}}) + line(4));
  const RunSummary summary = run();
  EXPECT_EQ(summary.lines, 6);
  EXPECT_EQ(summary.completed, 2);
  EXPECT_EQ(summary.failed, 4);
  auto found = answers();
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[""]["response"]["body"]["error"]["code"], "invalid_json_line");
  EXPECT_EQ(found["id-1"]["response"]["status_code"], 400);
  EXPECT_EQ(found["id-1"]["response"]["body"]["error"]["param"], "temperature");
  EXPECT_EQ(found["id-2"]["response"]["body"]["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(found["id-3"]["response"]["status_code"], 500);
  EXPECT_TRUE(run().already_complete);
}

TEST_F(RunJob, AnswersTheFirstOfTwoLinesWithOneCustomId) {
  write_file(options_.input, line(0) + line(0, {{"prompt", "again"}}));
  const RunSummary summary = run();
  EXPECT_EQ(summary.completed, 1);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_THAT(read_file(options_.output), HasSubstr("duplicate_custom_id"));
}

TEST_F(RunJob, RefusesBadLinesWhereStrict) {
  write_file(options_.input, line(0) + "nonsense\n" + line(0));
  options_.strict = true;
  EXPECT_THAT([&] { run(); }, ThrowsMessage<FormatError>(
                                  testing::AllOf(HasSubstr("2 bad lines"), HasSubstr("line 2: "),
                                                 HasSubstr("line 3: The custom_id 'id-0'"))));
  EXPECT_FALSE(std::filesystem::exists(options_.output));
  write_file(options_.input, line(0));
  EXPECT_EQ(run().completed, 1);
}

TEST_F(RunJob, SaysThatACompleteJobIsComplete) {
  write_file(options_.input, lines(3));
  EXPECT_FALSE(check_job(options_));
  run();
  EXPECT_TRUE(check_job(options_));
  const std::string before = read_file(options_.output);
  FakeGenerator generator;
  generator.on_submit = [](const std::string& prompt) { FAIL() << prompt << " was run again"; };
  const RunSummary summary = run(generator);
  EXPECT_TRUE(summary.already_complete);
  EXPECT_EQ(summary.completed, 3);
  EXPECT_EQ(summary.resumed, 3);
  EXPECT_EQ(read_file(options_.output), before);
}

TEST_F(RunJob, CompletesAnEmptyFile) {
  write_file(options_.input, "\n");
  EXPECT_EQ(run().lines, 0);
  EXPECT_EQ(read_file(options_.output), "");
  EXPECT_TRUE(run().already_complete);
}

TEST_F(RunJob, KeepsWholeAnswersWhenStoppedAndGoesOnLater) {
  write_file(options_.input, lines(23));
  {
    FakeGenerator generator;
    const RunSummary summary = run(generator, [&](const JobProgress& now) {
      if (now.completed >= 6) stop_ = true;
    });
    EXPECT_TRUE(summary.stopped);
    EXPECT_GE(summary.completed, 6);
    EXPECT_LT(summary.completed, 23);
    EXPECT_EQ(generator.num_waiting(), 0u);
    EXPECT_EQ(static_cast<std::int64_t>(answers().size()), summary.completed);
  }
  stop_ = false;
  const RunSummary summary = run();
  EXPECT_GE(summary.resumed, 6);
  EXPECT_EQ(summary.completed, 23);
  EXPECT_EQ(answers().size(), 23u);
}

TEST_F(RunJob, StopsAlsoWhileTheGeneratorKeepsSilent) {
  write_file(options_.input, lines(5));
  FakeGenerator generator;
  generator.pause_after(0);
  int submitted = 0;
  generator.on_submit = [&](const std::string&) { stop_ = ++submitted == 5; };
  EXPECT_TRUE(run(generator).stopped);
}

TEST_F(RunJob, EndsWithWhatIsDoneWhenTheEngineBreaks) {
  write_file(options_.input, lines(23));
  {
    FakeGenerator generator({.per_sweep = 3, .fail_after = 10});
    EXPECT_THAT([&] { run(generator); }, ThrowsMessage<Error>(HasSubstr("the disk is gone")));
  }
  for (const auto& [id, answer] : answers()) EXPECT_EQ(answer["response"]["status_code"], 200);
  EXPECT_EQ(run().completed, 23);
  EXPECT_EQ(answers().size(), 23u);
}

TEST_F(RunJob, RefusesToGoOnWithWhatWouldAnswerDifferently) {
  write_file(options_.input, lines(3));
  run();
  const std::string before = read_file(options_.output);
  const RunOptions good = options_;
  options_.identity["dtype"] = "bfloat16";
  options_.identity["template"] = "x";
  EXPECT_THAT([&] { run(); },
              ThrowsMessage<ConfigError>(testing::AllOf(
                  HasSubstr("dtype: was float32, is bfloat16"), HasSubstr("template: was unset"),
                  testing::Not(HasSubstr("model")))));
  options_ = good;
  options_.seed = 4;
  EXPECT_THAT([&] { check_job(options_); }, ThrowsMessage<ConfigError>(HasSubstr("seed: was 0")));
  options_ = good;
  write_file(options_.input, lines(4));
  EXPECT_THAT([&] { run(); }, ThrowsMessage<ConfigError>(HasSubstr("input: was")));
  EXPECT_EQ(read_file(options_.output), before);
  options_.overwrite = true;
  EXPECT_EQ(run().completed, 4);
}

TEST_F(RunJob, RefusesToWriteOverOtherPeoplesFiles) {
  write_file(options_.input, lines(3));
  write_file(options_.output, "precious");
  EXPECT_THROW(run(), ConfigError);
  EXPECT_EQ(read_file(options_.output), "precious");
  write_file(options_.output, "");  // as mktemp leaves it
  EXPECT_EQ(run().completed, 3);
  const RunOptions good = options_;
  options_.output = options_.input;
  EXPECT_THAT([&] { run(); }, ThrowsMessage<ConfigError>(HasSubstr("same file")));
  options_.output = "/dev/null";
  EXPECT_THROW(run(), ConfigError);
  options_.output = directory_ / "no" / "out";
  EXPECT_THROW(run(), ConfigError);
  options_ = good;
  options_.input = directory_ / "nothing";
  EXPECT_THROW(run(), IoError);
}

TEST_F(RunJob, StartsAgainWhereTheOutputIsGone) {
  write_file(options_.input, lines(3));
  run();
  std::filesystem::remove(options_.output);
  options_.identity["dtype"] = "bfloat16";
  const RunSummary summary = run();
  EXPECT_FALSE(summary.already_complete);
  EXPECT_EQ(answers().size(), 3u);
}

TEST_F(RunJob, NoticesThatTheOutputWasCutShort) {
  write_file(options_.input, lines(3));
  run();
  std::filesystem::resize_file(options_.output, 20);
  EXPECT_THAT([&] { run(); }, ThrowsMessage<ConfigError>(HasSubstr("20 bytes")));
}

// How often each prompt was handed to the generator, counted across processes.
class SharedCounts {
 public:
  static constexpr int kMax = 64;
  SharedCounts()
      : counts_(static_cast<int*>(mmap(nullptr, kMax * sizeof(int), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedCounts() { munmap(counts_, kMax * sizeof(int)); }
  void add(const std::string& prompt) { ++counts_[std::stoi(prompt.substr(7))]; }
  std::vector<int> copy() const { return {counts_, counts_ + kMax}; }

 private:
  int* counts_;
};

class RunJobKilled : public RunJob {
 protected:
  // Runs the job in a process of its own that `arm` prepares to kill itself.
  // True: it was killed; false: it finished.
  template <typename Arm>
  bool killed(SharedCounts& counts, const Arm& arm) {
    const pid_t child = fork();
    if (child == 0) {
      FakeGenerator generator;
      generator.on_submit = [&](const std::string& prompt) { counts.add(prompt); };
      std::function<void(const JobProgress&)> progress;
      arm(generator, progress);
      run_job(generator, options_, progress, stop_);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
                (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status);
  }

  // Lines whose answers are recorded, 0-based.
  std::set<int> recorded() const {
    const auto state = run_state_directory(options_.output) / "job.db";
    std::set<int> found;
    if (!std::filesystem::exists(state)) return found;
    const auto answered = JobStore(state).answered_lines("run");
    for (std::size_t i = 1; i < answered.size(); ++i)
      if (answered[i]) found.insert(static_cast<int>(i) - 1);
    return found;
  }

  // Kills the job again and again until it is done.
  template <typename Arm>
  void run_through_kills(const Arm& arm) {
    SharedCounts counts;
    int deaths = 0;
    for (;; ++deaths) {
      ASSERT_LE(deaths, 60);
      const auto done = recorded();
      const auto before = counts.copy();
      if (!killed(counts, arm)) break;
      const auto after = counts.copy();
      for (const int i : done) EXPECT_EQ(after[i], before[i]) << "line " << i << " ran again";
    }
    EXPECT_GT(deaths, 0);
  }
};

TEST_F(RunJobKilled, AnswersEachLineOnceWhereverItDiesAfterARecord) {
  write_file(options_.input, lines(23));
  run();
  const auto wanted = texts();
  // 7 at most are recorded together: 16 is the last that can't be skipped on the way to 23.
  for (int k = 1; k <= 16; k += 4) {
    options_.output = directory_ / concat("out-", k);
    run_through_kills([k](FakeGenerator&, auto& progress) {
      progress = [k, begun = std::int64_t{-1}](const JobProgress& now) mutable {
        if (begun < 0) begun = now.resumed;
        if (now.completed - begun >= k && now.completed < now.total) raise(SIGKILL);
      };
    });
    EXPECT_EQ(texts(), wanted) << "killed every " << k;
  }
}

TEST_F(RunJobKilled, AnswersEachLineOnceWhereverItDiesBetweenAnswerAndRecord) {
  write_file(options_.input, lines(23));
  run();
  const auto wanted = texts();
  for (int k = 5; k <= 23; k += 3) {  // 3 a sweep: at least one sweep is recorded each time
    options_.output = directory_ / concat("out-", k);
    SharedCounts counts;
    const bool died = killed(counts, [k](FakeGenerator& generator, auto&) {
      generator.before_done = [k, done = 0]() mutable {
        if (++done == k) raise(SIGKILL);
      };
    });
    EXPECT_TRUE(died);
    run();
    EXPECT_EQ(texts(), wanted) << "killed at answer " << k;
  }
}

TEST_F(RunJobKilled, RepairsALineThatWasWrittenInPart) {
  write_file(options_.input, lines(9));
  SharedCounts counts;
  ASSERT_TRUE(killed(counts, [](FakeGenerator&, auto& progress) {
    progress = [](const JobProgress& now) {
      if (now.completed >= 3) raise(SIGKILL);
    };
  }));
  std::ofstream(options_.output, std::ios::app) << line(8) << R"({"id":"batch_req_1","custom_)";
  EXPECT_EQ(run().completed, 9);
  EXPECT_EQ(answers().size(), 9u);
}

// The state of an earlier moment beside the output of a later one: as if the process had died
// between the two.
class RunJobUnrecorded : public RunJobKilled {
 protected:
  void run_and_forget_all_but(std::int64_t recorded) {
    write_file(options_.input, lines(23) + "nonsense\n");
    const auto state = run_state_directory(options_.output), copy = directory_ / "copy";
    FakeGenerator generator;
    whole_ = run(generator, [&](const JobProgress& now) {
      if (now.completed >= recorded && !std::filesystem::exists(copy))
        std::filesystem::copy(state, copy);
    });
    std::filesystem::remove_all(state);
    std::filesystem::rename(copy, state);
    EXPECT_LT(this->recorded().size(), 23u);
  }
  RunSummary whole_;
};

TEST_F(RunJobUnrecorded, KeepsWholeLinesThatNobodyRecorded) {
  run_and_forget_all_but(9);
  const std::string before = read_file(options_.output);
  FakeGenerator generator;
  generator.on_submit = [](const std::string& prompt) { FAIL() << prompt << " was run again"; };
  const RunSummary summary = run(generator);
  EXPECT_EQ(summary.completed, 23);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.resumed, 24);
  EXPECT_EQ(summary.logits_hash, whole_.logits_hash);
  EXPECT_EQ(read_file(options_.output), before);
}

TEST_F(RunJobUnrecorded, RepeatsOnlyTheLineThatWasCutShort) {
  run_and_forget_all_but(9);
  const auto wanted = texts();
  std::filesystem::resize_file(options_.output, std::filesystem::file_size(options_.output) - 10);
  int submitted = 0;
  FakeGenerator generator;
  generator.on_submit = [&](const std::string&) { ++submitted; };
  EXPECT_EQ(run(generator).completed, 23);
  EXPECT_LE(submitted, 1);
  EXPECT_EQ(texts(), wanted);
}

TEST_F(RunJobUnrecorded, KeepsNoLineOfAnotherJob) {
  run_and_forget_all_but(9);
  const std::string tail = read_file(options_.output);
  options_.output = directory_ / "second.jsonl";
  SharedCounts counts;
  ASSERT_TRUE(killed(counts, [](FakeGenerator&, auto& progress) {
    progress = [](const JobProgress& now) {
      if (now.completed >= 3) raise(SIGKILL);
    };
  }));
  // A line of the right shape with a wrong hash.
  std::string line = tail.substr(0, tail.find('\n') + 1);
  line[line.find("batch_req_") + 10] ^= 1;
  std::ofstream(options_.output, std::ios::app) << line;
  EXPECT_EQ(run().completed, 23);
  EXPECT_EQ(answers().size(), 24u);
}

}  // namespace
}  // namespace barge
