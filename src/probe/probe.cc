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
constexpr std::size_t kCopied = 8_MiB;
constexpr int kHeads = 32, kKvHeads = 4, kHeadDim = 64, kKeys = 512;

class Probe {
 public:
  Probe(Backend& backend, DiskQueue& disk, const ProbeOptions& options)
      : device_(backend.device()),
        disk_(disk),
        kernels_(backend.make_kernels({options.compute, kMostRows, kInputs, kHeads, kHeadDim})),
        options_(options),
        dense_(options.compute == DType::kF32   ? Encoding::kF32
               : options.compute == DType::kF16 ? Encoding::kF16
                                                : Encoding::kBF16) {}

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
    const Buffer a = device_.allocate(Tier::kHost, kCopied, "probe");
    const Buffer b = device_.allocate(Tier::kHost, kCopied, "probe");
    std::memset(a.data(), 1, kCopied);
    profile.host_copy =
        2 * kCopied / median_seconds([&] {
          device_.load().copy(b.data(), Tier::kHost, a.data(), Tier::kHost, kCopied);
          device_.load().record().wait();
        });
    if (!profile.unified) measure_link(profile, a, b);
  }

  void measure_link(Profile& profile, const Buffer& from, const Buffer& to) {
    const Buffer there = device_.allocate(Tier::kDevice, kCopied, "probe");
    const Buffer back = device_.allocate(Tier::kDevice, kCopied, "probe");
    std::vector<std::byte> pageable(kCopied, std::byte{1});
    const auto down = [&](const std::byte* host) {
      device_.load().copy(there.data(), Tier::kDevice, host, Tier::kHost, kCopied);
      return device_.load().record();
    };
    const auto up = [&](std::byte* host) {
      device_.store().copy(host, Tier::kHost, back.data(), Tier::kDevice, kCopied);
      return device_.store().record();
    };
    profile.device_bytes = static_cast<double>(options_.device_bytes);
    profile.link_down = kCopied / median_seconds([&] { down(from.data()).wait(); });
    profile.link_up = kCopied / median_seconds([&] { up(to.data()).wait(); });
    profile.link_down_pageable = kCopied / median_seconds([&] { down(pageable.data()).wait(); });
    profile.link_up_pageable = kCopied / median_seconds([&] { up(pageable.data()).wait(); });
    profile.link_both = 2 * kCopied / median_seconds([&] {
                          const Event one = down(from.data()), other = up(to.data());
                          one.wait();
                          other.wait();
                        });
    const Product product(*this, WeightFormat{dense_}, kMostRows);
    const double computing = median_seconds([&] { product.start().wait(); });
    const double both = median_seconds([&] {
      const Event computed = product.start(), copied = down(from.data());
      computed.wait();
      copied.wait();
    });
    profile.overlap = std::max(computing, kCopied / profile.link_down) / both;
  }

  void measure_products(Profile& profile) {
    const WeightFormat dense{dense_};
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
  // A product of kInputs by kOutputs, with buffers of its own.
  class Product {
   public:
    Product(const Probe& probe, const WeightFormat& format, int rows)
        : probe_(probe),
          layout_(panel_layout(format, kOutputs, kInputs)),
          rows_(rows),
          weights_(probe.device_.allocate(Tier::kDevice, layout_.bytes, "probe")),
          x_(probe.device_.allocate(Tier::kDevice, rows * kInputs * size_of(probe.options_.compute),
                                    "probe")),
          y_(probe.device_.allocate(Tier::kDevice, rows * kOutputs * sizeof(float), "probe")) {}

    Event start() const {
      const WeightPanel panel{weights_.data(), layout_};  // any numbers multiply as fast
      const MatrixView in{x_.data(), probe_.options_.compute, rows_, kInputs, kInputs};
      const MatrixView out{y_.data(), DType::kF32, rows_, kOutputs, kOutputs};
      probe_.kernels_->linear(in, std::span(&panel, 1), nullptr, out, Epilogue::kStore);
      return probe_.device_.compute().record();
    }

   private:
    const Probe& probe_;
    const PanelLayout layout_;
    const int rows_;
    const Buffer weights_, x_, y_;
  };

  double time_product(const WeightFormat& format, int rows) const {
    const Product product(*this, format, rows);
    return median_seconds([&] { product.start().wait(); });
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
  const Encoding dense_;  // of weights that need no decoding
};

}  // namespace

Profile probe(Backend& backend, DiskQueue& disk, const ProbeOptions& options,
              const std::function<void(double, const std::string&)>& progress) {
  const auto say = [&](double share, const char* what) {
    if (progress) progress(share, what);
  };
  Profile profile;
  profile.machine = machine_of(backend.device(), options);
  Probe work(backend, disk, options);
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
