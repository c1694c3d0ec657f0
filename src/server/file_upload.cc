#include "server/file_upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "core/errors.h"
#include "core/io_error.h"
#include "jobs/answer_file.h"
#include "jobs/body_fields.h"
#include "server/lifetime.h"

namespace barge {
namespace {

constexpr std::size_t kMaxFieldBytes = 4096;
constexpr std::array<std::string_view, 6> kPurposes = {"assistants", "batch",     "fine-tune",
                                                       "vision",     "user_data", "evals"};

// Forms have no numbers: one that isn't well-formed stays a string, to be refused as such.
nlohmann::json number_or_text(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? nlohmann::json(number)
                                                                  : nlohmann::json(text);
}

}  // namespace

FileUpload::FileUpload(const DataDirectory& directory, DataQuota& quota,
                       std::string_view content_type, std::int64_t max_file_bytes,
                       std::string owner)
    : directory_(directory),
      share_(quota),
      max_file_bytes_(max_file_bytes),
      owner_(std::move(owner)),
      parser_(MultipartParser::boundary_of(content_type), *this) {}

FileUpload::~FileUpload() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());  // gone already if all went well
}

void FileUpload::fail(const char* attempted) const {
  throw_io_error(concat("cannot ", attempted, " the upload ", temporary_.string()), errno);
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
  share_.grow(static_cast<std::int64_t>(bytes.size()));
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail("write");
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void FileUpload::end_part() {
  if (field_ == "purpose") purpose_ = field_value_;
  if (field_ == "expires_after[anchor]") lifetime_["anchor"] = field_value_;
  if (field_ == "expires_after[seconds]") lifetime_["seconds"] = number_or_text(field_value_);
}

FileRecord FileUpload::finish(JobStore& store, std::int64_t now) {
  parser_.finish();
  if (!filename_) throw_missing("file");
  if (!purpose_) throw_missing("purpose");
  if (std::ranges::find(kPurposes, *purpose_) == kPurposes.end())
    throw RequestError(concat("Invalid value: '", display_name(*purpose_),
                              "'. Supported values are: 'assistants', 'batch', 'fine-tune', ",
                              "'vision', 'user_data' and 'evals'."),
                       "purpose", "invalid_value");
  FileRecord file{id_, *filename_, *purpose_, file_bytes_, now, owner_};
  if (!lifetime_.is_null()) file.expires_at = now + checked_lifetime(lifetime_, "expires_after");
  if (fsync(fd_) != 0) fail("make durable");
  const auto path = directory_.file(id_);
  if (rename(temporary_.c_str(), path.c_str()) != 0) fail("finish");
  sync_directory(directory_.files());
  try {
    store.add_file(file);
  } catch (const DiskFull&) {  // nothing of the record was written
    unlink(path.c_str());
    throw;
  }  // Else it isn't known whether the disk has the record: the next start sees, and tidies up.
  share_.keep();
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
          {"expires_at",
           file.expires_at ? nlohmann::ordered_json(*file.expires_at) : nlohmann::ordered_json()},
          {"status_details", nullptr}};
}

}  // namespace barge
