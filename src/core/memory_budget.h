#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "core/tier.h"

namespace barge {

/// What may be allocated in one tier. Every weight, KV, activation, workspace, staging, tokenizer
/// and logits byte is reserved here, with a tag, before it is allocated; the limit is a promise to
/// the user. Thread-safe; must outlive its reservations.
class MemoryBudget {
 public:
  /// Bytes taken from a budget; gives them back when destroyed. Move-only.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept { swap(other); }
    Reservation& operator=(Reservation&& other) noexcept {
      Reservation taken(std::move(other));
      swap(taken);
      return *this;
    }
    ~Reservation();

    std::size_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;
    Reservation(MemoryBudget* budget, std::size_t bytes, std::string tag)
        : budget_(budget), bytes_(bytes), tag_(std::move(tag)) {}
    void swap(Reservation& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      std::swap(tag_, other.tag_);
    }

    MemoryBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
    std::string tag_;
  };

  /// `flag` is the user's word for the limit ("--cpu-memory"), for messages.
  MemoryBudget(Tier tier, std::size_t limit_bytes, std::string flag);

  /// Throws OutOfMemory, naming the tag, the bytes wanted and free and who has the rest.
  [[nodiscard]] Reservation reserve(std::size_t bytes, std::string_view tag);

  Tier tier() const { return tier_; }
  std::size_t limit() const { return limit_; }
  std::size_t used() const;
  std::size_t peak() const;
  std::size_t available() const { return limit_ - used(); }
  std::map<std::string, std::size_t, std::less<>> by_tag() const;

 private:
  void release(std::size_t bytes, const std::string& tag);

  const Tier tier_;
  const std::size_t limit_;
  const std::string flag_;
  mutable std::mutex mutex_;  // guards what follows
  std::size_t used_ = 0, peak_ = 0;
  std::map<std::string, std::size_t, std::less<>> by_tag_;
};

/// The promises of one run.
struct Budgets {
  MemoryBudget device, host, disk;

  Budgets(std::size_t device_bytes, std::size_t host_bytes, std::size_t disk_bytes)
      : device(Tier::kDevice, device_bytes, "--gpu-memory"),
        host(Tier::kHost, host_bytes, "--cpu-memory"),
        disk(Tier::kDisk, disk_bytes, "--disk-space") {}

  MemoryBudget& operator[](Tier tier) {
    return tier == Tier::kDevice ? device : tier == Tier::kHost ? host : disk;
  }
};

/// Memory that this process may still take: the smallest of what the machine and the cgroups
/// (v1 or v2) above the process allow, page cache that can be dropped counted as free. Bytes.
std::size_t usable_host_memory();

/// The process's resident set now, and at its peak. Bytes, from /proc/self/status.
std::size_t resident_bytes();
std::size_t peak_resident_bytes();
/// The peak counts from now on, where the system lets us.
void forget_peak_resident_bytes();

}  // namespace barge
