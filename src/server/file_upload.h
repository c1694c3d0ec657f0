#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "jobs/job_store.h"
#include "server/data_directory.h"
#include "server/data_quota.h"
#include "server/multipart.h"

namespace barge {

/// One POST /v1/files: a form whose parts come in any order, its file streamed to the disk. What
/// isn't finished is removed. For one thread at a time.
class FileUpload final : private FormSink {
 public:
  /// Throws RequestError if `content_type` isn't a form's, IoError if the file can't be made.
  FileUpload(const DataDirectory& directory, DataQuota& quota, std::string_view content_type,
             std::int64_t max_file_bytes, std::string owner);
  ~FileUpload() override;
  FileUpload(const FileUpload&) = delete;
  FileUpload& operator=(const FileUpload&) = delete;

  /// The next bytes of the body. Throws RequestError (413: the file is too large; 507:
  /// so are all files together), IoError.
  void push(std::string_view bytes) { parser_.push(bytes); }

  /// The body is over: checks the fields, makes the file durable under its id and adds it to
  /// `store`, created `now` (Unix seconds). Blocks for the disk. Throws RequestError, IoError.
  FileRecord finish(JobStore& store, std::int64_t now);

 private:
  void begin_part(const std::string& name, const std::string& filename, bool has_filename) override;
  void part_data(std::string_view bytes) override;
  void end_part() override;
  [[noreturn]] void fail(const char* attempted) const;

  const DataDirectory& directory_;
  DataQuota::Upload share_;
  const std::int64_t max_file_bytes_;
  const std::string owner_;
  const std::string id_ = random_id("file-");
  const std::filesystem::path temporary_ = directory_.upload(id_);
  MultipartParser parser_;
  int fd_ = -1;
  std::int64_t file_bytes_ = 0;
  std::optional<std::string> filename_, purpose_;
  nlohmann::json lifetime_;  // null, or the fields of expires_after
  std::string field_;        // the part's name
  std::string field_value_;  // unless it is the file
};

/// The File object of OpenAI's API.
nlohmann::ordered_json file_json(const FileRecord& file);

}  // namespace barge
