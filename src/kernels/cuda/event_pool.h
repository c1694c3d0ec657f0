#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace barge::cuda {

/// Events of CUDA, made ahead and used again, so that none is made while tokens are generated
/// (unless more are held at once than ever before). Thread-safe; must outlive what it lent.
class EventPool {
 public:
  /// `flags` as cudaEventCreateWithFlags takes them. Throws DeviceError.
  EventPool(unsigned flags, std::size_t count);
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// An event on loan; goes back when destroyed. Work that waits for it keeps what it was recorded
  /// for, even when it is recorded anew. Move-only.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& other) noexcept { swap(other); }
    Loan& operator=(Loan&& other) noexcept {
      Loan taken(std::move(other));
      swap(taken);
      return *this;
    }
    ~Loan() {
      if (event_ != nullptr) pool_->give_back(event_);
    }

    cudaEvent_t get() const { return event_; }

   private:
    friend class EventPool;
    Loan(EventPool* pool, cudaEvent_t event) : pool_(pool), event_(event) {}
    void swap(Loan& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(event_, other.event_);
    }

    EventPool* pool_ = nullptr;
    cudaEvent_t event_ = nullptr;
  };

  [[nodiscard]] Loan lend();
  std::size_t made() const;  // so far

 private:
  void make(std::size_t count);
  void give_back(cudaEvent_t event) noexcept;

  const unsigned flags_;
  mutable std::mutex mutex_;       // guards what follows
  std::vector<cudaEvent_t> all_;   // to be destroyed
  std::vector<cudaEvent_t> free_;  // as large as all_, so that giving back never allocates
};

}  // namespace barge::cuda
