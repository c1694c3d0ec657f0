#include "core/trace.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/errors.h"

namespace barge {
namespace {

using Json = nlohmann::json;

struct LaneName {
  const char *name, *category;  // of its work; waits have one of their own
};
constexpr std::array kShown{LaneName{"engine", "engine"},
                            LaneName{"compute", "compute"},
                            LaneName{"load", "load"},
                            LaneName{"store", "store"},
                            LaneName{"disk read: weights", "disk"},
                            LaneName{"disk read: KV", "disk"},
                            LaneName{"disk write", "disk"},
                            LaneName{"sweep", "sweep"}};
constexpr std::size_t kSweepLane = kShown.size() - 1;

// Waits that are shorter hold nobody up: most events that are waited for are done already.
constexpr Seconds kShortestWait{50e-6};

Json lane_name(std::size_t lane) {
  return {{"ph", "M"},
          {"name", "thread_name"},
          {"pid", 1},
          {"tid", lane},
          {"args", {{"name", kShown[lane].name}}}};
}

// Perfetto would sort lanes by their busiest.
Json lane_order(std::size_t lane) {
  return {{"ph", "M"},
          {"name", "thread_sort_index"},
          {"pid", 1},
          {"tid", lane},
          {"args", {{"sort_index", (lane + 1) % kShown.size()}}}};  // sweeps first
}

Json complete_event(std::size_t lane, const Trace::Work& work, Seconds begin, Seconds end) {
  Json event{{"ph", "X"},
             {"name", work.wait ? concat("wait for ", work.name) : work.name},
             {"cat", work.wait ? "wait" : kShown[lane].category},
             {"pid", 1},
             {"tid", lane},
             {"ts", begin.count() * 1e6},
             {"dur", (end - begin).count() * 1e6}};
  if (work.bytes > 0) event["args"]["bytes"] = work.bytes;
  if (work.sweep != Trace::kNoSweep) event["args"]["sweep"] = work.sweep;
  return event;
}

}  // namespace

Trace::Trace(const Clock& clock) : clock_(clock), start_(clock.now()) {}

Trace::~Trace() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void Trace::span(Lane lane, Work work, Event begin, Event end) {
  {
    const std::scoped_lock lock(mutex_);
    Watched& watched = lanes_[static_cast<std::size_t>(lane)];
    watched.pending.push_back({std::move(work), std::move(begin), std::move(end)});
    if (!watched.thread.joinable()) watched.thread = std::jthread([this, lane] { watch(lane); });
  }
  changed_.notify_all();
}

void Trace::span(Lane lane, Work work, Seconds begin, Seconds end) {
  const std::scoped_lock lock(mutex_);
  keep({lane, std::move(work), begin, end});
}

void Trace::keep(Span span) {
  if (!span.work.wait || span.end - span.begin >= kShortestWait) spans_.push_back(std::move(span));
}

void Trace::watch(Lane lane) {
  std::unique_lock lock(mutex_);
  std::deque<Pending>& pending = lanes_[static_cast<std::size_t>(lane)].pending;
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !pending.empty(); });
    if (pending.empty()) return;
    Pending& next = pending.front();  // others are only put behind it
    lock.unlock();
    bool failed = false;
    Seconds begin{}, end{};
    try {
      next.begin.wait();
      begin = now();
      next.end.wait();
      end = now();
    } catch (...) {  // reported where the work's result is wanted
      failed = true;
    }
    lock.lock();
    if (!failed) keep({lane, std::move(next.work), begin, end});
    pending.pop_front();
    changed_.notify_all();
  }
}

void Trace::drain(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](auto& l) { return l.pending.empty(); });
  });
}

void Trace::drain() {
  std::unique_lock lock(mutex_);
  drain(lock);
}

void Trace::write(const std::filesystem::path& file) {
  std::unique_lock lock(mutex_);
  drain(lock);
  Json events = Json::array();
  for (std::size_t lane = 0; lane < kShown.size(); ++lane) {
    events.push_back(lane_name(lane));
    events.push_back(lane_order(lane));
  }
  std::map<int, std::pair<Seconds, Seconds>> sweeps;
  for (const Span& span : spans_) {
    events.push_back(complete_event(static_cast<std::size_t>(span.lane), span.work,
                                    span.begin - start_, span.end - start_));
    if (span.work.sweep == kNoSweep) continue;
    auto& [begin, end] = sweeps.try_emplace(span.work.sweep, span.begin, span.end).first->second;
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  for (const auto& [sweep, times] : sweeps)
    events.push_back(complete_event(kSweepLane, {.name = concat("sweep ", sweep)},
                                    times.first - start_, times.second - start_));
  std::ofstream out(file);
  out << Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}} << '\n';
  if (!out.flush()) throw IoError(concat("cannot write the trace ", file.string()));
}

}  // namespace barge
