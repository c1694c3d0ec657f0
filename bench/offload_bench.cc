// How fast bytes go to and from the disk: DiskQueue at the sizes of pack panels and of KV requests,
// the weight ring with nobody computing, and the KV store's leases; each beside fio on the same
// file with the same requests, in alternation, for cloud disks change their mind. Medians.
//   build/release/bench/offload_bench [DIRECTORY [MiB [SUBJECT [ROUNDS]]]]
// works on files of its own in DIRECTORY (default: the current one), past the page cache. Subjects:
// ring, kv, read, randread, randwrite (the queue on io_uring), pread (the queue without), all.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "beside_fio.h"
#include "core/bytes.h"
#include "core/cpu_device.h"
#include "core/errors.h"
#include "offload/checksum.h"
#include "offload/disk_queue.h"
#include "offload/kv_store.h"
#include "offload/pack.h"
#include "offload/weight_store.h"

namespace barge {
namespace {

constexpr std::int64_t kCols = 4096;
constexpr std::size_t kWindowBytes = 32_MiB;  // of requests under way in the queue's tests
constexpr int kDepth = 32;

// A pack of `matrices` bf16 matrices of 2048 x 4096 (16 MiB each), all different.
void write_pack(const std::filesystem::path& path, int matrices) {
  PackWriter writer(path);
  std::uint64_t state = 1;
  for (int m = 0; m < matrices; ++m) {
    const auto& panels = writer.begin(concat("m", m), PackTensor::Kind::kMatrix, 2048, kCols,
                                      {.encoding = Encoding::kBF16});
    for (const PackPanel& panel : panels) {
      std::vector<std::byte> bytes(panel.layout.bytes);
      auto* const words = reinterpret_cast<std::uint64_t*>(bytes.data());
      for (std::size_t i = 0; i < bytes.size() / 8; ++i)
        words[i] = state = state * 6364136223846793005u + 1442695040888963407u;
      writer.write(bytes);
    }
  }
  writer.finish("", "");
}

// One second of requests of one size, a window of them under way, in order or anywhere.
Achieved drive_queue(DiskQueue& queue, const DiskFile& file, std::span<std::byte> memory,
                     std::size_t request_bytes, bool random, bool write) {
  const std::size_t slots = std::min<std::size_t>(2 * kDepth, memory.size() / request_bytes);
  const auto places = static_cast<std::size_t>(file.bytes()) / request_bytes;
  std::mt19937_64 generator(1);
  return measure([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    std::deque<Event> under_way;
    std::size_t count = 0;
    while (std::chrono::steady_clock::now() < end) {
      if (under_way.size() == slots) {
        under_way.front().wait();
        under_way.pop_front();
      }
      const std::uint64_t at = (random ? generator() : count) % places * request_bytes;
      const auto bytes = memory.subspan(count % slots * request_bytes, request_bytes);
      under_way.push_back(write
                              ? queue.write(file, at, bytes)
                              : queue.read(file, at, bytes,
                                           random ? IoPriority::kKvRead : IoPriority::kWeightRead));
      ++count;
    }
    for (const Event& event : under_way) event.wait();
    return count * request_bytes;
  });
}

void bench_queue(DiskQueue::Io io, const std::string& pattern, const DiskFile& file,
                 const std::string& path, int rounds) {
  Budgets budgets{1_GiB, 1_GiB, 1_GiB};
  CpuDevice device({.threads = 1}, budgets);
  const Buffer buffer = device.allocate(Tier::kHost, kWindowBytes, "bench");
  const std::span<std::byte> memory(buffer.data(), buffer.bytes());
  DiskQueue queue({.io = io, .depth = kDepth});
  queue.register_memory({&memory, 1});
  for (const std::size_t request : {64_KiB, 256_KiB, 1_MiB, 4_MiB}) {
    const std::size_t depth = std::min<std::size_t>(kDepth, kWindowBytes / request);
    compare(concat(queue.backend(), ", ", pattern, " of ", request / 1024, " KiB"), rounds,
            {.file = path,
             .pattern = pattern.c_str(),
             .request_bytes = request,
             .depth = static_cast<int>(depth),
             .file_bytes = static_cast<std::size_t>(file.bytes())},
            [&] {
              return drive_queue(queue, file, memory, request, pattern.starts_with("rand"),
                                 pattern.ends_with("write"));
            });
  }
  queue.unregister_memory({&memory, 1});
}

// Last, for it writes: in the order of a pack, and anywhere, as KV pages lie.
void bench_queues(const std::filesystem::path& directory, std::size_t bytes, int rounds,
                  const std::function<bool(const char*)>& wanted) {
  const DiskFile scratch = DiskFile::scratch(directory);
  // fio gets at the nameless file through us.
  const std::string path = concat("/proc/", getpid(), "/fd/", scratch.descriptor());
  std::filesystem::resize_file(path, bytes);
  fio_rate({.file = path,
            .pattern = "write",
            .request_bytes = 4_MiB,
            .depth = 4,
            .file_bytes = bytes,
            .seconds = 2});
  for (const char* const pattern : {"read", "randread", "randwrite"}) {
    if (wanted(pattern)) bench_queue(DiskQueue::Io::kUring, pattern, scratch, path, rounds);
    if (wanted("pread")) bench_queue(DiskQueue::Io::kPread, pattern, scratch, path, rounds);
  }
}

void bench_ring(const Pack& pack, double link, int rounds) {
  Budgets budgets{1_GiB, 1_GiB, 1_GiB};
  CpuDevice device({.threads = 1, .emulate_link = link}, budgets);
  DiskQueue queue({});
  std::vector<int> visits;
  std::vector<std::vector<Tier>> homes;
  for (const PackTensor& tensor : pack.tensors()) {
    visits.push_back(static_cast<int>(visits.size()));
    homes.emplace_back(tensor.panels.size(), Tier::kDisk);
  }
  for (const std::size_t ring : {12_MiB, 32_MiB, 64_MiB}) {
    WeightStore store(pack, visits, homes, device, queue,
                      {.ring_bytes = ring, .staging_bytes = link > 0 ? ring : 0});
    const auto sweep = [&] {
      return measure([&] {
        std::int64_t rows = 0;
        while (rows < 2048 * static_cast<std::int64_t>(visits.size())) {
          WeightStore::Run run = store.next();
          for (const WeightPanel& panel : run.panels) rows += panel.layout.rows;
          device.compute().wait(run.ready);
          store.release(std::move(run), device.compute().record());
        }
        device.compute().record().wait();
        return pack.bytes();
      });
    };
    const FioJob job{.file = pack.file(0).path(),
                     .request_bytes = 512_KiB,
                     .depth = kDepth,
                     .file_bytes = pack.bytes()};
    const std::string what =
        concat("weight ring of ", format_bytes(ring), link > 0 ? ", emulated link" : "");
    compare(concat(what, ", checksums verified"), 1, job, sweep);
    compare(concat(what, ", later sweeps"), rounds, job, sweep);
  }
}

// 16 sequences of 2,000 positions in one layer after the other, four of them a lease, one lease
// ahead: first written in chunks, then read.
void bench_kv(const std::filesystem::path& directory, const std::string& fio_file,
              std::size_t fio_bytes, int bits, int rounds) {
  constexpr int kLayers = 6, kSequences = 16, kTogether = 4, kPositions = 2000, kChunk = 250;
  Budgets budgets{1_GiB, 1_GiB, 4_GiB};
  CpuDevice device({.threads = 1}, budgets);
  DiskQueue queue({});
  KvStore::Options options{.format = {.encoding = bits == 4 ? Encoding::kQ4 : Encoding::kF16,
                                      .kv_heads = 4,
                                      .head_dim = 64,
                                      .group = 64},
                           .layers = kLayers,
                           .page_positions = 64,
                           .share = {0, 0, 1},
                           .disk_directory = directory};
  const std::size_t page = round_up(64 * options.format.record_bytes(), kSectorBytes);
  const std::size_t pages = divide_up(std::size_t{kPositions}, std::size_t{64}) + 1;
  options.capacity_bytes = {0, kSequences * kLayers * page, kSequences * kLayers * pages * page};
  options.staging_bytes = 2 * kTogether * pages * page;
  std::optional<KvStore> kv;
  std::vector<KvStore::SequenceId> sequences;
  const auto pass = [&](int first_position, int rows) {
    std::optional<KvStore::Lease> ahead;
    for (int i = 0; i < kLayers * kSequences / kTogether; ++i) {
      std::vector<KvStore::Span> spans;
      for (int s = 0; s < kTogether; ++s)
        spans.push_back(
            {.sequence =
                 sequences[static_cast<std::size_t>(i % (kSequences / kTogether) * kTogether + s)],
             .first_position = first_position,
             .rows = rows});
      KvStore::Lease lease = kv->open(i / (kSequences / kTogether), spans);
      if (ahead) kv->close(std::move(*ahead), device.compute().record());
      device.compute().wait(lease.ready);
      ahead = std::move(lease);
    }
    kv->close(std::move(*ahead), device.compute().record());
  };
  const auto write = [&] {
    sequences.clear();
    kv.emplace(options, device, queue, budgets.disk);
    for (int s = 0; s < kSequences; ++s)
      sequences.push_back(kv->add(kv->place(kPositions), kPositions));
    return measure([&] {
      for (int at = 0; at < kPositions; at += kChunk) pass(at, kChunk);
      const KvTraffic traffic = kv->traffic();
      return traffic.disk_written_bytes + traffic.disk_read_bytes;
    });
  };
  const auto read = [&] {
    const std::size_t before = kv->traffic().disk_read_bytes;
    return measure([&] {
      pass(kPositions, 0);
      device.compute().record().wait();
      return kv->traffic().disk_read_bytes - before;
    });
  };
  const FioJob job{.file = fio_file,
                   .pattern = "randread",
                   .request_bytes = 512_KiB,
                   .depth = kDepth,
                   .file_bytes = fio_bytes};
  compare(concat("KV store, ", bits, " bits, prompts in chunks of ", kChunk), rounds, job, write);
  compare(
      concat("KV store, ", bits, " bits, leases of ", kTogether, " x ", kPositions, " positions"),
      rounds, job, read);
}

void bench_checksum() {
  const std::vector<std::byte> bytes(64_MiB, std::byte{3});
  std::uint64_t sum = 0;
  const Achieved achieved = measure([&] {
    for (int i = 0; i < 8; ++i) sum += checksum(bytes);
    return 8 * bytes.size();
  });
  std::printf("XXH3-64, one thread %41.3f GB/s%s\n",
              static_cast<double>(achieved.bytes) / achieved.seconds / 1e9, sum == 0 ? "" : " ");
}

int run(int argc, char** argv) {
  const std::filesystem::path directory = argc > 1 ? argv[1] : ".";
  const int mebibytes = argc > 2 ? std::atoi(argv[2]) : 1024;
  const std::string subject = argc > 3 ? argv[3] : "all";
  const int rounds = argc > 4 ? std::max(1, std::atoi(argv[4])) : 3;
  const auto wanted = [&](const char* name) { return subject == "all" || subject == name; };
  const std::filesystem::path path = directory / concat("offload-bench-", getpid());
  write_pack(path, std::max(4, mebibytes / 16));
  {
    const Pack pack(path);
    const std::string file = pack.file(0).path();
    std::printf("%d MiB in %s, %d processors\n", mebibytes, directory.c_str(), usable_processors());
    if (wanted("ring")) {
      bench_checksum();
      bench_ring(pack, 0, rounds);
      bench_ring(pack, 16e9, rounds);
    }
    for (const int bits : {16, 4})
      if (wanted("kv")) bench_kv(directory, file, pack.bytes(), bits, rounds);
    bench_queues(directory, pack.bytes() / 4_MiB * 4_MiB, rounds, wanted);
  }
  std::filesystem::remove_all(path);
  return 0;
}

}  // namespace
}  // namespace barge

int main(int argc, char** argv) {
  try {
    return barge::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
