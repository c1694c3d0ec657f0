#include "server/data_directory.h"

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <system_error>

#include "core/errors.h"
#include "core/log.h"
#include "jobs/answer_file.h"
#include "jobs/hash.h"
#include "server/batch_files.h"

namespace barge {
namespace {

constexpr std::size_t kIdDigits = 24;
constexpr std::size_t kMaxNameBytes = 255;

}  // namespace

DataDirectory::DataDirectory(std::filesystem::path root) : root_(std::move(root)) {
  for (const char* name : {"files", "partial", "uploads"}) {
    std::error_code error;
    std::filesystem::create_directories(root_ / name, error);
    if (error)
      throw IoError(concat("cannot make the directory ", (root_ / name).string(), ": ",
                           error.message(), "; choose another --data-dir"));
  }
  // A new store would know nothing of them.
  std::error_code error;
  if (!std::filesystem::exists(store(), error) && !error &&
      !(std::filesystem::is_empty(files(), error) &&
        std::filesystem::is_empty(root_ / "partial", error)))
    throw IoError(concat(root_.string(), " holds files of an earlier server, but its jobs.db is ",
                         "gone: restore that, or choose another --data-dir"));
}

void DataDirectory::put_away_lost(JobStore& store) const {
  std::set<std::string> known;
  for (const FileRecord& file : store.files()) known.insert(file.id);
  for (const std::string& job : store.unfinished())  // whose files may wait for their records
    for (std::string& id : file_ids_of(job)) known.insert(std::move(id));
  for (const auto& entry : std::filesystem::directory_iterator(files())) {
    const auto name = entry.path().filename();
    if (known.contains(name.string())) continue;
    const auto lost = root_ / "lost" / name;
    std::filesystem::create_directories(lost.parent_path());
    std::filesystem::rename(entry.path(), lost);
    log::warning(concat("no record names ", entry.path().string(), ": it was moved to ",
                        lost.string(), "; remove it unless you miss it"));
  }
}

void DataDirectory::tidy(JobStore& store) const {
  try {
    sync_directory(root_);  // which has jobs.db now
    put_away_lost(store);
  } catch (const std::filesystem::filesystem_error& error) {
    throw IoError(concat("cannot tidy ", root_.string(), ": ", error.what()));
  }
  std::error_code ignored;  // an old upload that stays does no harm
  for (const auto& entry : std::filesystem::directory_iterator(root_ / "uploads", ignored))
    std::filesystem::remove(entry.path(), ignored);
}

std::string random_id(std::string_view prefix) {
  std::random_device random;  // the kernel's
  const auto word = [&] { return (std::uint64_t{random()} << 32) | random(); };
  return std::string(prefix) + Hash128{word(), word()}.hex().substr(0, kIdDigits);
}

std::string derived_id(std::string_view prefix, std::string_view key) {
  const Hash128 hash = hash128(key);
  return std::string(prefix) +
         Hash128{mix64(hash.high), mix64(hash.high ^ hash.low)}.hex().substr(0, kIdDigits);
}

std::string display_name(std::string_view filename) {
  filename = filename.substr(filename.find_last_of("/\\") + 1);  // npos + 1 is 0
  std::string name;
  for (const char c : filename)
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) name += c;
  if (name.size() > kMaxNameBytes) {
    std::size_t end = kMaxNameBytes;
    while (end > 0 && (name[end] & 0xC0) == 0x80) --end;  // not inside a character
    name.resize(end);
  }
  if (name.empty() || name == "." || name == "..") return "upload";
  using nlohmann::json;
  return json::parse(json(name).dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace barge
