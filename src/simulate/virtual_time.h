#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "core/clock.h"

namespace barge {

/// The time of a machine that isn't here: it goes on from one end of some work to the next, on the
/// one thread that simulates. Deterministic.
class VirtualTime final : public Clock {
 public:
  /// A stream, a disk: whoever works in virtual time. Outlives the time or never comes again.
  class Actor {
   public:
    virtual ~Actor() = default;
    /// Begins and ends what can be begun and ended now; whether there was anything.
    virtual bool advance() = 0;
    /// The moment for which it asked has come.
    virtual void wake() = 0;
  };

  Seconds now() const override { return now_; }
  void add(Actor& actor) { actors_.push_back(&actor); }
  void wake_after(Seconds seconds, Actor& actor);
  /// Makes the next thing happen. Throws Error if nothing ever will: everybody waits.
  void step();
  /// Lets all that happens in the next `seconds` happen: the host's thread is busy meanwhile.
  void spend(Seconds seconds);

 private:
  struct Moment {
    Seconds when{};
    std::int64_t order = 0;
    Actor* actor = nullptr;
    bool operator>(const Moment& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  bool advance_all();
  void wake_next();

  Seconds now_{};
  std::int64_t next_order_ = 0;
  std::vector<Actor*> actors_;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;
};

}  // namespace barge
