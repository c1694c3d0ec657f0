#include "server/batch_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/errors.h"
#include "core/io_error.h"
#include "jobs/answer_file.h"

namespace barge {
namespace {

constexpr const char* kOutput = "output";
constexpr const char* kErrors = "error";

std::string id_of(const std::string& batch_id, const char* kind) {
  return derived_id("file-", batch_id + kind);
}

class Publisher {
 public:
  Publisher(const DataDirectory& directory, const JobRecord& job, std::int64_t now)
      : directory_(directory), job_(job), now_(now) {}

  std::optional<std::string> publish(const std::filesystem::path& partial, const char* kind,
                                     std::int64_t bytes) {
    if (bytes == 0) {
      std::error_code ignored;  // it was perhaps not begun, and it is empty
      std::filesystem::remove(partial, ignored);
      return std::nullopt;
    }
    FileRecord file{.id = id_of(job_.id, kind), .purpose = "batch_output"};
    file.filename = job_.id + '_' + kind + ".jsonl";
    file.bytes = bytes;
    file.owner = job_.owner;
    file.created_at = now_;
    if (job_.output_lifetime) file.expires_at = now_ + *job_.output_lifetime;
    move(partial, directory_.file(file.id));
    files.push_back(file);
    return file.id;
  }

  std::vector<FileRecord> files;

 private:
  static void move(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::error_code error;
    std::filesystem::rename(from, to, error);
    if (error && !std::filesystem::exists(to))
      throw_io_error(concat("cannot move ", from.string(), " to ", to.string()), error.value());
  }

  const DataDirectory& directory_;
  const JobRecord& job_;
  const std::int64_t now_;
};

}  // namespace

std::vector<FileRecord> publish_files(const DataDirectory& directory, JobRecord& job,
                                      std::int64_t now) {
  Publisher publisher(directory, job, now);
  job.output_file_id =
      publisher.publish(directory.partial_output(job.id), kOutput, job.output_bytes);
  job.error_file_id = publisher.publish(directory.partial_errors(job.id), kErrors, job.error_bytes);
  sync_directory(directory.files());
  return std::move(publisher.files);
}

bool is_published(const DataDirectory& directory, const JobRecord& job) {
  return std::ranges::any_of(file_ids_of(job.id), [&](const std::string& id) {
    return std::filesystem::exists(directory.file(id));
  });
}

std::vector<std::string> file_ids_of(const std::string& batch_id) {
  return {id_of(batch_id, kOutput), id_of(batch_id, kErrors)};
}

}  // namespace barge
