#include "cli/stop_signal.h"

#include <csignal>

namespace barge {
namespace {

std::atomic<bool> stopped = false;  // a signal handler can reach nothing else
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

const std::atomic<bool>& stop_on_signal() {
  const auto handler = [](int signal) {
    stopped = true;
    std::signal(signal, SIG_DFL);
  };
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
  return stopped;
}

}  // namespace barge
