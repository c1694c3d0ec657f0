#include "pack/cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/errors.h"
#include "core/log.h"
#include "model/input_file.h"
#include "offload/pack.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

fs::path home_directory() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  if (const passwd* user = ::getpwuid(::getuid()); user != nullptr) return user->pw_dir;
  return fs::temp_directory_path();
}

// Held by the one who makes a pack; the system lets go of it when its process ends.
class PackLock {
 public:
  explicit PackLock(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("open");
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    if (errno == EWOULDBLOCK)
      log::info(
          concat("waiting for another process that makes the same pack (", path.string(), ")"));
    while (::flock(fd_, LOCK_EX) != 0)
      if (errno != EINTR) fail("lock");
  }
  PackLock(const PackLock&) = delete;
  PackLock& operator=(const PackLock&) = delete;
  ~PackLock() { ::close(fd_); }

 private:
  [[noreturn]] void fail(const char* what) {
    const int failure = errno;
    if (fd_ >= 0) ::close(fd_);
    throw IoError(concat("cannot ", what, " ", path_.string(), ": ", std::strerror(failure)));
  }

  const fs::path path_;
  const int fd_;
};

// "smollm2-135m" of whatever people call a model: a file's name, short and without surprises.
std::string file_name(const std::string& model_name) {
  constexpr std::size_t kMost = 60;
  std::string name;
  for (const char c : model_name.substr(0, kMost)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_' || c == '@';
    name += plain ? c : '-';
  }
  if (name.empty() || name[0] == '.') name.insert(0, "model");
  return name;
}

// What killed processes left of this pack; nobody else is making it, for the lock is held.
void remove_leftovers(const fs::path& pack) {
  std::error_code ignored;
  const std::string prefix = pack.filename().string() + ".partial-";
  for (const auto& entry : fs::directory_iterator(pack.parent_path(), ignored))
    if (entry.path().filename().string().starts_with(prefix)) fs::remove_all(entry.path(), ignored);
}

}  // namespace

fs::path default_cache_directory() {
  const auto set = [](const char* name) -> const char* {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
  };
  if (const char* own = set("BARGE_CACHE_DIR")) return own;
  if (const char* caches = set("XDG_CACHE_HOME")) return fs::path(caches) / "barge";
  return home_directory() / ".cache" / "barge";
}

fs::path find_or_convert(const std::string& model, const ConvertOptions& options,
                         const fs::path& packs, const PackProgress& progress) {
  if (is_pack(model)) return model;
  validate(options);
  const auto checkpoint = open_checkpoint(model);
  Fingerprint key;
  key.add(pack_fingerprint(*checkpoint, options));
  const std::string bits = options.weight_bits == 0 ? "auto" : std::to_string(options.weight_bits);
  const fs::path pack =
      packs / concat(file_name(checkpoint->config().name), "-", bits, "-", key.hex());
  if (is_pack(pack)) return pack;

  std::error_code failure;
  fs::create_directories(packs, failure);
  if (failure)
    throw IoError(concat("cannot make the directory ", packs.string(), ": ", failure.message()));
  const fs::path lock_file = pack.string() + ".lock";
  const PackLock lock(lock_file);
  if (is_pack(pack)) return pack;  // made while we waited
  remove_leftovers(pack);
  convert(*checkpoint, options, pack, progress);
  // Whoever still waits for the lock, or makes it anew, finds the pack first.
  fs::remove(lock_file, failure);
  return pack;
}

}  // namespace barge
