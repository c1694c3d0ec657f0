#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/checksum.h"
#include "offload/free_space.h"
#include "offload/pack.h"
#include "offload/pack_json.h"
#include "offload/pack_layout.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

// Pages written so far leave the cache in steps of this many bytes, so that a pack of many
// gigabytes doesn't push everything else out of memory.
constexpr std::uint64_t kCacheStep = 32_MiB;

// A file being written from its beginning to its end. Errors name it.
class OutputFile {
 public:
  explicit OutputFile(fs::path path)
      : path_(std::move(path)),
        descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail("create", 0);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() { ::close(descriptor_); }

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("write", bytes.size());
      written_ += static_cast<std::uint64_t>(done);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    if (written_ - flushed_ < kCacheStep) return;
    // Starts to write this step and drops the one before, which had time to reach the disk.
    const auto at = static_cast<off_t>(flushed_), size = static_cast<off_t>(written_ - flushed_);
    sync_file_range(descriptor_, at, size, SYNC_FILE_RANGE_WRITE);
    sync_file_range(
        descriptor_, 0, at,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(descriptor_, 0, at, POSIX_FADV_DONTNEED);
    flushed_ = written_;
  }

  void sync() {
    if (::fsync(descriptor_) != 0) fail("flush", 0);
    posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  }

  std::uint64_t written() const { return written_; }

 private:
  [[noreturn]] void fail(const char* what, std::size_t bytes) const {
    const int failure = errno;
    std::string message = concat("cannot ", what, " ", path_.string());
    if (bytes > 0) message += concat(" (", bytes, " bytes at offset ", written_, ")");
    message += concat(": ", std::strerror(failure));
    if (failure == ENOSPC || failure == EDQUOT)
      message += concat("; ", format_bytes(free_space(path_)),
                        " are free there: free some, or choose another place for the pack");
    throw IoError(message);
  }

  const fs::path path_;
  const int descriptor_;
  std::uint64_t written_ = 0, flushed_ = 0;
};

void sync_directory(const fs::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int failure = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced && failure != EINVAL)  // some file systems can't, and need not
    throw IoError(concat("cannot flush ", directory.string(), ": ", std::strerror(failure)));
}

std::string dump(const nlohmann::json& root) {
  try {
    return root.dump(1);
  } catch (const nlohmann::json::exception& failure) {  // a name or the model isn't UTF-8
    throw FormatError(concat("cannot write ", kPackJson, ": ", failure.what()));
  }
}

}  // namespace

class PackWriter::Impl {
 public:
  explicit Impl(fs::path directory)
      : directory_(std::move(directory)),
        temporary_(concat(directory_.string(), ".partial-", getpid())) {
    std::error_code failure;
    if (fs::exists(fs::symlink_status(directory_, failure)))
      throw IoError(concat("cannot write a pack to ", directory_.string(),
                           ": it exists already; remove it or choose another name"));
    // What a killed process of the same number left behind.
    fs::remove_all(temporary_, failure);
    if (!fs::create_directory(temporary_, failure))
      throw IoError(concat("cannot make the directory ", temporary_.string(), ": ",
                           failure ? failure.message() : "it exists already"));
    try {
      data_ = std::make_unique<OutputFile>(temporary_ / data_file_name(0));
    } catch (...) {
      fs::remove_all(temporary_, failure);
      throw;
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    std::error_code ignored;
    if (!finished_) fs::remove_all(temporary_, ignored);
  }

  const std::vector<PackPanel>& begin(const std::string& name, PackTensor::Kind kind,
                                      std::int64_t rows, std::int64_t cols, WeightFormat format) {
    end_tensor();
    tensor_ = {.name = name, .kind = kind, .rows = rows, .cols = cols, .format = format};
    panel_rows_ = panel_rows(kind, rows, cols, format);
    tensor_.panels = cut_panels(tensor_, panel_rows_);
    first_offset_ = data_->written();
    next_panel_ = 0;
    return tensor_.panels;
  }

  void write(std::span<const std::byte> bytes) {
    if (next_panel_ >= tensor_.panels.size())
      throw Error(
          concat("tensor '", tensor_.name, "' has only ", tensor_.panels.size(), " panels"));
    PackPanel& panel = tensor_.panels[next_panel_];
    if (bytes.size() != panel.layout.bytes)
      throw Error(concat("panel ", next_panel_, " of '", tensor_.name, "' came with ", bytes.size(),
                         " bytes; wanted ", panel.layout.bytes));
    buffer_.assign(panel.stored_bytes(), std::byte{0});
    std::copy(bytes.begin(), bytes.end(), buffer_.begin());
    panel.offset = data_->written();
    panel.checksum = checksum(buffer_);
    data_->append(buffer_);
    ++next_panel_;
  }

  void finish(const std::string& model, const std::string& fingerprint) {
    end_tensor();
    data_->sync();
    const nlohmann::json root{{"version", kPackVersion},
                              {"model", model},
                              {"fingerprint", fingerprint},
                              {"file_bytes", {data_->written()}},
                              {"tensors", std::move(tensors_)}};
    const std::string text = dump(root);
    OutputFile json(temporary_ / kPackJson);
    json.append(std::as_bytes(std::span(text)));
    json.sync();
    sync_directory(temporary_);
    std::error_code failure;
    fs::rename(temporary_, directory_, failure);
    if (failure)
      throw IoError(concat("cannot rename ", temporary_.string(), " to ", directory_.string(), ": ",
                           failure.message()));
    finished_ = true;
    sync_directory(directory_.has_parent_path() ? directory_.parent_path() : fs::path("."));
  }

 private:
  void end_tensor() {
    if (next_panel_ != tensor_.panels.size())
      throw Error(concat("tensor '", tensor_.name, "' got ", next_panel_, " of its ",
                         tensor_.panels.size(), " panels"));
    if (tensor_.panels.empty()) return;
    auto checksums = nlohmann::json::array();
    for (const PackPanel& panel : tensor_.panels)
      checksums.push_back(checksum_text(panel.checksum));
    tensors_.push_back({{"name", tensor_.name},
                        {"kind", to_string(tensor_.kind)},
                        {"rows", tensor_.rows},
                        {"cols", tensor_.cols},
                        {"format", to_string(tensor_.format)},
                        {"panel_rows", panel_rows_},
                        {"file", 0},
                        {"offset", first_offset_},
                        {"checksums", std::move(checksums)}});
    tensor_ = {};
    next_panel_ = 0;
  }

  const fs::path directory_, temporary_;
  std::unique_ptr<OutputFile> data_;
  nlohmann::json tensors_ = nlohmann::json::array();
  PackTensor tensor_;  // being written
  std::int64_t panel_rows_ = 0;
  std::uint64_t first_offset_ = 0;
  std::size_t next_panel_ = 0;
  std::vector<std::byte> buffer_;  // one padded panel
  bool finished_ = false;
};

PackWriter::PackWriter(std::filesystem::path directory)
    : impl_(std::make_unique<Impl>(std::move(directory))) {}
PackWriter::~PackWriter() = default;

const std::vector<PackPanel>& PackWriter::begin(const std::string& name, PackTensor::Kind kind,
                                                std::int64_t rows, std::int64_t cols,
                                                WeightFormat format) {
  return impl_->begin(name, kind, rows, cols, format);
}
void PackWriter::write(std::span<const std::byte> panel) { impl_->write(panel); }
void PackWriter::finish(const std::string& model, const std::string& fingerprint) {
  impl_->finish(model, fingerprint);
}

}  // namespace barge
