#include "server/shutdown_limit.h"

#include <cstdlib>
#include <thread>

#include "core/errors.h"
#include "core/log.h"

namespace barge {

void limit_shutdown(std::chrono::seconds timeout) {
  std::thread([timeout] {
    std::this_thread::sleep_for(timeout);
    log::warning(concat("the sweep didn't end within ", timeout.count(), " s: ended without it; ",
                        "what was in flight is computed again at the next start"));
    std::_Exit(1);
  }).detach();  // a process that ends in time takes it along
}

}  // namespace barge
