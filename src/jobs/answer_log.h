#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/errors.h"
#include "jobs/answer_file.h"
#include "jobs/answer_identity.h"
#include "jobs/job_store.h"

namespace barge {

/// The answers of one job: its output and error files, and the store's record of them, in step.
/// What is added is in memory until `record`. For one thread; everything throws IoError.
class AnswerLog {
 public:
  /// What `record` wrote, or what was there before.
  struct Counts {
    std::int64_t completed = 0, failed = 0, not_run = 0;  // lines
    std::int64_t prompt_tokens = 0, generated_tokens = 0;
  };

  /// `errors` may be `output`: all lines go there then. Keeps and records whole lines that a killed
  /// process wrote and didn't live to record.
  AnswerLog(JobStore& store, const JobRecord& job, const std::filesystem::path& output,
            const std::filesystem::path& errors);

  /// Whether an earlier run answered this line (1-based).
  bool answered(std::size_t line) const { return line < answered_.size() && answered_[line]; }
  /// Of completed lines and failed ones, when this was made.
  const Counts& before() const { return before_; }

  /// Part of all ids of this line's answer.
  std::string name(std::int64_t line) const { return identity_.name(line); }
  void add(const AnswerRecord& record, const std::string& custom_id,
           const nlohmann::ordered_json& body);
  /// An HTTP error.
  void add_error(std::int64_t line, const std::optional<std::string>& custom_id,
                 const RequestError& error);
  /// The line isn't run at all.
  void add_not_run(std::int64_t line, const std::optional<std::string>& custom_id,
                   std::string_view code, std::string_view message);

  std::size_t unrecorded() const { return records_.size(); }
  /// Files first, then the store: what it says is answered is on the disk.
  Counts record();

 private:
  std::function<bool(std::string_view)> adopter();
  AnswerFile& error_file() { return errors_ ? *errors_ : output_; }

  JobStore& store_;
  const std::string job_id_;
  const AnswerIdentity identity_;
  std::vector<bool> answered_;         // by line number
  std::vector<AnswerRecord> records_;  // in the files, not recorded yet
  AnswerFile output_;
  std::optional<AnswerFile> errors_;
  Counts before_;
};

}  // namespace barge
