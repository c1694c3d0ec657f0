// What the kernel says of this machine's and this process's memory.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "core/memory_budget.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

// The number behind `key` in a file of "key value" lines; the value's unit is the caller's affair.
std::optional<std::size_t> field(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string word; in >> word;)
    if (std::size_t value = 0; word == key && in >> value) return value;
  return std::nullopt;
}

std::optional<std::size_t> number(const fs::path& file) {
  std::ifstream in(file);
  std::size_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // absent, or the word "max"
}

// Bytes free below the limit of one cgroup directory; page cache on the inactive list can go.
std::optional<std::size_t> free_in(const fs::path& group, const char* limit_file,
                                   const char* usage_file, const char* cache_key) {
  const auto limit = number(group / limit_file), usage = number(group / usage_file);
  if (!limit || !usage || *limit > std::size_t{1} << 60) return std::nullopt;
  const std::size_t cache = field(group / "memory.stat", cache_key).value_or(0);
  const std::size_t held = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

std::size_t usable_host_memory() {
  std::size_t usable = field("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // v2: "0::/path"; v1: "N:controllers:/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("memory") == std::string::npos) continue;
    const fs::path root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    // Inside a container the path may name the host's tree: then only the root is there to read.
    for (fs::path at = line.substr(second + 1);; at = at.parent_path()) {
      const fs::path group = root / at.relative_path();
      const auto free = v2 ? free_in(group, "memory.max", "memory.current", "inactive_file")
                           : free_in(group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                     "total_inactive_file");
      if (free) usable = std::min(usable, *free);
      if (!at.has_relative_path()) break;
    }
  }
  return usable;
}

std::size_t resident_bytes() { return field("/proc/self/status", "VmRSS:").value_or(0) * 1024; }
std::size_t peak_resident_bytes() {
  return field("/proc/self/status", "VmHWM:").value_or(0) * 1024;
}
void forget_peak_resident_bytes() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace barge
