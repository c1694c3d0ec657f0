#include "fiber.h"

#include <sys/mman.h>

#include <boost/context/stack_context.hpp>
#include <memory>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cuda_emulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStackBytes = 256 << 10;  // touched pages alone take memory

}  // namespace

/// Boost's idea of an allocator. The lowest page is a guard.
class Fiber::Stack {
 public:
  Stack(Fiber& fiber, std::size_t index) : fiber_(&fiber), index_(index) {}

  boost::context::stack_context allocate() {
    void* base = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    mprotect(base, kPage, PROT_NONE);
    const std::size_t stagger = index_ * 7 % 64 * 64;
    boost::context::stack_context stack;
    stack.sp = static_cast<std::byte*>(base) + kStackBytes - stagger;
    stack.size = kStackBytes - stagger;
    fiber_->stack_bottom_ = base;
    fiber_->stack_bytes_ = stack.size;
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) {
    munmap(static_cast<std::byte*>(stack.sp) - stack.size, kStackBytes);
  }

 private:
  Fiber* fiber_;
  std::size_t index_;
};

Fiber::Fiber(std::size_t index, std::function<void(Fiber&)> body) {
#if defined(__SANITIZE_THREAD__)
  tsan_inside_ = __tsan_create_fiber(0);
#endif
  inside_ = boost::context::fiber(std::allocator_arg, Stack(*this, index),
                                  [this, body = std::move(body)](boost::context::fiber&& outside) {
#if defined(__SANITIZE_ADDRESS__)
                                    __sanitizer_finish_switch_fiber(nullptr, &outer_bottom_,
                                                                    &outer_bytes_);
#endif
                                    outside_ = std::move(outside);
                                    body(*this);
                                    return std::move(outside_);
                                  });
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(tsan_inside_);
#endif
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_bottom_, stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  tsan_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
  inside_ = std::move(inside_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, outer_bottom_, outer_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
  outside_ = std::move(outside_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &outer_bottom_, &outer_bytes_);
#endif
}

}  // namespace cuda_emulation
