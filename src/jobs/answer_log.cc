#include "jobs/answer_log.h"

#include "jobs/completion_response.h"

namespace barge {

AnswerLog::AnswerLog(JobStore& store, const JobRecord& job, const std::filesystem::path& output,
                     const std::filesystem::path& errors)
    : store_(store),
      job_id_(job.id),
      identity_(job),
      answered_(store.answered_lines(job.id)),
      output_(output, job.output_bytes, adopter()) {
  if (errors != output) errors_.emplace(errors, job.error_bytes, adopter());
  before_ = records_.empty() ? Counts{} : record();  // what was adopted
  before_.completed += job.completed;
  before_.failed += job.failed;
}

void AnswerLog::add(const AnswerRecord& record, const std::string& custom_id,
                    const nlohmann::ordered_json& body) {
  output_.append(answer_line(identity_.line_id(record.line), custom_id, record.status,
                             "req_" + name(record.line), body));
  records_.push_back(record);
}

void AnswerLog::add_error(std::int64_t line, const std::optional<std::string>& custom_id,
                          const RequestError& error) {
  error_file().append(answer_line(identity_.line_id(line), custom_id, error.status,
                                  "req_" + name(line), error_body(error)));
  records_.push_back({.line = line, .status = error.status});
}

void AnswerLog::add_not_run(std::int64_t line, const std::optional<std::string>& custom_id,
                            std::string_view code, std::string_view message) {
  error_file().append(not_run_line(identity_.line_id(line), custom_id, code, message));
  records_.push_back({.line = line, .status = AnswerRecord::kNotRun});
}

AnswerLog::Counts AnswerLog::record() {
  output_.sync();
  if (errors_) errors_->sync();
  store_.record_answers(job_id_, records_, output_.bytes(), errors_ ? errors_->bytes() : 0);
  Counts counts;
  for (const AnswerRecord& record : records_) {
    ++(record.status == 200                     ? counts.completed
       : record.status == AnswerRecord::kNotRun ? counts.not_run
                                                : counts.failed);
    counts.prompt_tokens += record.prompt_tokens;
    counts.generated_tokens += record.generated_tokens;
  }
  records_.clear();
  return counts;
}

// For whole lines behind those that are recorded.
std::function<bool(std::string_view)> AnswerLog::adopter() {
  return [this](std::string_view text) {
    const auto record = identity_.recognize(text);
    if (!record) return false;
    const auto line = static_cast<std::size_t>(record->line);
    if (line >= answered_.size()) answered_.resize(line + 1);
    if (answered_[line]) return false;
    answered_[line] = true;
    records_.push_back(*record);
    return true;
  };
}

}  // namespace barge
