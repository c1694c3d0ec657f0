#include "simulate/virtual_time.h"

#include "core/errors.h"

namespace barge {

void VirtualTime::wake_after(Seconds seconds, Actor& actor) {
  moments_.push({now_ + seconds, next_order_++, &actor});
}

bool VirtualTime::advance_all() {
  bool advanced = false;
  for (Actor* actor : actors_) advanced = actor->advance() || advanced;
  return advanced;
}

void VirtualTime::wake_next() {
  const Moment moment = moments_.top();
  moments_.pop();
  now_ = moment.when;
  moment.actor->wake();
}

void VirtualTime::step() {
  if (advance_all()) return;
  if (moments_.empty())
    throw Error("the simulation stands still: all wait for each other; this is a bug of barge");
  wake_next();
}

void VirtualTime::spend(Seconds seconds) {
  const Seconds end = now_ + seconds;
  for (;;) {
    while (advance_all()) continue;
    if (moments_.empty() || moments_.top().when > end) break;
    wake_next();
  }
  now_ = end;
}

}  // namespace barge
