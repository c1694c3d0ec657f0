// Files' records in the job store.
#include "jobs/job_store.h"
#include "jobs/job_store_impl.h"

namespace barge {
namespace {

FileRecord read_file(Statement& row) {
  return {row.text(0),    row.text(1), row.text(2),         row.integer(3),
          row.integer(4), row.text(5), row.maybe_integer(6)};
}

}  // namespace

void JobStore::add_file(const FileRecord& file) {
  const std::lock_guard lock(impl_->mutex);
  impl_->insert_file(file);
}

std::optional<FileRecord> JobStore::file(const std::string& id) {
  const std::lock_guard lock(impl_->mutex);
  Statement row(impl_->db, "SELECT * FROM files WHERE id = ?");
  if (!row.bind(id).step()) return std::nullopt;
  return read_file(row);
}

std::vector<FileRecord> JobStore::files() {
  const std::lock_guard lock(impl_->mutex);
  Statement row(impl_->db, "SELECT * FROM files ORDER BY created_at DESC, rowid DESC");
  std::vector<FileRecord> files;
  while (row.step()) files.push_back(read_file(row));
  return files;
}

bool JobStore::remove_file(const std::string& id) {
  const std::lock_guard lock(impl_->mutex);
  Statement(impl_->db, "DELETE FROM files WHERE id = ?").bind(id).run();
  return sqlite3_changes(impl_->db.handle()) > 0;
}

std::vector<std::string> JobStore::remove_expired_files(std::int64_t now) {
  const std::lock_guard lock(impl_->mutex);
  Statement row(impl_->db,
                concat("DELETE FROM files WHERE expires_at <= ? AND id NOT IN ",
                       "(SELECT input_file_id FROM jobs WHERE ", kUnfinished, ") RETURNING id")
                    .c_str());
  return Impl::ids(row.bind(now));
}

std::vector<std::string> JobStore::remove_files_of_jobs(std::int64_t until) {
  const std::lock_guard lock(impl_->mutex);
  // A file may be the input of several jobs; COALESCE is null for one that goes on.
  Statement row(impl_->db,
                "WITH uses(file, ended) AS ("
                "  SELECT f.value, COALESCE(completed_at, failed_at, cancelled_at,"
                "    CASE status WHEN 'expired' THEN expired_at END)"
                "  FROM jobs, json_each(json_array(input_file_id, output_file_id, error_file_id)) f"
                "  WHERE f.value IS NOT NULL) "
                "DELETE FROM files WHERE id IN (SELECT file FROM uses GROUP BY file"
                "  HAVING COUNT(*) = COUNT(ended) AND MAX(ended) <= ?) RETURNING id");
  return Impl::ids(row.bind(until));
}

std::int64_t JobStore::stored_bytes() {
  const std::lock_guard lock(impl_->mutex);
  Statement row(impl_->db, concat("SELECT (SELECT COALESCE(SUM(bytes), 0) FROM files) + ",
                                  "(SELECT COALESCE(SUM(output_bytes + error_bytes), 0) FROM jobs ",
                                  "WHERE ", kUnfinished, ")")
                               .c_str());
  row.step();
  return row.integer(0);
}

}  // namespace barge
