// How fast weights come from disk: DiskQueue at several request sizes and depths, and the weight
// ring with nobody computing, each beside a bare loop of preads and, where it is installed, fio.
//   build/release/bench/offload_bench [DIRECTORY [MiB]]
// reads a file of its own in DIRECTORY (default: the current one), past the page cache.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "core/errors.h"
#include "offload/checksum.h"
#include "offload/disk_queue.h"
#include "offload/pack.h"
#include "offload/weight_store.h"

namespace barge {
namespace {

constexpr std::int64_t kCols = 4096;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void report(const std::string& what, std::size_t bytes, double seconds, double reference = 0) {
  const double rate = static_cast<double>(bytes) / seconds / 1e9;
  std::printf("%-52s %7.3f GB/s", what.c_str(), rate);
  if (reference > 0) std::printf("  %5.2f of fio", rate / reference);
  std::printf("\n");
  std::fflush(stdout);
}

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

double fio_rate(const std::string& file, std::size_t request_bytes, int depth) {
  const std::string command =
      concat("fio --name=x --filename=", file,
             " --rw=read --direct=1 --ioengine=io_uring --bs=", request_bytes, " --iodepth=", depth,
             " --runtime=2 --time_based --readonly --output-format=terse 2>/dev/null");
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), got);
  if (pclose(pipe) != 0) return 0;
  std::size_t at = 0;  // terse, version 3: field 7 is the read bandwidth in KiB/s
  for (int field = 1; field < 7 && at != std::string::npos; ++field) at = text.find(';', at) + 1;
  return std::atof(text.c_str() + at) * 1024 / 1e9;
}

double queue_seconds(DiskQueue& queue, const DiskFile& file, std::span<std::byte> memory,
                     std::size_t request_bytes, std::size_t total) {
  const std::size_t slots = memory.size() / request_bytes;
  return seconds_of([&] {
    std::deque<Event> reads;
    for (std::size_t at = 0, i = 0; at + request_bytes <= total; at += request_bytes, ++i) {
      if (reads.size() == slots) {
        reads.front().wait();
        reads.pop_front();
      }
      reads.push_back(queue.read(file, at, memory.subspan(i % slots * request_bytes, request_bytes),
                                 IoPriority::kWeightRead));
    }
    for (const Event& read : reads) read.wait();
  });
}

void bench_queue(const Pack& pack, Device& device, double fio) {
  const DiskFile& file = pack.file(0);
  const std::size_t total = pack.bytes() / 4_MiB * 4_MiB;
  const Buffer buffer = device.allocate(Tier::kHost, 32_MiB, "bench");
  const std::span<std::byte> memory(buffer.data(), buffer.bytes());
  const double bare = seconds_of([&] {
    for (std::size_t at = 0; at < total; at += 1_MiB)
      if (pread(file.descriptor(), buffer.data(), 1_MiB, static_cast<off_t>(at)) < 0)
        throw IoError("pread failed");
  });
  report("one thread, pread of 1 MiB", total, bare, fio);
  for (const auto io : {DiskQueue::Io::kUring, DiskQueue::Io::kPread})
    for (const std::size_t piece : {128_KiB, 512_KiB, 1_MiB})
      for (const int depth : {4, 16, 32}) {
        DiskQueue queue({.io = io, .depth = depth, .request_bytes = piece});
        queue.register_memory({&memory, 1});
        const double seconds = queue_seconds(queue, file, memory, 2_MiB, total);
        report(concat(queue.backend(), ", pieces of ", piece / 1024, " KiB, depth ", depth), total,
               seconds, fio);
        queue.unregister_memory({&memory, 1});
      }
}

void bench_ring(const Pack& pack, double link, double fio) {
  Budgets budgets{1_GiB, 1_GiB, 1_GiB};
  CpuDevice device({.threads = 1, .emulate_link = link}, budgets);
  DiskQueue queue({});
  std::vector<int> visits;
  std::vector<std::vector<Tier>> homes;
  for (const PackTensor& tensor : pack.tensors()) {
    visits.push_back(static_cast<int>(visits.size()));
    homes.emplace_back(tensor.panels.size(), Tier::kDisk);
  }
  for (const std::size_t ring : {16_MiB, 32_MiB, 64_MiB}) {
    WeightStore store(pack, visits, homes, device, queue,
                      {.ring_bytes = ring, .staging_bytes = link > 0 ? ring : 0});
    for (int sweep = 0; sweep < 2; ++sweep) {
      std::int64_t rows = 0;
      const double seconds = seconds_of([&] {
        while (rows < 2048 * static_cast<std::int64_t>(visits.size())) {
          WeightStore::Run run = store.next();
          for (const WeightPanel& panel : run.panels) rows += panel.layout.rows;
          const Event ready = run.ready;
          device.compute().wait(ready);
          store.release(std::move(run), device.compute().record());
        }
        device.compute().record().wait();
      });
      report(concat("weight ring of ", format_bytes(ring), link > 0 ? ", emulated link" : "",
                    sweep == 0 ? ", checksums verified" : ", later sweep"),
             pack.bytes(), seconds, fio);
    }
  }
}

void bench_checksum() {
  const std::vector<std::byte> bytes(64_MiB, std::byte{3});
  std::uint64_t sum = 0;
  const double seconds = seconds_of([&] {
    for (int i = 0; i < 8; ++i) sum += checksum(bytes);
  });
  report(sum == 0 ? "" : "XXH3-64, one thread", 8 * bytes.size(), seconds);
}

int run(int argc, char** argv) {
  const std::filesystem::path directory = argc > 1 ? argv[1] : ".";
  const int mebibytes = argc > 2 ? std::atoi(argv[2]) : 1024;
  const std::filesystem::path path = directory / concat("offload-bench-", getpid());
  write_pack(path, std::max(1, mebibytes / 16));
  {
    const Pack pack(path);
    Budgets budgets{1_GiB, 1_GiB, 1_GiB};
    CpuDevice device({.threads = 1}, budgets);
    std::printf("%d MiB in %s, %d processors\n", mebibytes, directory.c_str(), usable_processors());
    double fio = 0;  // the best of three: the first meets caches below us cold
    for (int i = 0; i < 3; ++i) fio = std::max(fio, fio_rate(pack.file(0).path(), 512_KiB, 32));
    if (fio > 0) std::printf("%-52s %7.3f GB/s\n", "fio, io_uring, 512 KiB, depth 32", fio);
    bench_checksum();
    bench_queue(pack, device, fio);
    bench_ring(pack, 0, fio);
    bench_ring(pack, 16e9, fio);
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
