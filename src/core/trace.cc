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

constexpr std::array kLaneNames{"compute", "load", "store", "disk read", "disk write", "sweep"};
constexpr std::size_t kSweepLane = kLaneNames.size() - 1;

Json lane_name(std::size_t lane) {
  return {{"ph", "M"},
          {"name", "thread_name"},
          {"pid", 1},
          {"tid", lane},
          {"args", {{"name", kLaneNames[lane]}}}};
}

Json complete_event(std::size_t lane, const std::string& name, Seconds begin, Seconds end) {
  return {{"ph", "X"},
          {"name", name},
          {"pid", 1},
          {"tid", lane},
          {"ts", begin.count() * 1e6},
          {"dur", (end - begin).count() * 1e6}};
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

void Trace::span(Lane lane, std::string name, Event begin, Event end, int sweep) {
  {
    const std::scoped_lock lock(mutex_);
    Watched& watched = lanes_[static_cast<std::size_t>(lane)];
    watched.pending.push_back({std::move(name), std::move(begin), std::move(end), sweep});
    if (!watched.thread.joinable()) watched.thread = std::jthread([this, lane] { watch(lane); });
  }
  changed_.notify_all();
}

void Trace::span(Lane lane, std::string name, Seconds begin, Seconds end) {
  const std::scoped_lock lock(mutex_);
  spans_.push_back({lane, std::move(name), begin, end, kNoSweep});
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
    if (!failed) spans_.push_back({lane, std::move(next.name), begin, end, next.sweep});
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
  for (std::size_t lane = 0; lane < kLaneNames.size(); ++lane) events.push_back(lane_name(lane));
  std::map<int, std::pair<Seconds, Seconds>> sweeps;
  for (const Span& span : spans_) {
    events.push_back(complete_event(static_cast<std::size_t>(span.lane), span.name,
                                    span.begin - start_, span.end - start_));
    if (span.sweep == kNoSweep) continue;
    auto& [begin, end] = sweeps.try_emplace(span.sweep, span.begin, span.end).first->second;
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  for (const auto& [sweep, times] : sweeps)
    events.push_back(complete_event(kSweepLane, concat("sweep ", sweep), times.first - start_,
                                    times.second - start_));
  std::ofstream out(file);
  out << Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}} << '\n';
  if (!out.flush()) throw IoError(concat("cannot write the trace ", file.string()));
}

}  // namespace barge
