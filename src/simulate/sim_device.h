#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include "core/device.h"
#include "core/trace.h"
#include "core/waits.h"
#include "simulate/virtual_time.h"

namespace barge {

/// A stream whose work takes virtual time and does nothing else. One thread.
class SimStream final : public Stream, public VirtualTime::Actor {
 public:
  /// Bytes a second; a rate of 0 takes no time. `trace` may be null.
  struct Rates {
    double down = 0, up = 0, within = 0;
  };
  SimStream(VirtualTime& time, const Rates& rates, LinkTraffic& traffic, Trace* trace,
            Trace::Lane lane);

  void wait(const Event& event) override;
  Event record() override;
  void copy(void* to, Tier to_tier, const void* from, Tier from_tier, std::size_t bytes) override;
  void call(std::function<void()> work) override;
  /// Work of so long; `name` is a literal.
  void work(const char* name, Seconds seconds, std::size_t bytes = 0);

  bool advance() override;
  void wake() override;

  double busy_seconds() const { return busy_; }
  std::map<std::string, double> waits() const { return waits_.seconds(); }

 private:
  enum class Kind : std::uint8_t { kWait, kRecord, kWork, kCall };
  struct Item {
    Kind kind = Kind::kWork;
    const char* name = "";
    Event event;            // kWait
    Completion completion;  // kRecord
    Seconds seconds{};      // kWork
    std::size_t bytes = 0;  // kWork
    std::function<void()> call;
  };
  void push(Item item);
  bool advance_front();
  void tell(const char* name, std::size_t bytes, bool wait, Seconds begin);

  VirtualTime& time_;
  const Rates rates_;
  LinkTraffic& traffic_;
  Trace* const trace_;
  const Trace::Lane lane_;
  std::deque<Item> items_;
  bool working_ = false, waiting_ = false;  // in the front item
  Seconds begin_{}, idle_since_{};
  double busy_ = 0;
  Waits waits_;
  std::exception_ptr failure_;
};

/// A device of virtual time: memory that is only counted, streams that only take time.
class SimDevice final : public Device {
 public:
  struct Options {
    std::string name;
    bool unified = true;
    double link_down = 0, link_up = 0;  // bytes/s
    double copy = 0;                    // within host memory, bytes/s
    Trace* trace = nullptr;             // outlives it
  };
  SimDevice(VirtualTime& time, const Options& options, Budgets& budgets);

  std::string name() const override { return options_.name; }
  bool unified() const override { return options_.unified; }
  /// Zeros that take no memory until somebody writes.
  Buffer allocate(Tier tier, std::size_t bytes, std::string_view tag) override;
  Stream& compute() override { return compute_; }
  Stream& load() override { return load_; }
  Stream& store() override { return store_; }
  SimStream& computing() { return compute_; }
  const Clock& clock() const override { return time_; }
  LinkTraffic link_traffic() const override { return traffic_; }
  double compute_seconds() const override { return compute_.busy_seconds(); }
  std::map<std::string, double> compute_waits() const override { return compute_.waits(); }

 private:
  VirtualTime& time_;
  const Options options_;
  Budgets& budgets_;
  LinkTraffic traffic_;
  SimStream compute_, load_, store_;
};

}  // namespace barge
