#include "simulate/sim_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {

SimStream::SimStream(VirtualTime& time, const Rates& rates, LinkTraffic& traffic, Trace* trace,
                     Trace::Lane lane)
    : time_(time), rates_(rates), traffic_(traffic), trace_(trace), lane_(lane) {
  time.add(*this);
}

void SimStream::push(Item item) {
  if (items_.empty() && !working_ && time_.now() > idle_since_)
    waits_.add("work", time_.now() - idle_since_);
  items_.push_back(std::move(item));
}

void SimStream::wait(const Event& event) {
  if (event.state()) push({.kind = Kind::kWait, .name = event.name(), .event = event});
}

Event SimStream::record() {
  Item item{.kind = Kind::kRecord};
  Event event = item.completion.event();
  push(std::move(item));
  return event;
}

void SimStream::work(const char* name, Seconds seconds, std::size_t bytes) {
  push({.kind = Kind::kWork, .name = name, .seconds = seconds, .bytes = bytes});
}

void SimStream::call(std::function<void()> work) {
  push({.kind = Kind::kCall, .call = std::move(work)});
}

void SimStream::copy(void* to, Tier to_tier, const void* from, Tier from_tier, std::size_t bytes) {
  const bool across = to_tier != from_tier, down = to_tier == Tier::kDevice;
  const double rate = !across ? rates_.within : down ? rates_.down : rates_.up;
  if (to == from || rate <= 0) return;
  const Seconds seconds(static_cast<double>(bytes) / rate);
  if (across) {
    (down ? traffic_.down_bytes : traffic_.up_bytes) += bytes;
    (down ? traffic_.down_seconds : traffic_.up_seconds) += seconds.count();
  }
  // Copies that follow each other are one, as they are on a device.
  if (trace_ == nullptr && items_.size() > 1 && items_.back().kind == Kind::kWork &&
      items_.back().name == std::string_view("copy")) {
    items_.back().seconds += seconds;
    items_.back().bytes += bytes;
    return;
  }
  work("copy", seconds, bytes);
}

bool SimStream::advance() {
  bool advanced = false;
  while (!working_ && !items_.empty() && advance_front()) advanced = true;
  return advanced;
}

// Whether the front item is over.
bool SimStream::advance_front() {
  Item& item = items_.front();
  switch (item.kind) {
    case Kind::kWait:
      if (!item.event.done()) {
        if (!std::exchange(waiting_, true)) begin_ = time_.now();
        return false;
      }
      if (std::exchange(waiting_, false) && time_.now() > begin_) {
        waits_.add(item.name, time_.now() - begin_);
        tell(item.name, 0, /*wait=*/true, begin_);
      }
      try {
        item.event.wait();
      } catch (...) {
        if (!failure_) failure_ = std::current_exception();
      }
      break;
    case Kind::kRecord:
      failure_ ? item.completion.fail(failure_) : item.completion.succeed();
      break;
    case Kind::kCall:
      if (!failure_) item.call();
      break;
    case Kind::kWork:
      if (failure_) break;
      working_ = true;
      begin_ = time_.now();
      time_.wake_after(item.seconds, *this);
      return false;
  }
  items_.pop_front();
  if (items_.empty()) idle_since_ = time_.now();
  return true;
}

void SimStream::wake() {
  const Item& item = items_.front();
  busy_ += item.seconds.count();
  tell(item.name, item.bytes, /*wait=*/false, begin_);
  working_ = false;
  items_.pop_front();
  if (items_.empty()) idle_since_ = time_.now();
}

void SimStream::tell(const char* name, std::size_t bytes, bool wait, Seconds begin) {
  if (trace_ == nullptr) return;
  trace_->span(lane_, {.name = name, .bytes = bytes, .wait = wait}, begin, time_.now());
}

SimDevice::SimDevice(VirtualTime& time, const Options& options, Budgets& budgets)
    : time_(time),
      options_(options),
      budgets_(budgets),
      compute_(time, {options.link_down, options.link_up, options.unified ? options.copy : 0},
               traffic_, options.trace, Trace::Lane::kCompute),
      load_(time, {options.link_down, options.link_up, options.copy}, traffic_, options.trace,
            Trace::Lane::kLoad),
      store_(time, {options.link_down, options.link_up, options.copy}, traffic_, options.trace,
             Trace::Lane::kStore) {}

Buffer SimDevice::allocate(Tier tier, std::size_t bytes, std::string_view tag) {
  const std::size_t whole = round_up(std::max<std::size_t>(bytes, 1), kSectorBytes);
  auto reservation = budgets_[options_.unified ? Tier::kHost : tier].reserve(whole, tag);
  void* const at = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    throw OutOfMemory(concat("the system refused ", format_bytes(whole), " of address space for ",
                             tag, " of a simulation"));
  return {static_cast<std::byte*>(at), whole, std::move(reservation),
          [](std::byte* data, std::size_t size) { munmap(data, size); }};
}

}  // namespace barge
