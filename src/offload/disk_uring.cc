#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/disk_backend.h"

namespace barge {
namespace {

constexpr std::uint64_t kWakeId = UINT64_MAX;
constexpr std::size_t kMaxRegistered = 1_GiB;  // of one buffer, by the kernel's rule
constexpr unsigned kMaxBuffers = 32;

class UringBackend final : public DiskBackend {
 public:
  explicit UringBackend(int depth) {
    // One entry more for the poll that `wake` ends.
    const int failure = io_uring_queue_init(static_cast<unsigned>(depth) + 1, &ring_, 0);
    if (failure < 0)
      throw IoError(concat("io_uring is refused here: ", std::strerror(-failure),
                           failure == -EPERM || failure == -ENOSYS
                               ? " (containers often forbid it; `--io pread` does without)"
                               : " (`--io pread` does without)"));
    wake_descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_descriptor_ < 0) {
      const int reason = errno;
      io_uring_queue_exit(&ring_);
      throw IoError(concat("cannot make an eventfd for io_uring: ", std::strerror(reason)));
    }
    arm_wake();
  }
  UringBackend(const UringBackend&) = delete;
  UringBackend& operator=(const UringBackend&) = delete;

  ~UringBackend() override {
    io_uring_queue_exit(&ring_);
    ::close(wake_descriptor_);
  }

  std::string name() const override { return "io_uring"; }

  // The kernel's table has gaps, so that owners of memory can come and go while requests of others
  // are under way.
  std::string register_memory(std::span<const std::span<std::byte>> buffers) override {
    if (registered_.empty()) {
      if (io_uring_register_buffers_sparse(&ring_, kMaxBuffers) < 0) return {};  // old kernel
      registered_.resize(kMaxBuffers);
    }
    std::size_t bytes = 0;
    int failure = 0;
    for (std::span<std::byte> buffer : buffers) {
      bytes += buffer.size();
      for (; !buffer.empty(); buffer = buffer.subspan(std::min(buffer.size(), kMaxRegistered))) {
        const iovec part{buffer.data(), std::min(buffer.size(), kMaxRegistered)};
        if (failure >= 0) failure = set_buffer({}, part);
      }
    }
    if (failure >= 0) return {};
    unregister_memory(buffers);
    return concat(format_bytes(bytes),
                  " of buffers stay unregistered with io_uring: ", std::strerror(-failure),
                  failure == -ENOMEM ? " (limit: ulimit -l)" : "");
  }

  void unregister_memory(std::span<const std::span<std::byte>> buffers) override {
    for (const std::span<std::byte> buffer : buffers)
      for (const iovec& part : std::vector<iovec>(registered_)) {
        const auto* const at = static_cast<std::byte*>(part.iov_base);
        if (at != nullptr && at >= buffer.data() && at < buffer.data() + buffer.size())
          set_buffer(part, {});
      }
  }

  void submit(const DiskPiece& piece) override {
    io_uring_sqe* entry = next_entry();
    const auto bytes = static_cast<unsigned>(piece.bytes);
    const int buffer = registered_index(piece);
    if (buffer >= 0 && piece.write)
      io_uring_prep_write_fixed(entry, piece.descriptor, piece.data, bytes, piece.offset, buffer);
    else if (buffer >= 0)
      io_uring_prep_read_fixed(entry, piece.descriptor, piece.data, bytes, piece.offset, buffer);
    else if (piece.write)
      io_uring_prep_write(entry, piece.descriptor, piece.data, bytes, piece.offset);
    else
      io_uring_prep_read(entry, piece.descriptor, piece.data, bytes, piece.offset);
    io_uring_sqe_set_data64(entry, piece.id);
  }

  void wait(std::vector<DiskResult>& results) override {
    const int failure = io_uring_submit_and_wait(&ring_, 1);
    // EAGAIN and EBUSY: the kernel is short of memory or of room for results; take those there
    // are, and the next wait tries again.
    if (failure < 0 && failure != -EINTR && failure != -EAGAIN && failure != -EBUSY)
      throw IoError(concat("io_uring broke: ", std::strerror(-failure)));
    std::array<io_uring_cqe*, 64> batch;
    while (const unsigned count = io_uring_peek_batch_cqe(&ring_, batch.data(), batch.size())) {
      for (unsigned i = 0; i < count; ++i) {
        const std::uint64_t id = io_uring_cqe_get_data64(batch[i]);
        if (id == kWakeId)
          woken_ = true;
        else
          results.push_back({id, batch[i]->res});
      }
      io_uring_cq_advance(&ring_, count);
    }
    if (std::exchange(woken_, false)) {
      std::uint64_t count = 0;
      // Nothing there means that a wait before took it: both are fine.
      [[maybe_unused]] const ssize_t got = ::read(wake_descriptor_, &count, sizeof count);
      arm_wake();
    }
  }

  void wake() override {
    const std::uint64_t one = 1;
    // It can only fail when 2^64 - 2 wakes are pending: it is awake then.
    [[maybe_unused]] const ssize_t done = ::write(wake_descriptor_, &one, sizeof one);
  }

 private:
  io_uring_sqe* next_entry() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {  // entries of an earlier wait that the kernel didn't take
      io_uring_submit(&ring_);
      entry = io_uring_get_sqe(&ring_);
    }
    if (entry == nullptr) throw IoError("io_uring takes no more requests");
    return entry;
  }

  void arm_wake() {
    io_uring_sqe* entry = next_entry();
    io_uring_prep_poll_add(entry, wake_descriptor_, POLLIN);
    io_uring_sqe_set_data64(entry, kWakeId);
  }

  // Puts `now` where `before` is in the table of registered buffers. Minus errno if refused.
  int set_buffer(const iovec& before, const iovec& now) {
    for (std::size_t i = 0; i < registered_.size(); ++i) {
      if (registered_[i].iov_base != before.iov_base) continue;
      const __u64 tag = 0;
      const int failure =
          io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(i), &now, &tag, 1);
      // An address that can't be taken out of the kernel's table must still not be used again.
      if (failure >= 0 || now.iov_base == nullptr) registered_[i] = now;
      return failure;
    }
    return -ENOSPC;
  }

  // Of the registered buffer that holds the whole piece; -1: none does.
  int registered_index(const DiskPiece& piece) const {
    for (std::size_t i = 0; i < registered_.size(); ++i) {
      const auto* const begin = static_cast<std::byte*>(registered_[i].iov_base);
      if (begin != nullptr && piece.data >= begin &&
          piece.data + piece.bytes <= begin + registered_[i].iov_len)
        return static_cast<int>(i);
    }
    return -1;
  }

  io_uring ring_{};
  int wake_descriptor_ = -1;
  bool woken_ = false;
  std::vector<iovec> registered_;  // the kernel's table; no address: free
};

}  // namespace

std::unique_ptr<DiskBackend> make_uring_backend(int depth) {
  return std::make_unique<UringBackend>(depth);
}

}  // namespace barge
