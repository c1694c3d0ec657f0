#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace cuda_emulation {

/// A function with a stack of its own, left in the middle and resumed, all on one thread of the
/// system. Costs tens of nanoseconds a switch; told to AddressSanitizer and ThreadSanitizer.
class Fiber {
 public:
  /// `index` staggers stacks, so that not all of them fall on the same lines of the caches.
  /// `body` must not return.
  Fiber(std::size_t index, std::function<void(Fiber&)> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;

  /// Runs the body until it calls leave().
  void resume();
  /// From within the body.
  void leave();

 private:
  class Stack;

  boost::context::fiber inside_, outside_;
  const void* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
  // The sanitizers' notes of where the switch came from.
  void* fake_stack_ = nullptr;
  const void* outer_bottom_ = nullptr;
  std::size_t outer_bytes_ = 0;
  void* tsan_inside_ = nullptr;
  void* tsan_outside_ = nullptr;
};

}  // namespace cuda_emulation
