#include "block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace cuda_emulation {
namespace {

constexpr std::byte kGarbage{0xff};  // NaN in every format
constexpr std::byte kCanary{0xa5};
constexpr std::size_t kCanaryBytes = 64;

bool same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }
bool same_place(const Where& a, const Where& b) {
  return a.line() == b.line() && same(a.file_name(), b.file_name());
}
std::string text_of(const Where& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

}  // namespace

void BlockRunner::prepare(std::size_t shared_bytes) {
  const std::uint32_t count = blockDim.x * blockDim.y * blockDim.z;
  if (threads_.size() != count) {
    threads_.resize(count);
    order_.resize(count);
    warps_.resize((count + 31) / 32);
  }
  std::uint32_t i = 0;
  for (unsigned z = 0; z < blockDim.z; ++z)
    for (unsigned y = 0; y < blockDim.y; ++y)
      for (unsigned x = 0; x < blockDim.x; ++x, ++i) {
        threads_[i].index = {x, y, z};
        threads_[i].state = State::kUnstarted;
        order_[i] = i;
      }
  random_.shuffle(std::span(order_));
  for (std::uint32_t w = 0; w < warps_.size(); ++w)
    warps_[w].living = count - 32 * w >= 32 ? ~0u : (1u << (count - 32 * w)) - 1;
  next_ = 0;
  living_ = count;

  shared_memory_.resize(shared_bytes + kCanaryBytes + 128);
  const auto base = reinterpret_cast<std::uintptr_t>(shared_memory_.data());
  shared_ = shared_memory_.data() + (128 - base % 128);
  std::memset(shared_, static_cast<int>(kGarbage), shared_bytes);
  std::memset(shared_ + shared_bytes, static_cast<int>(kCanary), kCanaryBytes);
}

void BlockRunner::run(const std::function<void()>& thread, std::size_t shared_bytes) {
  body_ = &thread;
  prepare(shared_bytes);
  while (living_ > 0) {
    const bool can_start = next_ < order_.size();
    if (!ready_.empty() && (!can_start || (random_() & 1) != 0)) {
      std::swap(ready_[random_.below(static_cast<std::uint32_t>(ready_.size()))], ready_.back());
      current_ = ready_.back();
      ready_.pop_back();
      threadIdx = threads_[current_].index;
      threads_[current_].state = State::kRunning;
      threads_[current_].fiber->resume();
    } else if (can_start) {
      idle_fiber().resume();
    } else {
      report_deadlock();
    }
  }
  for (std::size_t i = 0; i < kCanaryBytes; ++i)
    if (shared_[shared_bytes + i] != kCanary)
      fail("a kernel wrote beyond its dynamic shared memory", Where::current());
}

Fiber& BlockRunner::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(fibers_.size(), [this](Fiber& self) {
      for (;;) {
        while (next_ < order_.size() && (ready_.empty() || (random_() & 1) != 0)) {
          current_ = order_[next_++];
          Thread& thread = threads_[current_];
          thread.state = State::kRunning;
          thread.fiber = &self;
          threadIdx = thread.index;
          (*body_)();
          end_thread();
        }
        idle_.push_back(&self);
        self.leave();
      }
    }));
    return *fibers_.back();
  }
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

// Others may have waited for this one only.
void BlockRunner::end_thread() {
  threads_[current_].state = State::kEnded;
  --living_;
  if (!at_block_.empty() && at_block_.size() == living_) release_block();
  const std::uint32_t warp = current_ / 32;
  warps_[warp].living &= ~(1u << (current_ % 32));
  for (std::size_t i = 0; i < warps_[warp].meetings.size();)
    if (!complete(warp, i)) ++i;
}

void BlockRunner::make_ready(std::uint32_t thread) { ready_.push_back(thread); }

void BlockRunner::wait_here(State state, const char* what, const Where& where) {
  const std::uint32_t self = current_;
  Thread& thread = threads_[self];
  thread.state = state;
  thread.what = what;
  thread.where = where;
  thread.fiber->leave();
}

void BlockRunner::release_block() {
  for (const std::uint32_t i : at_block_) {
    const Thread &a = threads_[at_block_[0]], &b = threads_[i];
    if (!same(a.what, b.what) || !same_place(a.where, b.where))
      fail("threads of a block are at different barriers: " + std::string(a.what) + " at " +
               text_of(a.where) + " and " + b.what,
           b.where);
    threads_[i].result = static_cast<std::uint64_t>(at_block_true_);
    make_ready(i);
  }
  at_block_.clear();
  at_block_true_ = 0;
}

int BlockRunner::meet_block(const char* what, bool value, const Where& where) {
  const std::uint32_t self = current_;
  at_block_.push_back(self);
  at_block_true_ += value;
  threads_[self].what = what;
  threads_[self].where = where;
  if (at_block_.size() == living_) release_block();  // and wait for one's turn like the others
  wait_here(State::kAtBlock, what, where);
  return static_cast<int>(threads_[self].result);
}

bool BlockRunner::complete(std::uint32_t warp_index, std::size_t meeting) {
  Warp& warp = warps_[warp_index];
  const Meeting& met = warp.meetings[meeting];
  const std::uint32_t lanes = met.arrived;
  if (lanes != (met.mask & warp.living)) return false;
  met.combine(lanes, warp.values, warp.arguments, warp.results);
  warp.meetings.erase(warp.meetings.begin() + static_cast<std::ptrdiff_t>(meeting));
  for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(left));
    threads_[32 * warp_index + lane].result = warp.results[lane];
    make_ready(32 * warp_index + lane);
  }
  return true;
}

std::uint64_t BlockRunner::meet_lanes(const char* what, Combine combine, std::uint32_t mask,
                                      std::uint64_t value, int argument, const Where& where) {
  const std::uint32_t self = current_, lane = self % 32;
  Warp& warp = warps_[self / 32];
  if (((mask >> lane) & 1u) == 0)
    fail(std::string(what) + " by a lane that its own mask doesn't name", where);
  warp.values[lane] = value;
  warp.arguments[lane] = argument;
  auto meeting = std::find_if(warp.meetings.begin(), warp.meetings.end(),
                              [&](const Meeting& other) { return (other.mask & mask) != 0; });
  if (meeting == warp.meetings.end())
    meeting = warp.meetings.insert(meeting, {what, combine, mask, 0, where});
  if (meeting->mask != mask || meeting->combine != combine || !same(meeting->what, what) ||
      !same_place(meeting->where, where))
    fail("lanes of a warp are at different places: " + std::string(meeting->what) + " at " +
             text_of(meeting->where) + " and " + what,
         where);
  meeting->arrived |= 1u << lane;
  complete(self / 32, static_cast<std::size_t>(meeting - warp.meetings.begin()));
  wait_here(State::kAtLanes, what, where);
  return threads_[self].result;
}

void BlockRunner::report_deadlock() const {
  std::map<std::string, int> waiting;
  for (const Thread& thread : threads_)
    if (thread.state == State::kAtBlock || thread.state == State::kAtLanes)
      ++waiting[std::string(thread.what) + " at " + text_of(thread.where)];
  std::string text = "threads of a block wait for each other for ever:";
  for (const auto& [place, count] : waiting)
    text += " " + std::to_string(count) + " in " + place + ";";
  fail(text + " " + std::to_string(threads_.size() - living_) + " have ended", Where::current());
}

void BlockRunner::fail(const std::string& what, const Where& where) const {
  std::fprintf(stderr, "CUDA emulation: %s (%s), block %u,%u,%u of %u,%u,%u, thread %u,%u,%u\n",
               what.c_str(), text_of(where).c_str(), blockIdx.x, blockIdx.y, blockIdx.z, gridDim.x,
               gridDim.y, gridDim.z, threadIdx.x, threadIdx.y, threadIdx.z);
  std::abort();
}

void combine_shuffle(std::uint32_t lanes, const std::uint64_t* values, const int* arguments,
                     std::uint64_t* results) {
  for (int lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1u) == 0) continue;
    const int source = arguments[lane] & 31;
    // What a lane outside the mask gives is undefined.
    results[lane] = ((lanes >> source) & 1u) != 0 ? values[source] : ~std::uint64_t{0};
  }
}

void combine_ballot(std::uint32_t lanes, const std::uint64_t* values, const int*,
                    std::uint64_t* results) {
  std::uint64_t votes = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (((lanes >> lane) & 1u) != 0 && values[lane] != 0) votes |= std::uint64_t{1} << lane;
  for (int lane = 0; lane < 32; ++lane) results[lane] = votes;
}

}  // namespace cuda_emulation
