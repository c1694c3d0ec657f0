#include "probe/probe.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/memory_budget.h"

namespace barge {
namespace {

constexpr int kInputs = 2048, kOutputs = 1024, kMostRows = 1024;
constexpr int kHeads = 32, kKvHeads = 4, kHeadDim = 64, kKeys = 512;

class Probe {
 public:
  Probe(Device& device, DiskQueue& disk, std::unique_ptr<Kernels> kernels,
        const ProbeOptions& options)
      : device_(device), disk_(disk), kernels_(std::move(kernels)), options_(options) {}

  void measure_sizes(Profile& profile) const {
    profile.unified = device_.unified();
    profile.host_bytes = static_cast<double>(usable_host_memory());
    struct statvfs fs {};
    if (statvfs(options_.disk_directory.c_str(), &fs) != 0)
      throw IoError(concat("cannot ask for the free space of ", options_.disk_directory, ": ",
                           std::strerror(errno)));
    profile.disk_bytes = static_cast<double>(fs.f_bavail) * static_cast<double>(fs.f_frsize);
  }

  void measure_disk(Profile& profile) {
    constexpr std::size_t kChunk = 1_MiB, kDeep = 8;
    const std::size_t most = 256_MiB;
    const Buffer buffer = device_.allocate(Tier::kHost, kChunk * kDeep, "probe");
    std::memset(buffer.data(), 0x5a, buffer.bytes());
    const DiskFile file = DiskFile::scratch(options_.disk_directory);
    const auto chunk = [&](std::size_t i) {
      return std::span(buffer.data() + (i % kDeep) * kChunk, kChunk);
    };
    const auto rate = [&](std::size_t bytes, const std::function<Event(std::size_t)>& request) {
      std::array<Event, kDeep> under_way;
      const Seconds begin = device_.clock().now();
      std::size_t i = 0;
      for (; i * kChunk < bytes; ++i) {
        under_way[i % kDeep].wait();
        under_way[i % kDeep] = request(i);
        if ((device_.clock().now() - begin).count() > options_.seconds / 4) break;
      }
      for (const Event& event : under_way) event.wait();
      const double seconds = (device_.clock().now() - begin).count();
      const std::size_t done = std::min(bytes, (i + 1) * kChunk);
      return std::pair{done, static_cast<double>(done) / seconds};
    };
    const auto [written, write_rate] =
        rate(most, [&](std::size_t i) { return disk_.write(file, i * kChunk, chunk(i)); });
    profile.disk_write = write_rate;
    profile.disk_read = rate(written, [&](std::size_t i) {
                          return disk_.read(file, i * kChunk, chunk(i), IoPriority::kWeightRead);
                        }).second;
  }

  void measure_copies(Profile& profile) {
    constexpr std::size_t kBytes = 8_MiB;
    const Buffer a = device_.allocate(Tier::kHost, kBytes, "probe");
    const Buffer b = device_.allocate(Tier::kHost, kBytes, "probe");
    std::memset(a.data(), 1, kBytes);
    profile.host_copy = 2 * kBytes / median_seconds([&] {
                          device_.load().copy(b.data(), Tier::kHost, a.data(), Tier::kHost, kBytes);
                          device_.load().record().wait();
                        });
    if (profile.unified) return;
    const Buffer there = device_.allocate(Tier::kDevice, kBytes, "probe");
    profile.device_bytes = static_cast<double>(there.bytes());  // the budget is the caller's word
    profile.link_down =
        kBytes / median_seconds([&] {
          device_.load().copy(there.data(), Tier::kDevice, a.data(), Tier::kHost, kBytes);
          device_.load().record().wait();
        });
    profile.link_up =
        kBytes / median_seconds([&] {
          device_.store().copy(b.data(), Tier::kHost, there.data(), Tier::kDevice, kBytes);
          device_.store().record().wait();
        });
  }

  void measure_products(Profile& profile) {
    const WeightFormat dense{options_.compute == DType::kF32 ? Encoding::kF32 : Encoding::kBF16};
    const WeightFormat four_bits{Encoding::kQ4, 64, GroupAxis::kInput};
    for (const int rows : {1, 16, 64, 128, 256, kMostRows}) {
      const double seconds = time_product(dense, rows);
      profile.matrix.push_back({1.0 * rows, 2.0 * rows * kInputs * kOutputs / seconds});
    }
    // Decoding alone: what 4 bits take longer than dense weights, at most the whole product.
    const double quantised = time_product(four_bits, 64), plain = time_product(dense, 64);
    const double decoding = std::max(quantised - plain, 0.05 * quantised);
    profile.dequantise = 1.0 * kInputs * kOutputs / decoding;
  }

  void measure_attention(Profile& profile) {
    const KvFormat format{Encoding::kF16, kKvHeads, kHeadDim, 64};
    const Buffer pages = device_.allocate(Tier::kDevice, kKeys * format.record_bytes(), "probe");
    const Buffer q = device_.allocate(Tier::kDevice, kHeads * kHeadDim * 4, "probe");
    const Buffer out = device_.allocate(Tier::kDevice, kHeads * kHeadDim * 4, "probe");
    std::byte* const page = pages.data();
    const AttentionSpan span{0, 1, kKeys - 1, false, std::span(&page, 1)};
    const MatrixView query{q.data(), DType::kF32, 1, kHeads * kHeadDim, kHeads * kHeadDim};
    const MatrixView result{out.data(), DType::kF32, 1, kHeads * kHeadDim, kHeads * kHeadDim};
    const double seconds = median_seconds([&] {
      kernels_->attend(format, kKeys, std::span(&span, 1), kHeads, 0.125f, query, result);
      device_.compute().record().wait();
    });
    profile.attention = 4.0 * kHeads * kHeadDim * kKeys / seconds;
  }

 private:
  double time_product(const WeightFormat& format, int rows) {
    const PanelLayout layout = panel_layout(format, kOutputs, kInputs);
    const std::size_t element = size_of(options_.compute);
    const Buffer weights = device_.allocate(Tier::kDevice, layout.bytes, "probe");
    const Buffer x = device_.allocate(Tier::kDevice, rows * kInputs * element, "probe");
    const Buffer y = device_.allocate(Tier::kDevice, rows * kOutputs * sizeof(float), "probe");
    const WeightPanel panel{weights.data(), layout};  // zeros multiply as fast as anything
    const MatrixView in{x.data(), options_.compute, rows, kInputs, kInputs};
    const MatrixView out{y.data(), DType::kF32, rows, kOutputs, kOutputs};
    return median_seconds([&] {
      kernels_->linear(in, std::span(&panel, 1), nullptr, out, Epilogue::kStore);
      device_.compute().record().wait();
    });
  }

  // The median of some runs after the first, which warms caches up.
  double median_seconds(const std::function<void()>& work) const {
    std::vector<double> seconds;
    work();
    const Seconds begin = device_.clock().now();
    do {
      const Seconds start = device_.clock().now();
      work();
      seconds.push_back((device_.clock().now() - start).count());
    } while (
        seconds.size() < 5 ||
        ((device_.clock().now() - begin).count() < options_.seconds / 40 && seconds.size() < 1000));
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    return std::max(seconds[seconds.size() / 2], 1e-9);
  }

  Device& device_;
  DiskQueue& disk_;
  std::unique_ptr<Kernels> kernels_;
  const ProbeOptions& options_;
};

}  // namespace

Profile probe(Device& device, DiskQueue& disk,
              const std::function<std::unique_ptr<Kernels>(const KernelLimits&)>& make_kernels,
              const ProbeOptions& options,
              const std::function<void(double, const std::string&)>& progress) {
  const auto say = [&](double share, const char* what) {
    if (progress) progress(share, what);
  };
  Profile profile;
  profile.machine = machine_of(device, options);
  Probe work(device, disk, make_kernels({options.compute, kMostRows, kInputs, kHeads, kHeadDim}),
             options);
  work.measure_sizes(profile);
  say(0, "disk");
  work.measure_disk(profile);
  say(0.5, "memory and link");
  work.measure_copies(profile);
  say(0.6, "matrix products");
  work.measure_products(profile);
  say(0.9, "attention");
  work.measure_attention(profile);
  say(1, "done");
  return profile;
}

}  // namespace barge
