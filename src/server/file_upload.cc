#include "server/file_upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/errors.h"
#include "jobs/answer_file.h"

namespace barge {
namespace {

constexpr std::size_t kMaxFieldBytes = 4096;
constexpr std::array<std::string_view, 6> kPurposes = {"assistants", "batch",     "fine-tune",
                                                       "vision",     "user_data", "evals"};

[[noreturn]] void throw_missing(const char* name) {
  throw RequestError(concat("Missing required parameter: '", name, "'."), name,
                     "missing_required_parameter");
}

}  // namespace

FileUpload::FileUpload(const DataDirectory& directory, std::string_view content_type,
                       std::int64_t max_file_bytes, std::string owner)
    : directory_(directory),
      max_file_bytes_(max_file_bytes),
      owner_(std::move(owner)),
      parser_(MultipartParser::boundary_of(content_type), *this) {}

FileUpload::~FileUpload() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());  // gone already if all went well
}

void FileUpload::fail(const char* attempted) const {
  throw IoError(concat("cannot ", attempted, " the upload ", temporary_.string(), ": ",
                       std::strerror(errno)));
}

void FileUpload::begin_part(const std::string& name, const std::string& filename,
                            bool has_filename) {
  field_ = name;
  field_value_.clear();
  if (name != "file") return;
  if (filename_)
    throw RequestError("Only one 'file' can be uploaded at a time.", "file", "invalid_value");
  filename_ = has_filename ? display_name(filename) : "upload";
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("create");
}

void FileUpload::part_data(std::string_view bytes) {
  if (field_ != "file") {
    if (field_value_.size() + bytes.size() > kMaxFieldBytes)
      throw RequestError(concat("The form field '", display_name(field_), "' is longer than ",
                                kMaxFieldBytes, " bytes."),
                         display_name(field_));
    field_value_ += bytes;
    return;
  }
  file_bytes_ += static_cast<std::int64_t>(bytes.size());
  if (file_bytes_ > max_file_bytes_)
    throw RequestError(concat("File is too large. The limit is ", max_file_bytes_, " bytes."),
                       "file", "file_too_large", 413);
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail("write");
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void FileUpload::end_part() {
  if (field_ == "purpose") purpose_ = field_value_;
}

FileRecord FileUpload::finish(JobStore& store) {
  parser_.finish();
  if (!filename_) throw_missing("file");
  if (!purpose_) throw_missing("purpose");
  if (std::ranges::find(kPurposes, *purpose_) == kPurposes.end())
    throw RequestError(concat("Invalid value: '", display_name(*purpose_),
                              "'. Supported values are: 'assistants', 'batch', 'fine-tune', ",
                              "'vision', 'user_data' and 'evals'."),
                       "purpose", "invalid_value");
  if (fsync(fd_) != 0) fail("make durable");
  const auto path = directory_.file(id_);
  if (rename(temporary_.c_str(), path.c_str()) != 0) fail("finish");
  sync_directory(directory_.files());
  const FileRecord file{id_, *filename_, *purpose_, file_bytes_, std::time(nullptr), owner_};
  try {
    store.add_file(file);
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
  return file;
}

nlohmann::ordered_json file_json(const FileRecord& file) {
  return {{"id", file.id},
          {"object", "file"},
          {"bytes", file.bytes},
          {"created_at", file.created_at},
          {"filename", file.filename},
          {"purpose", file.purpose},
          {"status", "processed"},  // deprecated and required: clients wait for this very word
          {"expires_at", nullptr},
          {"status_details", nullptr}};
}

}  // namespace barge
