#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "jobs/job_store.h"

namespace barge {

/// Ties the lines of an answer file to the job that wrote them, so that whole lines which a killed
/// process didn't live to record are known again.
class AnswerIdentity {
 public:
  explicit AnswerIdentity(const JobRecord& job) : job_id_(job.id), created_at_(job.created_at) {}

  /// 32 hexadecimal digits: a hash of job and line, and the line's number. The same in every run
  /// of the job; the line's id is "batch_req_" and this.
  std::string name(std::int64_t line) const;
  std::string line_id(std::int64_t line) const { return "batch_req_" + name(line); }

  /// What to record of `text`, a line of an answer file; none if it isn't a whole one of this job.
  std::optional<AnswerRecord> recognize(std::string_view text) const;

 private:
  std::string job_id_;
  std::int64_t created_at_;
};

/// 16 hexadecimal digits, as "logits_hash" stands in an answer's body.
std::string hash_text(std::uint64_t hash);

}  // namespace barge
