#include "offload/free_space.h"

#include <sys/statvfs.h>

namespace barge {
namespace {

std::size_t available(const struct statvfs& status) {
  return static_cast<std::size_t>(status.f_bavail) * status.f_frsize;
}

}  // namespace

std::size_t free_space(const std::filesystem::path& path) {
  struct statvfs status {};
  if (statvfs(path.c_str(), &status) == 0) return available(status);
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  return statvfs(directory.c_str(), &status) == 0 ? available(status) : 0;
}

std::size_t free_space(int descriptor) {
  struct statvfs status {};
  return fstatvfs(descriptor, &status) == 0 ? available(status) : 0;
}

}  // namespace barge
