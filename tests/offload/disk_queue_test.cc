#include "offload/disk_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "core/errors.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Whether io_uring is to be had here; where it isn't, tests of it are skipped by name.
bool has_uring() {
  try {
    DiskQueue queue({.io = DiskQueue::Io::kUring, .depth = 1});
    return true;
  } catch (const IoError&) {
    return false;
  }
}

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::minstd_rand generator(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator() >> 8);
  return bytes;
}

struct Kind {
  DiskQueue::Io io;
  DiskFile::Access access;
};

class DiskQueueTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().io == DiskQueue::Io::kUring && !has_uring())
      GTEST_SKIP() << "io_uring is not to be had on this machine";
  }

  Buffer buffer(std::size_t bytes) { return device_.allocate(Tier::kHost, bytes, "test"); }
  std::span<std::byte> all(const Buffer& buffer) { return {buffer.data(), buffer.bytes()}; }
  DiskQueue::Options options(std::size_t request_bytes, int depth) const {
    return {.io = GetParam().io, .depth = depth, .request_bytes = request_bytes};
  }

  Budgets budgets_{64_MiB, 64_MiB, 64_MiB};
  CpuDevice device_{{.threads = 1}, budgets_};
  test::TempDirectory directory_;
};

TEST_P(DiskQueueTest, ReadsBackWhatItWroteInRequestsLargerThanAPiece) {
  DiskQueue queue(options(8192, 4));
  const DiskFile file = DiskFile::scratch(directory_.path(), GetParam().access);
  const Buffer out = buffer(13 * 4096), in = buffer(13 * 4096);
  const auto content = random_bytes(out.bytes(), 1);
  std::copy(content.begin(), content.end(), out.data());
  queue.write(file, 4096, all(out)).wait();
  bool then_ran = false;
  queue.read(file, 4096, all(in), IoPriority::kKvRead, [&] { then_ran = true; }).wait();
  EXPECT_TRUE(then_ran);
  EXPECT_TRUE(std::equal(content.begin(), content.end(), in.data()));
  const DiskTraffic traffic = queue.traffic();
  EXPECT_EQ(traffic.read_bytes, in.bytes());
  EXPECT_EQ(traffic.written_bytes, out.bytes());
  EXPECT_EQ(traffic.reads, 1u);
  EXPECT_EQ(traffic.writes, 1u);
  EXPECT_GT(traffic.read_seconds, 0);
  EXPECT_GT(traffic.write_seconds, 0);
}

TEST_P(DiskQueueTest, KeepsManyRequestsOfSeveralThreadsApart) {
  DiskQueue queue(options(16384, 8));
  const DiskFile file = DiskFile::scratch(directory_.path(), GetParam().access);
  constexpr std::size_t kThreads = 3, kRequests = 40, kBytes = 5 * 4096;
  const Buffer memory = buffer(2 * kThreads * kRequests * kBytes);
  const std::span<std::byte> buffers[] = {all(memory)};
  queue.register_memory(buffers);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::vector<Event> writes, reads;
      const auto slot = [&](std::size_t half, std::size_t i) {
        return all(memory).subspan(((half * kThreads + t) * kRequests + i) * kBytes, kBytes);
      };
      const auto offset = [&](std::size_t i) { return (t * kRequests + i) * kBytes; };
      for (std::size_t i = 0; i < kRequests; ++i) {
        std::ranges::copy(random_bytes(kBytes, static_cast<unsigned>(1 + t * kRequests + i)),
                          slot(0, i).begin());
        writes.push_back(queue.write(file, offset(i), slot(0, i)));
      }
      for (std::size_t i = kRequests; i-- > 0;) {
        writes[i].wait();
        reads.push_back(queue.read(file, offset(i), slot(1, i), IoPriority::kWeightRead));
      }
      for (const Event& read : reads) read.wait();
      for (std::size_t i = 0; i < kRequests; ++i)
        if (!std::ranges::equal(slot(0, i), slot(1, i))) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  queue.unregister_memory(buffers);
  EXPECT_EQ(wrong, 0);
}

TEST_P(DiskQueueTest, NamesFileOffsetWantedAndGotWhenTheFileEndsEarly) {
  const auto path = directory_.path() / "w.bin";
  const Buffer memory = buffer(8 * 4096);
  {
    const DiskFile file = DiskFile::scratch(directory_.path(), GetParam().access);
    FILE* const plain = fopen(path.c_str(), "wb");
    const std::vector<char> content(2 * 4096 + 100, 'x');
    ASSERT_EQ(fwrite(content.data(), 1, content.size(), plain), content.size());
    fclose(plain);
  }
  DiskQueue queue(options(4096, 4));
  const DiskFile file = DiskFile::open(path, GetParam().access);
  const Event read = queue.read(file, 4096, all(memory), IoPriority::kWeightRead);
  EXPECT_THAT([&] { read.wait(); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("cannot read 32768 bytes at offset 4096"),
                                           HasSubstr("w.bin"), HasSubstr("bytes too early"))));
  EXPECT_EQ(queue.traffic().reads, 0u);
  queue.read(file, 0, all(memory).first(8192), IoPriority::kWeightRead).wait();  // still works
  EXPECT_EQ(memory.data()[8191], std::byte{'x'});
}

TEST_P(DiskQueueTest, CarriesTheFailureOfThenInTheEvent) {
  DiskQueue queue(options(4096, 4));
  const DiskFile file = DiskFile::scratch(directory_.path(), GetParam().access);
  const Buffer memory = buffer(4096);
  queue.write(file, 0, all(memory)).wait();
  std::string told;
  const Event read = queue.read(
      file, 0, all(memory), IoPriority::kKvRead, [] { throw FormatError("a bad checksum"); },
      [&](const std::exception_ptr& failure) {
        try {
          std::rethrow_exception(failure);
        } catch (const FormatError& error) {
          told = error.what();
        }
      });
  EXPECT_THAT([&] { read.wait(); }, ThrowsMessage<FormatError>(HasSubstr("a bad checksum")));
  EXPECT_EQ(told, "a bad checksum");
}

TEST_P(DiskQueueTest, ReadsIntoMemoryWhoseAddressWasRegisteredBefore) {
  DiskQueue queue(options(4096, 4));
  const DiskFile file = DiskFile::scratch(directory_.path(), GetParam().access);
  Buffer out = buffer(64 * 4096);
  std::fill_n(out.data(), out.bytes(), std::byte{7});
  queue.write(file, 0, all(out)).wait();
  for (int i = 0; i < 3; ++i) {
    // The system hands out the same address again, with other pages behind it.
    const Buffer in = buffer(64 * 4096);
    const std::span<std::byte> buffers[] = {all(in)};
    if (i != 1) queue.register_memory(buffers);
    queue.read(file, 0, all(in), IoPriority::kKvRead).wait();
    EXPECT_TRUE(std::equal(in.data(), in.data() + in.bytes(), out.data())) << i;
    queue.unregister_memory(buffers);
  }
}

TEST_P(DiskQueueTest, EndsWhatIsUnderWayWhenItIsDestroyed) {
  const DiskFile file = DiskFile::scratch(directory_.path(), GetParam().access);
  const Buffer memory = buffer(1_MiB);
  Completion gate;
  std::vector<Event> events;
  std::atomic<int> thens = 0;
  {
    DiskQueue queue(options(4096, 2));
    for (int i = 0; i < 8; ++i)
      events.push_back(queue.write(file, 0, all(memory), gate.event(), [&] { ++thens; }));
    gate.succeed();
  }
  for (const Event& event : events) {
    EXPECT_TRUE(event.done());
    event.wait();
  }
  EXPECT_EQ(thens, 8);
}

TEST_P(DiskQueueTest, NamesTheSpaceWhenTheDiskIsFull) {
  // A file size limit would give EFBIG; a write past what a small tmpfs holds needs rights to mount
  // one. /dev/full refuses every write as a full disk does.
  const Buffer memory = buffer(4096);
  DiskQueue queue(options(4096, 2));
  const DiskFile file = DiskFile::open("/dev/full", DiskFile::Access::kBuffered);
  const int writable = ::open("/dev/full", O_RDWR);
  ASSERT_GE(writable, 0);
  ASSERT_GE(dup2(writable, file.descriptor()), 0);
  ::close(writable);
  const Event write = queue.write(file, 0, all(memory));
  EXPECT_THAT([&] { write.wait(); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("cannot write 4096 bytes"),
                                           HasSubstr("--disk-dir"), HasSubstr("--disk-space"))));
}

TEST_P(DiskQueueTest, ThrowsAtOnceForWhatIsNotAligned) {
  DiskQueue queue(options(4096, 2));
  const DiskFile file = DiskFile::scratch(directory_.path(), GetParam().access);
  const Buffer memory = buffer(3 * 4096);
  const auto bytes = all(memory);
  EXPECT_THROW(queue.read(file, 1, bytes, IoPriority::kKvRead), Error);
  EXPECT_THROW(queue.read(file, 0, bytes.first(4097), IoPriority::kKvRead), Error);
  EXPECT_THROW(queue.write(file, 0, bytes.subspan(512, 4096)), Error);
  queue.read(file, 0, bytes.first(0), IoPriority::kKvRead).wait();  // nothing is aligned
}

TEST(DiskFile, LeavesNoNameBehind) {
  const test::TempDirectory directory;
  const DiskFile file = DiskFile::scratch(directory.path());
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_EQ(file.bytes(), 0u);
  EXPECT_THAT([&] { DiskFile::scratch(directory.path() / "missing"); },
              ThrowsMessage<IoError>(HasSubstr("--disk-dir")));
  EXPECT_THAT([&] { DiskFile::open(directory.path() / "missing"); },
              ThrowsMessage<IoError>(HasSubstr("missing")));
}

INSTANTIATE_TEST_SUITE_P(Backends, DiskQueueTest,
                         testing::Values(Kind{DiskQueue::Io::kUring, DiskFile::Access::kDirect},
                                         Kind{DiskQueue::Io::kUring, DiskFile::Access::kBuffered},
                                         Kind{DiskQueue::Io::kPread, DiskFile::Access::kDirect},
                                         Kind{DiskQueue::Io::kPread, DiskFile::Access::kBuffered}),
                         [](const auto& info) {
                           return concat(info.param.io == DiskQueue::Io::kUring ? "Uring" : "Pread",
                                         info.param.access == DiskFile::Access::kDirect
                                             ? "Direct"
                                             : "Buffered");
                         });

}  // namespace
}  // namespace barge
