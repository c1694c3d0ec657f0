#pragma once

#include <map>
#include <string>

#include "core/clock.h"
#include "core/trace.h"
#include "core/waits.h"

namespace barge {

/// What the engine's thread waits for while it gives the device its work. One thread counts.
class EngineWaits {
 public:
  /// References outlive it; `trace` may be null.
  EngineWaits(const Clock& clock, Trace* trace) : clock_(clock), trace_(trace) {}

  /// Does `work`, which may block, and counts its time as waiting for `what`.
  template <typename Work>
  decltype(auto) during(const char* what, const Work& work) {
    const Scope scope(*this, what);
    return work();
  }
  /// Thread-safe.
  std::map<std::string, double> seconds() const { return waits_.seconds(); }

 private:
  class Scope {
   public:
    Scope(EngineWaits& waits, const char* what)
        : waits_(waits), what_(what), begin_(waits.clock_.now()) {}
    Scope(const Scope&) = delete;
    ~Scope() {
      const Seconds end = waits_.clock_.now();
      waits_.waits_.add(what_, end - begin_);
      if (waits_.trace_ != nullptr)
        waits_.trace_->span(Trace::Lane::kEngine, {.name = what_, .wait = true}, begin_, end);
    }

   private:
    EngineWaits& waits_;
    const char* const what_;
    const Seconds begin_;
  };

  const Clock& clock_;
  Trace* const trace_;
  Waits waits_;
};

}  // namespace barge
