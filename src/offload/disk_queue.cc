#include "offload/disk_queue.h"

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/log.h"
#include "offload/disk_backend.h"
#include "offload/disk_request.h"
#include "offload/disk_schedule.h"
#include "offload/event_gate.h"
#include "offload/traced_disk.h"

namespace barge {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using RequestPointer = std::unique_ptr<DiskRequest>;

std::unique_ptr<DiskBackend> make_backend(const DiskQueue::Options& options) {
  if (options.io == DiskQueue::Io::kPread) return make_pread_backend(options.depth);
  if (options.io == DiskQueue::Io::kUring) return make_uring_backend(options.depth);
  try {
    auto backend = make_uring_backend(options.depth);
    log::debug(concat("disk requests go through io_uring, ", options.depth, " at once"));
    return backend;
  } catch (const IoError& refusal) {
    log::info(concat("disk requests go through pread on threads: ", refusal.what()));
    return make_pread_backend(options.depth);
  }
}

std::unique_ptr<DiskBackend> make_traced_backend(const DiskQueue::Options& options) {
  auto backend = make_backend(options);
  if (options.trace == nullptr) return backend;
  return make_traced_disk(std::move(backend), *options.trace);
}

void check_alignment(const char* what, const DiskFile& file, std::uint64_t offset, const void* data,
                     std::size_t bytes) {
  if ((offset | bytes | reinterpret_cast<std::uintptr_t>(data)) % kSectorBytes == 0) return;
  throw Error(concat("a ", what, " of ", bytes, " bytes at offset ", offset, " of ", file.path(),
                     " with memory at ", data, " isn't aligned to ", kSectorBytes));
}

}  // namespace

class DiskQueue::Impl {
 public:
  Impl(Options options, std::unique_ptr<DiskBackend> backend)
      : schedule_(options), backend_(std::move(backend)) {
    queue_thread_ = std::thread([this] { run(); });
    gate_.emplace();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    gate_.reset();  // what it held back is in the queue now
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    backend_->wake();
    queue_thread_.join();
  }

  Event enqueue(bool write, IoPriority priority, const DiskFile& file, std::uint64_t offset,
                std::byte* data, std::size_t bytes, Event after, Then then, Otherwise otherwise) {
    check_alignment(write ? "write" : "read", file, offset, data, bytes);
    auto request = std::make_unique<DiskRequest>(DiskRequest{.write = write,
                                                             .priority = priority,
                                                             .file = &file,
                                                             .offset = offset,
                                                             .data = data,
                                                             .bytes = bytes,
                                                             .then = std::move(then),
                                                             .otherwise = std::move(otherwise)});
    Event event = request->completion.event();
    if (!after.state()) {
      push(std::move(request));
      return event;
    }
    gate_->call_after(std::move(after),
                      // std::function copies what it holds
                      [this, held = std::make_shared<RequestPointer>(std::move(request))](
                          const std::exception_ptr& failure) {
                        (*held)->failure = failure;
                        push(std::move(*held));
                      });
    return event;
  }

  void call_after(Event event, std::function<void()> work) {
    calls_.call_after(std::move(event),
                      [work = std::move(work)](const std::exception_ptr&) { work(); });
  }

  void register_memory(std::span<const std::span<std::byte>> buffers) {
    std::string outcome;
    on_queue_thread([&] { outcome = backend_->register_memory(buffers); });
    if (!outcome.empty()) log::info(outcome);
  }

  void unregister_memory(std::span<const std::span<std::byte>> buffers) {
    on_queue_thread([&] { backend_->unregister_memory(buffers); });
  }

  DiskTraffic traffic() const {
    const std::scoped_lock lock(mutex_);
    DiskTraffic traffic = traffic_;
    traffic.read_seconds = reading_.seconds();
    traffic.write_seconds = writing_.seconds();
    return traffic;
  }

  std::string backend() const { return backend_->name(); }

 private:
  // The time in which at least one request of a direction was under way.
  class Busy {
   public:
    void begin() {
      if (under_way_++ == 0) since_ = std::chrono::steady_clock::now();
    }
    void end() {
      if (--under_way_ == 0) before_ += passed();
    }
    double seconds() const { return before_ + (under_way_ > 0 ? passed() : 0); }

   private:
    double passed() const {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
    }

    int under_way_ = 0;
    SteadyTime since_;
    double before_ = 0;
  };
  Busy& busy(const DiskRequest& request) { return request.write ? writing_ : reading_; }

  void wake() {
    if (!wake_pending_.exchange(true)) backend_->wake();
  }

  // Runs `work` there, where the backend may be touched; without a queue thread it's not needed.
  void on_queue_thread(std::function<void()> work) {
    std::packaged_task<void()> task(std::move(work));
    std::future<void> done = task.get_future();
    {
      const std::scoped_lock lock(mutex_);
      if (broken_) return;
      tasks_.push_back(std::move(task));
    }
    wake();
    try {
      done.get();
    } catch (const std::future_error&) {  // the backend broke before the task's turn came
    }
  }

  void push(RequestPointer request) {
    std::exception_ptr broken;
    {
      const std::scoped_lock lock(mutex_);
      broken = broken_;
      if (!broken) incoming_.push_back(std::move(request));
    }
    if (broken) return request->completion.fail(broken);
    wake();
  }

  // The queue thread. All below runs on it.
  void run() {
    try {
      std::vector<DiskResult> results;
      while (take_new()) {
        while (const auto piece = schedule_.next()) backend_->submit(*piece);
        backend_->wait(results);
        for (const DiskResult& result : results)
          if (DiskRequest* const over = schedule_.end(result)) finish(over);
        results.clear();
      }
    } catch (...) {
      give_up(std::current_exception());
    }
  }

  // Takes what came in since the last time; false when the queue is to end and nothing is left.
  bool take_new() {
    wake_pending_ = false;  // before looking, so that who comes later wakes us again
    std::vector<RequestPointer> fresh;
    std::vector<std::packaged_task<void()>> tasks;
    {
      const std::scoped_lock lock(mutex_);
      fresh.swap(incoming_);
      tasks.swap(tasks_);
      for (const RequestPointer& request : fresh) busy(*request).begin();
      if (fresh.empty() && tasks.empty() && active_.empty() && stopping_) return false;
    }
    for (auto& task : tasks) task();
    std::vector<DiskRequest*> over;
    for (RequestPointer& request : fresh) {
      DiskRequest* const pointer = request.get();
      active_.emplace(pointer, std::move(request));
      if (pointer->over())  // empty, or what it waited for failed
        over.push_back(pointer);
      else
        schedule_.add(pointer);
    }
    for (DiskRequest* request : over) finish(request);
    return true;
  }

  void finish(DiskRequest* request) {
    const RequestPointer owned = std::move(active_.extract(request).mapped());
    request->follow_up();
    {
      const std::scoped_lock lock(mutex_);
      if (!request->failure) {
        (request->write ? traffic_.written_bytes : traffic_.read_bytes) += request->bytes;
        ++(request->write ? traffic_.writes : traffic_.reads);
      }
      busy(*request).end();
    }
    if (request->failure)
      request->completion.fail(request->failure);
    else
      request->completion.succeed();
  }

  // The backend itself broke: nothing that is under way, or comes later, will end.
  void give_up(const std::exception_ptr& failure) {
    {
      const std::scoped_lock lock(mutex_);
      broken_ = failure;
      tasks_.clear();
      for (RequestPointer& request : incoming_) {
        busy(*request).begin();
        active_.emplace(request.get(), std::move(request));
      }
      incoming_.clear();
    }
    while (!active_.empty()) {
      DiskRequest* const request = active_.begin()->first;
      request->failure = failure;
      finish(request);
    }
  }

  DiskSchedule schedule_;  // of the queue thread alone
  const std::unique_ptr<DiskBackend> backend_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<RequestPointer> incoming_;
  bool stopping_ = false;
  std::exception_ptr broken_;
  std::vector<std::packaged_task<void()>> tasks_;
  DiskTraffic traffic_;  // but for the seconds
  Busy reading_, writing_;

  std::atomic<bool> wake_pending_ = false;

  std::unordered_map<DiskRequest*, RequestPointer> active_;  // of the queue thread alone

  std::thread queue_thread_;
  std::optional<EventGate> gate_;  // of writes; only the destructor empties it
  EventGate calls_;                // apart: no write waits behind what others wait for
};

DiskQueue::DiskQueue(Options options) : DiskQueue(options, make_traced_backend(options)) {}
DiskQueue::DiskQueue(Options options, std::unique_ptr<DiskBackend> backend)
    : impl_(std::make_unique<Impl>(options, std::move(backend))) {}
DiskQueue::~DiskQueue() = default;

void DiskQueue::register_memory(std::span<const std::span<std::byte>> buffers) {
  impl_->register_memory(buffers);
}

void DiskQueue::unregister_memory(std::span<const std::span<std::byte>> buffers) {
  impl_->unregister_memory(buffers);
}

Event DiskQueue::read(const DiskFile& file, std::uint64_t offset, std::span<std::byte> to,
                      IoPriority priority, Then then, Otherwise otherwise) {
  return impl_->enqueue(false, priority, file, offset, to.data(), to.size(), {}, std::move(then),
                        std::move(otherwise));
}

Event DiskQueue::write(const DiskFile& file, std::uint64_t offset, std::span<const std::byte> from,
                       Event after, Then then) {
  // Requests carry one pointer for both directions; a writing one is never written through.
  return impl_->enqueue(true, IoPriority::kWrite, file, offset, const_cast<std::byte*>(from.data()),
                        from.size(), std::move(after), std::move(then), {});
}

void DiskQueue::call_after(Event event, std::function<void()> work) {
  impl_->call_after(std::move(event), std::move(work));
}

DiskTraffic DiskQueue::traffic() const { return impl_->traffic(); }
std::string DiskQueue::backend() const { return impl_->backend(); }

}  // namespace barge
