#include <gmock/gmock.h>

#include <set>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "core/errors.h"
#include "offload/disk_queue.h"
#include "tests/offload/fake_disk.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t kSector = kSectorBytes;

class DiskQueueFaults : public testing::Test {
 protected:
  DiskQueueFaults() {
    for (std::size_t i = 0; i < disk_.bytes.size(); ++i)
      disk_.bytes[i] = static_cast<std::byte>(i / kSector + i % 251);
  }

  std::unique_ptr<DiskQueue> queue(int depth) {
    return std::make_unique<DiskQueue>(
        DiskQueue::Options{.depth = depth, .request_bytes = 2 * kSector}, disk_.backend());
  }
  std::span<std::byte> memory(std::size_t first_sector, std::size_t sectors) const {
    return {buffer_.data() + first_sector * kSector, sectors * kSector};
  }
  bool holds(std::span<const std::byte> memory, std::size_t offset) const {
    return std::equal(memory.begin(), memory.end(), disk_.bytes.begin() + offset);
  }
  std::vector<std::uint64_t> offsets_seen() const {
    std::vector<std::uint64_t> offsets;
    for (const DiskPiece& piece : disk_.seen) offsets.push_back(piece.offset / kSector);
    return offsets;
  }

  Budgets budgets_{1_MiB, 1_MiB, 1_MiB};
  CpuDevice device_{{.threads = 1}, budgets_};
  FakeDisk disk_{32 * kSector};
  Buffer buffer_ = device_.allocate(Tier::kHost, 32 * kSector, "test");
  test::TempDirectory directory_;
  DiskFile file_ = DiskFile::scratch(directory_.path());
};

TEST_F(DiskQueueFaults, CutsLargeRequestsAndSendsThePiecesSideBySide) {
  disk_.close();
  auto queue = this->queue(8);
  const Event read = queue->read(file_, 3 * kSector, memory(0, 7), IoPriority::kKvRead);
  disk_.open();  // pieces end last first
  read.wait();
  queue.reset();
  EXPECT_TRUE(holds(memory(0, 7), 3 * kSector));
  EXPECT_THAT(offsets_seen(), ElementsAre(3, 5, 7, 9));
}

TEST_F(DiskQueueFaults, KeepsNoMoreBytesUnderWayThanItWasTold) {
  std::size_t ended = 0, most = 0;  // of the queue's thread, as all pieces
  disk_.done_of = [&](const DiskPiece& piece) {
    most = std::max(most, disk_.seen.size() - ended++);
    return static_cast<std::int64_t>(piece.bytes);
  };
  auto queue = std::make_unique<DiskQueue>(
      DiskQueue::Options{.depth = 8, .request_bytes = 2 * kSector, .bytes_under_way = 7 * kSector},
      disk_.backend());
  queue->read(file_, 0, memory(0, 16), IoPriority::kKvRead).wait();
  queue.reset();
  EXPECT_EQ(disk_.seen.size(), 8u);
  EXPECT_EQ(most, 3u);
}

TEST_F(DiskQueueFaults, ResubmitsTheRestAfterAShortRead) {
  disk_.done_of = [](const DiskPiece& piece) -> std::int64_t {
    return static_cast<std::int64_t>(std::min(piece.bytes, kSector));
  };
  auto queue = this->queue(2);
  queue->read(file_, 0, memory(0, 5), IoPriority::kKvRead).wait();
  queue.reset();
  EXPECT_TRUE(holds(memory(0, 5), 0));
  EXPECT_EQ(disk_.seen.size(), 5u);
}

TEST_F(DiskQueueFaults, TriesAgainWhenTheSystemSaysSo) {
  std::set<std::uint64_t> refused;
  disk_.done_of = [&](const DiskPiece& piece) -> std::int64_t {
    if (refused.insert(piece.offset).second) return piece.offset == 0 ? -EINTR : -EAGAIN;
    return static_cast<std::int64_t>(piece.bytes);
  };
  queue(2)->read(file_, 0, memory(0, 4), IoPriority::kKvRead).wait();
  EXPECT_TRUE(holds(memory(0, 4), 0));
}

TEST_F(DiskQueueFaults, FailsOnlyTheRequestWhosePieceFailed) {
  disk_.close();
  disk_.done_of = [](const DiskPiece& piece) -> std::int64_t {
    return piece.offset == 4 * kSector ? -EIO : static_cast<std::int64_t>(piece.bytes);
  };
  auto queue = this->queue(2);
  const Event bad = queue->read(file_, 0, memory(0, 16), IoPriority::kWeightRead);
  const Event good = queue->read(file_, 16 * kSector, memory(16, 16), IoPriority::kWeightRead);
  disk_.open();
  EXPECT_THAT(
      [&] { bad.wait(); },
      ThrowsMessage<IoError>(AllOf(HasSubstr("cannot read 65536 bytes at offset 0"),
                                   HasSubstr("Input/output error"), HasSubstr("at offset 16384"))));
  good.wait();
  EXPECT_TRUE(holds(memory(16, 16), 16 * kSector));
  EXPECT_EQ(queue->traffic().reads, 1u);
}

TEST_F(DiskQueueFaults, DropsShortPiecesOfARequestThatFailed) {
  // The first piece comes back short and its rest waits for a slot when the second one fails.
  disk_.close();
  int calls = 0;
  disk_.done_of = [&](const DiskPiece& piece) -> std::int64_t {
    return ++calls == 1 ? kSector : calls == 2 ? -EIO : static_cast<std::int64_t>(piece.bytes);
  };
  auto queue = this->queue(2);
  const Event bad = queue->read(file_, 0, memory(0, 8), IoPriority::kWeightRead);
  disk_.open();
  EXPECT_THROW(bad.wait(), IoError);
  queue->read(file_, 0, memory(8, 8), IoPriority::kWeightRead).wait();
  EXPECT_TRUE(holds(memory(8, 8), 0));
}

TEST_F(DiskQueueFaults, NamesWantedAndFreeWhenTheDiskFillsUp) {
  disk_.done_of = [](const DiskPiece& piece) -> std::int64_t {
    return piece.bytes > kSector ? static_cast<std::int64_t>(kSector) : -ENOSPC;
  };
  const Event write = queue(2)->write(file_, 0, memory(0, 2));
  EXPECT_THAT([&] { write.wait(); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("cannot write 8192 bytes"),
                                           HasSubstr("are free there"), HasSubstr("--disk-dir"),
                                           HasSubstr("--disk-space"))));
}

TEST_F(DiskQueueFaults, SendsUrgentReadsFirstThenKvThenWeightsThenWrites) {
  disk_.close();
  auto queue = this->queue(1);
  const Event first = queue->write(file_, 0, memory(0, 1));
  disk_.await(1);  // it has the only slot: the others wait until all are there
  std::vector<Event> events;
  events.push_back(queue->write(file_, 1 * kSector, memory(1, 1)));
  events.push_back(queue->read(file_, 2 * kSector, memory(2, 1), IoPriority::kWeightRead));
  events.push_back(queue->read(file_, 3 * kSector, memory(3, 1), IoPriority::kKvRead));
  events.push_back(queue->read(file_, 4 * kSector, memory(4, 1), IoPriority::kUrgent));
  disk_.open();
  for (const Event& event : events) event.wait();
  queue.reset();
  EXPECT_THAT(offsets_seen(), ElementsAre(0, 4, 3, 2, 1));
}

TEST_F(DiskQueueFaults, LetsAWriteThroughAStreamOfReads) {
  disk_.close();
  auto queue = this->queue(1);
  const Event write = queue->write(file_, 0, memory(0, 1));
  const Event blocked = queue->write(file_, kSector, memory(0, 1));
  std::vector<Event> reads;
  for (int i = 0; i < 30; ++i)
    reads.push_back(queue->read(file_, 2 * kSector, memory(2, 1), IoPriority::kKvRead));
  disk_.open();
  blocked.wait();
  for (const Event& read : reads) read.wait();
  queue.reset();
  const auto offsets = offsets_seen();
  const auto place = std::find(offsets.begin(), offsets.end(), 1) - offsets.begin();
  EXPECT_LE(place, 16);
}

TEST_F(DiskQueueFaults, WritesOnlyAfterTheEventAndFailsWithIt) {
  auto queue = this->queue(2);
  Completion gate, broken;
  const Event write = queue->write(file_, 0, memory(0, 1), gate.event());
  const Event failed = queue->write(file_, kSector, memory(1, 1), broken.event());
  queue->read(file_, 8 * kSector, memory(8, 1), IoPriority::kKvRead).wait();  // isn't held up
  EXPECT_FALSE(write.done());
  memory(0, 1)[5] = std::byte{77};
  gate.succeed();
  write.wait();
  EXPECT_EQ(disk_.bytes[5], std::byte{77});
  broken.fail(std::make_exception_ptr(Error("the kernel before it failed")));
  EXPECT_THAT([&] { failed.wait(); }, ThrowsMessage<Error>(HasSubstr("kernel before it")));
  queue.reset();
  for (const DiskPiece& piece : disk_.seen) EXPECT_NE(piece.offset, kSector);
}

TEST_F(DiskQueueFaults, FailsEverythingWhenTheBackendBreaks) {
  class Broken final : public DiskBackend {
   public:
    std::string name() const override { return "broken"; }
    void submit(const DiskPiece&) override { throw IoError("the backend broke"); }
    void wait(std::vector<DiskResult>&) override {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return std::exchange(woken_, false); });
    }
    void wake() override {
      {
        const std::scoped_lock lock(mutex_);
        woken_ = true;
      }
      changed_.notify_all();
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool woken_ = false;
  };
  DiskQueue queue({.depth = 2}, std::make_unique<Broken>());
  for (int i = 0; i < 3; ++i) {
    const Event read = queue.read(file_, 0, memory(0, 1), IoPriority::kKvRead);
    EXPECT_THAT([&] { read.wait(); }, ThrowsMessage<IoError>(HasSubstr("backend broke")));
  }
}

}  // namespace
}  // namespace barge
