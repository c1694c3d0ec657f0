#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace barge {

/// What fio should do, past the page cache, through io_uring.
struct FioJob {
  std::string file;
  const char* pattern = "read";  // as --rw
  std::size_t request_bytes = 0;
  int depth = 0;
  std::size_t file_bytes = 0;
  int seconds = 1;
};

/// Bytes per second, or 0 where fio isn't installed or fails. With the options that make it
/// fastest: memory in huge pages and registered, as ours is, unless that is refused.
inline double fio_rate(const FioJob& job, bool registered = true) {
  std::ostringstream command;
  command << "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --name=limit --filename=" << job.file
          << " --rw=" << job.pattern << " --bs=" << job.request_bytes << " --iodepth=" << job.depth
          << " --size=" << job.file_bytes << " --runtime=" << job.seconds
          << " --time_based --direct=1 --ioengine=io_uring --norandommap --output-format=terse"
          << (registered ? " --fixedbufs=1 --registerfiles=1" : "") << " 2>/dev/null";
  FILE* const pipe = popen(command.str().c_str(), "r");
  if (pipe == nullptr) return 0;
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), got);
  if (pclose(pipe) != 0) return registered ? fio_rate(job, false) : 0;
  std::vector<std::string> fields;
  std::istringstream in(text);
  for (std::string field; std::getline(in, field, ';');) fields.push_back(field);
  // Terse output, version 3: fields 7 and 48 are the bandwidths of reads and writes in KiB/s.
  if (fields.size() < 48) return 0;
  return 1024 * (std::atof(fields[6].c_str()) + std::atof(fields[47].c_str()));
}

/// What was moved, and what it took.
struct Achieved {
  std::size_t bytes = 0;
  double seconds = 0, processor_seconds = 0;
};

inline double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// `work` returns the bytes that it moved.
inline Achieved measure(const std::function<std::size_t()>& work) {
  const double used = processor_seconds();
  const auto begin = std::chrono::steady_clock::now();
  Achieved achieved{.bytes = work()};
  achieved.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  achieved.processor_seconds = processor_seconds() - used;
  return achieved;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Ours and fio's in turn; the ratio is of neighbours.
inline void compare(const std::string& what, int rounds, const FioJob& job,
                    const std::function<Achieved()>& ours) {
  std::vector<double> rates, limits, ratios, costs;
  for (int i = 0; i < rounds; ++i) {
    const double limit = fio_rate(job);
    const Achieved achieved = ours();
    const auto bytes = static_cast<double>(achieved.bytes);
    rates.push_back(bytes / achieved.seconds);
    costs.push_back(achieved.processor_seconds / bytes);
    if (limit > 0) limits.push_back(limit);
    if (limit > 0) ratios.push_back(rates.back() / limit);
  }
  std::printf("%-54s %6.3f GB/s, %4.0f ms of processor a GB", what.c_str(), median(rates) / 1e9,
              median(costs) * 1e12);
  if (!limits.empty())
    std::printf(";  fio %6.3f, ratio %.2f", median(limits) / 1e9, median(ratios));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace barge
