#include "server/data_directory.h"

#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "core/errors.h"
#include "jobs/hash.h"

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
}

void DataDirectory::clear_uploads() const {
  for (const auto& entry : std::filesystem::directory_iterator(root_ / "uploads")) {
    std::error_code ignored;  // an old upload that stays does no harm
    std::filesystem::remove(entry.path(), ignored);
  }
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
