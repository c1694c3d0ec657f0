#include "jobs/job_store.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "jobs/job_store_impl.h"

namespace barge {
namespace {

constexpr std::array kStatusNames = {"validating", "in_progress", "finalizing", "completed",
                                     "failed",     "cancelling",  "cancelled",  "expired"};

constexpr const char* kJobColumns =
    "SELECT id, endpoint, input_file_id, completion_window, metadata, status, model, "
    "output_file_id, error_file_id, errors, identity, created_at, in_progress_at, finalizing_at, "
    "completed_at, failed_at, total, completed, failed, prompt_tokens, generated_tokens, "
    "output_bytes, error_bytes, logits_hash, cancelling_at, cancelled_at, owner, "
    "expires_at, expired_at, output_lifetime FROM jobs ";

JobStatus status_of(const std::string& name) {
  for (std::size_t i = 0; i < kStatusNames.size(); ++i)
    if (name == kStatusNames[i]) return static_cast<JobStatus>(i);
  throw FormatError(concat("the job store holds an unknown status '", name, "'"));
}

JobRecord read_job(Statement& row) {
  JobRecord job;
  int column = 0;
  job.id = row.text(column++);
  job.endpoint = row.text(column++);
  job.input_file_id = row.text(column++);
  job.completion_window = row.text(column++);
  job.metadata_json = row.text(column++);
  job.status = status_of(row.text(column++));
  job.model = row.maybe_text(column++);
  job.output_file_id = row.maybe_text(column++);
  job.error_file_id = row.maybe_text(column++);
  job.errors_json = row.text(column++);
  job.identity = nlohmann::json::parse(row.text(column++)).get<Identity>();
  job.created_at = row.integer(column++);
  job.in_progress_at = row.maybe_integer(column++);
  job.finalizing_at = row.maybe_integer(column++);
  job.completed_at = row.maybe_integer(column++);
  job.failed_at = row.maybe_integer(column++);
  for (std::int64_t* field : {&job.total, &job.completed, &job.failed, &job.prompt_tokens,
                              &job.generated_tokens, &job.output_bytes, &job.error_bytes})
    *field = row.integer(column++);
  job.logits_hash = static_cast<std::uint64_t>(row.integer(column++));
  job.cancelling_at = row.maybe_integer(column++);
  job.cancelled_at = row.maybe_integer(column++);
  job.owner = row.text(column++);
  job.expires_at = row.maybe_integer(column++);
  job.expired_at = row.maybe_integer(column++);
  job.output_lifetime = row.maybe_integer(column++);
  return job;
}

std::string identity_text(const Identity& identity) {
  return nlohmann::json(identity).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

const char* status_name(JobStatus status) { return kStatusNames[static_cast<std::size_t>(status)]; }

bool is_terminal(JobStatus status) {
  return status == JobStatus::kCompleted || status == JobStatus::kFailed ||
         status == JobStatus::kCancelled || status == JobStatus::kExpired;
}

bool is_cut_short(const JobRecord& job) {
  return job.status == JobStatus::kCancelling ||
         (job.status == JobStatus::kFinalizing && job.expired_at);
}

std::string differences(const Identity& was, const Identity& is) {
  const auto word = [](const Identity& identity, const std::string& name) {
    const auto found = identity.find(name);
    return found == identity.end() || found->second.empty() ? "unset" : found->second;
  };
  Identity names = was;
  names.insert(is.begin(), is.end());
  std::string text;
  for (const auto& [name, value] : names)
    if (word(was, name) != word(is, name))
      text += concat("\n  ", name, ": was ", word(was, name), ", is ", word(is, name));
  return text;
}

JobStore::JobStore(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
JobStore::~JobStore() = default;

void JobStore::add_job(const JobRecord& job) {
  const std::lock_guard lock(impl_->mutex);
  Statement(impl_->db,
            "INSERT INTO jobs (id, endpoint, input_file_id, completion_window, metadata, status, "
            "model, output_file_id, error_file_id, errors, identity, created_at, in_progress_at, "
            "finalizing_at, completed_at, failed_at, total, owner, expires_at, output_lifetime) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(job.id, job.endpoint, job.input_file_id, job.completion_window, job.metadata_json,
            std::string(status_name(job.status)), job.model, job.output_file_id, job.error_file_id,
            job.errors_json, identity_text(job.identity), job.created_at, job.in_progress_at,
            job.finalizing_at, job.completed_at, job.failed_at, job.total, job.owner,
            job.expires_at, job.output_lifetime)
      .run();
}

std::optional<JobRecord> JobStore::job(const std::string& id) {
  const std::lock_guard lock(impl_->mutex);
  Statement row(impl_->db, concat(kJobColumns, "WHERE id = ?").c_str());
  if (!row.bind(id).step()) return std::nullopt;
  return read_job(row);
}

std::vector<JobRecord> JobStore::jobs() {
  const std::lock_guard lock(impl_->mutex);
  Statement row(impl_->db, concat(kJobColumns, "ORDER BY created_at DESC, rowid DESC").c_str());
  std::vector<JobRecord> jobs;
  while (row.step()) jobs.push_back(read_job(row));
  return jobs;
}

std::vector<std::string> JobStore::unfinished() {
  const std::lock_guard lock(impl_->mutex);
  Statement row(
      impl_->db,
      concat("SELECT id FROM jobs WHERE ", kUnfinished, " ORDER BY created_at, rowid").c_str());
  return Impl::ids(row);
}

std::optional<std::string> JobStore::reader_of(const std::string& file_id) {
  const std::lock_guard lock(impl_->mutex);
  Statement row(impl_->db,
                concat("SELECT id FROM jobs WHERE input_file_id = ? AND ", kUnfinished).c_str());
  if (!row.bind(file_id).step()) return std::nullopt;
  return row.text(0);
}

std::optional<JobRecord> JobStore::cancel_job(const std::string& id, std::int64_t now) {
  {
    const std::lock_guard lock(impl_->mutex);
    Statement(impl_->db,
              "UPDATE jobs SET status = 'cancelling', cancelling_at = ? "
              "WHERE id = ? AND status IN ('validating', 'in_progress')")
        .bind(now, id)
        .run();
  }
  return job(id);
}

std::vector<std::string> JobStore::expire_jobs(std::int64_t now) {
  const std::lock_guard lock(impl_->mutex);
  Statement row(impl_->db,
                "UPDATE jobs SET status = 'finalizing', finalizing_at = ?, expired_at = ? "
                "WHERE status IN ('validating', 'in_progress') AND expires_at <= ? RETURNING id");
  return Impl::ids(row.bind(now, now, now));
}

bool JobStore::update_job(const JobRecord& job, JobStatus was, std::span<const FileRecord> files) {
  const std::lock_guard lock(impl_->mutex);
  Sqlite::Transaction transaction(impl_->db);
  Statement(impl_->db,
            "UPDATE jobs SET status = ?, model = ?, output_file_id = ?, error_file_id = ?, "
            "errors = ?, identity = ?, in_progress_at = ?, finalizing_at = ?, completed_at = ?, "
            "failed_at = ?, total = ?, cancelling_at = ?, cancelled_at = ?, expired_at = ? "
            "WHERE id = ? AND status = ?")
      .bind(std::string(status_name(job.status)), job.model, job.output_file_id, job.error_file_id,
            job.errors_json, identity_text(job.identity), job.in_progress_at, job.finalizing_at,
            job.completed_at, job.failed_at, job.total, job.cancelling_at, job.cancelled_at,
            job.expired_at, job.id, std::string(status_name(was)))
      .run();
  if (sqlite3_changes(impl_->db.handle()) == 0) return false;
  for (const FileRecord& file : files) impl_->insert_file(file);
  if (is_terminal(job.status))  // nobody asks which lines are answered any more
    Statement(impl_->db, "DELETE FROM answers WHERE job = ?").bind(job.id).run();
  transaction.commit();
  return true;
}

void JobStore::remove_job(const std::string& id) {
  const std::lock_guard lock(impl_->mutex);
  Sqlite::Transaction transaction(impl_->db);
  Statement(impl_->db, "DELETE FROM answers WHERE job = ?").bind(id).run();
  Statement(impl_->db, "DELETE FROM jobs WHERE id = ?").bind(id).run();
  transaction.commit();
}

void JobStore::record_answers(const std::string& job_id, std::span<const AnswerRecord> answers,
                              std::int64_t output_bytes, std::int64_t error_bytes) {
  const std::lock_guard lock(impl_->mutex);
  Sqlite::Transaction transaction(impl_->db);
  Statement insert(impl_->db, "INSERT INTO answers VALUES (?, ?, ?)");
  std::int64_t completed = 0, failed = 0, prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t hash = 0;
  for (const AnswerRecord& answer : answers) {
    insert.bind(job_id, answer.line, answer.status).run();
    completed += answer.status == 200;
    failed += answer.status != 200 && answer.status != AnswerRecord::kNotRun;
    prompt_tokens += answer.prompt_tokens;
    generated_tokens += answer.generated_tokens;
    hash ^= answer.logits_hash;
  }
  Statement(impl_->db,
            "UPDATE jobs SET completed = completed + ?, failed = failed + ?, "
            "prompt_tokens = prompt_tokens + ?, generated_tokens = generated_tokens + ?, "
            "output_bytes = ?, error_bytes = ?, "
            "logits_hash = (logits_hash | ?) - (logits_hash & ?) WHERE id = ?")
      .bind(completed, failed, prompt_tokens, generated_tokens, output_bytes, error_bytes,
            static_cast<std::int64_t>(hash), static_cast<std::int64_t>(hash), job_id)
      .run();
  transaction.commit();
}

std::vector<bool> JobStore::answered_lines(const std::string& job_id) {
  const std::lock_guard lock(impl_->mutex);
  std::vector<bool> lines(1);
  Statement row(impl_->db, "SELECT line FROM answers WHERE job = ? ORDER BY line");
  row.bind(job_id);
  while (row.step()) {
    const auto line = static_cast<std::size_t>(row.integer(0));
    if (line >= lines.size()) lines.resize(std::max(line + 1, lines.size() * 2));
    lines[line] = true;
  }
  return lines;
}

}  // namespace barge
