#include "executor.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

#include "memory.h"

namespace cuda_emulation {
namespace {

// Long beside a call of the host, short beside a test.
constexpr auto kPatience = std::chrono::microseconds(200);

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

Executor& Executor::get() {
  static auto* executor = new Executor;  // its threads outlive main
  return *executor;
}

Executor::Executor()
    : null_stream_(std::make_shared<StreamState>()),
      protects_(number_from_environment("BARGE_EMULATION_PROTECT", 0) != 0),
      random_(number_from_environment("BARGE_EMULATION_SEED", 1)),
      blocks_(random_) {
  failing_in_ = number_from_environment("BARGE_EMULATION_FAIL", 0);
  failing_with_ = cudaErrorLaunchFailure;
  streams_.push_back(null_stream_);
  std::lock_guard lock(mutex_);
  std::thread device([this] { run(); }), host([this] { run_host_functions(); });
  own_threads_[0] = device.get_id();
  own_threads_[1] = host.get_id();
  device.detach();
  host.detach();
}

bool Executor::is_own_thread() const {
  return std::find(std::begin(own_threads_), std::end(own_threads_), std::this_thread::get_id()) !=
         std::end(own_threads_);
}

Ticket Executor::give(const std::shared_ptr<StreamState>& stream, Work work) {
  std::lock_guard lock(mutex_);
  const auto& to = stream ? stream : null_stream_;
  if (to->blocking) {  // the null stream waits for all blocking ones, and they for it
    for (const auto& other : streams_) {
      if (other == to || !other->blocking || other->done == other->given) continue;
      if (to == null_stream_ || other == null_stream_)
        give_locked(*to, to, {.wait_for = Ticket{other, other->given}});
    }
  }
  return give_locked(*to, to, std::move(work));
}

Ticket Executor::give_locked(StreamState& stream, const std::shared_ptr<StreamState>& shared,
                             Work work) {
  stream.work.push_back(std::move(work));
  ++stream.given;
  ++given_;
  idle_ = false;
  if (asleep_) more_.notify_one();
  return {shared, stream.given};
}

std::shared_ptr<StreamState> Executor::create_stream(bool blocking) {
  auto stream = std::make_shared<StreamState>();
  stream->blocking = blocking;
  std::lock_guard lock(mutex_);
  streams_.push_back(stream);
  return stream;
}

void Executor::destroy_stream(const std::shared_ptr<StreamState>& stream) {
  std::lock_guard lock(mutex_);
  stream->destroyed = true;  // and goes when its work is done
  more_.notify_one();
}

Ticket Executor::end_of(const std::shared_ptr<StreamState>& stream) {
  std::lock_guard lock(mutex_);
  const auto& of = stream ? stream : null_stream_;
  return {of, of->given};
}

bool Executor::reached_locked(const Ticket& ticket) {
  return !ticket.stream || ticket.stream->done >= ticket.sequence;
}

bool Executor::reached(const Ticket& ticket) {
  std::lock_guard lock(mutex_);
  if (reached_locked(ticket)) return true;
  ++nudges_;
  more_.notify_one();
  return false;
}

void Executor::wait(const Ticket& ticket) {
  std::unique_lock lock(mutex_);
  if (reached_locked(ticket)) return;
  wanted_.push_back(&ticket);
  more_.notify_one();
  reached_.wait(lock, [&] { return reached_locked(ticket); });
  wanted_.erase(std::find(wanted_.begin(), wanted_.end(), &ticket));
}

void Executor::wait_for_all() {
  std::vector<Ticket> ends;
  {
    std::lock_guard lock(mutex_);
    for (const auto& stream : streams_) ends.push_back({stream, stream->given});
  }
  for (const Ticket& end : ends) wait(end);
}

cudaError_t Executor::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Executor::set_failure(cudaError_t error) {
  std::lock_guard lock(mutex_);
  if (failure_ == cudaSuccess) failure_ = error;
}

void Executor::fail_work(std::uint64_t nth, cudaError_t error) {
  std::lock_guard lock(mutex_);
  failing_in_ = nth;
  failing_with_ = error;
}

void Executor::reset() {
  std::lock_guard lock(mutex_);
  failure_ = cudaSuccess;
  failing_in_ = 0;
}

void Executor::set_seed(std::uint64_t seed) {
  wait_for_all();  // whose threads choose by it
  std::lock_guard lock(mutex_);
  random_ = Random(seed);
}

bool Executor::wanted() const {
  if (idle_ || nudges_ > 0) return true;
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [](const Ticket* ticket) { return !reached_locked(*ticket); });
}

bool Executor::can_run(const StreamState& stream) const {
  if (stream.work.empty() || stream.on_host) return false;
  const auto& wait_for = stream.work.front().wait_for;
  return !wait_for || reached_locked(*wait_for);
}

std::shared_ptr<StreamState> Executor::choose() {
  if (burst_ > 0 && favourite_ && can_run(*favourite_)) {
    --burst_;
    return favourite_;
  }
  std::erase_if(streams_, [](const auto& s) { return s->destroyed && s->done == s->given; });
  std::vector<std::shared_ptr<StreamState>> able;
  for (const auto& stream : streams_)
    if (can_run(*stream)) able.push_back(stream);
  if (able.empty()) return nullptr;
  constexpr std::uint32_t kBursts[] = {0, 3, 30, 1000};
  burst_ = kBursts[random_.below(4)];
  favourite_ = able[random_.below(static_cast<std::uint32_t>(able.size()))];
  return favourite_;
}

void Executor::take_one(std::unique_lock<std::mutex>& lock,
                        const std::shared_ptr<StreamState>& stream) {
  Work work = std::move(stream->work.front());
  stream->work.pop_front();
  if (work.host && failure_ == cudaSuccess) {
    stream->on_host = true;
    host_work_.emplace_back(stream, std::move(work.host));
    host_more_.notify_one();
    return;
  }
  if (work.can_fail && failing_in_ > 0 && --failing_in_ == 0 && failure_ == cudaSuccess)
    failure_ = failing_with_;
  if (work.run && failure_ == cudaSuccess) {
    lock.unlock();
    work.run();
    work.run = nullptr;
    lock.lock();
  }
  ++stream->done;
  reached_.notify_all();
}

void Executor::sleep(std::unique_lock<std::mutex>& lock) {
  asleep_ = true;
  more_.wait(lock);
  asleep_ = false;
}

void Executor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!wanted()) {
      if (protects_) Memory::get().close();
      const auto given = given_;
      const bool pending = std::any_of(streams_.begin(), streams_.end(),
                                       [this](const auto& s) { return can_run(*s); });
      if (!pending)
        sleep(lock);
      else if (more_.wait_for(lock, kPatience) == std::cv_status::timeout && given == given_)
        idle_ = true;
      continue;
    }
    if (const auto stream = choose()) {
      if (nudges_ > 0) --nudges_;
      if (protects_) Memory::get().open();
      take_one(lock, stream);
    } else {
      nudges_ = 0;
      idle_ = false;
      if (protects_) Memory::get().close();
      sleep(lock);
    }
  }
}

void Executor::run_host_functions() {
  std::unique_lock lock(mutex_);
  for (;;) {
    host_more_.wait(lock, [this] { return !host_work_.empty(); });
    auto [stream, function] = std::move(host_work_.front());
    host_work_.pop_front();
    lock.unlock();
    function();
    function = nullptr;
    lock.lock();
    stream->on_host = false;
    ++stream->done;
    reached_.notify_all();
    more_.notify_one();
  }
}

}  // namespace cuda_emulation
