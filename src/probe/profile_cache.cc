// Profiles on disk: one file a machine, named by what it holds for.
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/errors.h"
#include "core/log.h"
#include "probe/probe.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const std::size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown processor";
}

constexpr const char* kBetween = "; ";

std::vector<std::string> parts_of(const std::string& machine) {
  std::vector<std::string> parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = machine.find(kBetween, at);
    parts.push_back(machine.substr(at, end - at));
    if (end == std::string::npos) return parts;
    at = end + std::char_traits<char>::length(kBetween);
  }
}

// Those that aren't among `others`, in words.
std::string without(const std::vector<std::string>& parts, const std::vector<std::string>& others) {
  std::string text;
  for (const std::string& part : parts)
    if (std::find(others.begin(), others.end(), part) == others.end())
      text += concat(text.empty() ? "" : kBetween, part);
  return text.empty() ? "nothing" : text;
}

// What the newest profile holds for, whatever its version is; empty if there is none.
std::string newest_machine(const fs::path& cache_directory) {
  std::error_code error;
  fs::path newest;
  fs::file_time_type at{};
  for (const auto& entry : fs::directory_iterator(cache_directory, error)) {
    const fs::path& path = entry.path();
    if (!path.filename().string().starts_with("profile-") || path.extension() != ".json") continue;
    const auto written = entry.last_write_time(error);
    if (!newest.empty() && written <= at) continue;
    at = written;
    newest = path;
  }
  std::ifstream in(newest);
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("machine", "") : "";
}

fs::path file_of(const fs::path& cache_directory, const std::string& machine) {
  return cache_directory / concat("profile-", std::hex, std::hash<std::string>{}(machine), ".json");
}

}  // namespace

std::string machine_of(const Device& device, const ProbeOptions& options) {
  struct statfs file_system {};
  statfs(options.disk_directory.c_str(), &file_system);
  struct stat directory {};
  stat(options.disk_directory.c_str(), &directory);
  const int threads = options.threads > 0 ? options.threads : usable_processors();
  return concat(processor_name(), kBetween, threads, " of ", usable_processors(), " processors",
                kBetween, device.name(), kBetween, name_of(options.compute),
                options.activation_bits == 8 ? ", activations in 8 bits" : "", kBetween,
                options.software, kBetween, fs::absolute(options.disk_directory).string(), kBetween,
                "disk ", major(directory.st_dev), ":", minor(directory.st_dev), ", file system ",
                file_system.f_type, kBetween, "profile version ", Profile::kVersion);
}

std::string why_stale(const fs::path& cache_directory, const std::string& machine) {
  const std::string other = newest_machine(cache_directory);
  if (other.empty()) return {};
  const std::vector<std::string> then = parts_of(other), now = parts_of(machine);
  return concat("the last profile is of ", without(then, now), "; this is ", without(now, then));
}

std::optional<Profile> load_profile(const fs::path& cache_directory, const std::string& machine) {
  const fs::path path = file_of(cache_directory, machine);
  std::ifstream in(path);
  if (!in) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  try {
    Profile profile = profile_from_json(text, path.string());
    if (profile.machine == machine) return profile;
  } catch (const FormatError& e) {
    log::warning(e.what());
  }
  return std::nullopt;
}

void save_profile(const fs::path& cache_directory, const Profile& profile) {
  std::error_code error;
  fs::create_directories(cache_directory, error);
  const fs::path path = file_of(cache_directory, profile.machine);
  const fs::path temporary = concat(path.string(), ".", getpid());
  std::ofstream out(temporary);
  out << profile_to_json(profile) << '\n';
  out.close();
  if (!out) throw IoError(concat("cannot write the profile ", temporary.string()));
  fs::rename(temporary, path, error);
  if (error)
    throw IoError(
        concat("cannot rename ", temporary.string(), " to ", path.string(), ": ", error.message()));
}

}  // namespace barge
