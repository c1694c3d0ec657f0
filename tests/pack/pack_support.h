#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/family.h"
#include "offload/pack.h"
#include "pack/convert.h"
#include "tests/support/temp_directory.h"

namespace barge {

using test::TempDirectory;

inline std::string golden_model(const std::string& name) {
  return std::string(BARGE_TEST_DATA) + "/goldens/models/" + name;
}

/// The bytes of a panel as the pack's data file has them, padding included.
std::vector<std::byte> read_panel(const Pack& pack, const PackPanel& panel);

/// Calls `work` in a process of its own and returns what it returns (0..255), or 255 if it throws.
inline pid_t start_process(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int status = 255;
  try {
    status = work();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "child: %s\n", e.what());
  }
  std::_Exit(status);
}
inline int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace barge
