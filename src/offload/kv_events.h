#pragma once

#include <algorithm>
#include <vector>

#include "core/event.h"

namespace barge {

/// Events that must all be done before something may be touched. Short: what is done is dropped.
using Events = std::vector<Event>;

/// Adds an event unless it is done by nature or was the last one added.
inline void also_after(Events& events, const Event& event) {
  if (event.state() && (events.empty() || events.back().state() != event.state()))
    events.push_back(event);
}

inline void also_after(Events& events, const Events& more) {
  for (const Event& event : more) also_after(events, event);
}

/// For uses that only care about order: an event that failed is over, too.
inline void drop_done(Events& events) {
  std::erase_if(events, [](const Event& event) { return event.done(); });
}

/// For who waits for the data: an event that failed stays.
inline void drop_succeeded(Events& events) {
  std::erase_if(events, [](const Event& event) {
    if (!event.done()) return false;
    try {
      event.wait();
      return true;
    } catch (...) {
      return false;
    }
  });
}

/// Leaves each event once, in any order.
inline void drop_repeated(Events& events) {
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.state() < b.state(); });
  const auto same = [](const Event& a, const Event& b) { return a.state() == b.state(); };
  events.erase(std::unique(events.begin(), events.end(), same), events.end());
}

/// Blocks until all are over; failures are somebody else's (whoever needs the data waits, too).
inline void wait_until_over(Events& events) {
  for (const Event& event : events) try {
      event.wait();
    } catch (...) {
    }
  events.clear();
}

}  // namespace barge
