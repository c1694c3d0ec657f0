// Profiles on disk: one file a machine, named by what it holds for.
#include <sys/statfs.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>

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

fs::path file_of(const fs::path& cache_directory, const std::string& machine) {
  return cache_directory / concat("profile-", std::hex, std::hash<std::string>{}(machine), ".json");
}

}  // namespace

std::string machine_of(const Device& device, const ProbeOptions& options) {
  struct statfs info {};
  statfs(options.disk_directory.c_str(), &info);
  return concat(processor_name(), "; ", device.name(), "; ", name_of(options.compute),
                options.activation_bits == 8 ? ", activations in 8 bits; " : "; ",
                fs::absolute(options.disk_directory).string(), " (file system ", std::hex,
                info.f_type, ")");
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
