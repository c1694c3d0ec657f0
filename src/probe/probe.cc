#include "probe/probe.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/memory_budget.h"
#include "probe/timed_operations.h"

namespace barge {
namespace {

constexpr int kInputs = static_cast<int>(Profile::kWide), kOutputs = 1024, kMostRows = 1024;
constexpr int kNarrow = static_cast<int>(Profile::kNarrow);  // inputs and outputs
constexpr int kActivated = 4096, kVocab = 32000;
constexpr std::size_t kCopied = 8_MiB;
constexpr int kHeads = 32, kKvHeads = TimedOperations::kKvHeads;
constexpr int kHeadDim = TimedOperations::kHeadDim, kKeys = TimedOperations::kKeys;
constexpr int kSequences = TimedOperations::kSequences;
constexpr int kPromptRows = 128;  // of each prompt, at the end of its keys

class Probe {
 public:
  Probe(Backend& backend, Disk& disk, const ProbeOptions& options)
      : device_(backend.device()),
        disk_(disk),
        timed_(backend,
               {options.compute, kSequences * kPromptRows, kInputs, kHeads, kHeadDim,
                options.activation_bits},
               options.seconds),
        options_(options),
        dense_(options.compute == DType::kF16 ? Encoding::kF16 : Encoding::kBF16) {}

  void measure_sizes(Profile& profile) const {
    profile.unified = device_.unified();
    profile.host_bytes = static_cast<double>(usable_host_memory());
    struct statvfs fs {};
    if (statvfs(options_.disk_directory.c_str(), &fs) != 0)
      throw IoError(concat("cannot ask for the free space of ", options_.disk_directory, ": ",
                           std::strerror(errno)));
    profile.disk_bytes = static_cast<double>(fs.f_bavail) * static_cast<double>(fs.f_frsize);
  }

  // Requests of each size in turn, as deep as the queue goes, on one file.
  void measure_disk(Profile& profile) {
    constexpr std::size_t kSizes[] = {16_KiB, 64_KiB, 256_KiB, 1_MiB, 4_MiB}, kMost = 256_MiB;
    const Buffer buffer = device_.allocate(Tier::kHost, 16_MiB, "probe");
    std::memset(buffer.data(), 0x5a, buffer.bytes());
    const DiskFile file = DiskFile::scratch(options_.disk_directory);
    const double seconds_each = options_.seconds / 4 / std::size(kSizes);
    std::vector<Curve::Point> reads, writes;
    std::size_t written = 0;  // of the file, from its start
    for (const std::size_t size : kSizes) {
      const auto rate = [&](std::size_t most, const auto& request) {
        std::vector<Event> under_way(std::min<std::size_t>(buffer.bytes() / size, 64));
        const Seconds begin = device_.clock().now();
        std::size_t i = 0;
        for (; (i + 1) * size <= most; ++i) {
          const std::size_t slot = i % under_way.size();
          under_way[slot].wait();
          if ((device_.clock().now() - begin).count() > seconds_each / 2) break;
          under_way[slot] = request(i * size, std::span(buffer.data() + slot * size, size));
        }
        for (const Event& event : under_way) event.wait();
        written = std::max(written, i * size);
        return static_cast<double>(i * size) / (device_.clock().now() - begin).count();
      };
      writes.push_back({static_cast<double>(size), rate(kMost, [&](auto offset, auto bytes) {
                          return disk_.write(file, offset, bytes);
                        })});
      reads.push_back({static_cast<double>(size), rate(written, [&](auto offset, auto bytes) {
                         return disk_.read(file, offset, bytes, IoPriority::kWeightRead);
                       })});
    }
    profile.disk_read = Curve::fit(std::move(reads));
    profile.disk_write = Curve::fit(std::move(writes));
  }

  void measure_copies(Profile& profile) {
    const Buffer a = device_.allocate(Tier::kHost, kCopied, "probe");
    const Buffer b = device_.allocate(Tier::kHost, kCopied, "probe");
    std::memset(a.data(), 1, kCopied);
    profile.host_copy = 2 * kCopied / timed_.median([&] {
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
    profile.link_down = kCopied / timed_.median([&] { down(from.data()).wait(); });
    profile.link_up = kCopied / timed_.median([&] { up(to.data()).wait(); });
    profile.link_down_pageable = kCopied / timed_.median([&] { down(pageable.data()).wait(); });
    profile.link_up_pageable = kCopied / timed_.median([&] { up(pageable.data()).wait(); });
    profile.link_both = 2 * kCopied / timed_.median([&] {
      const Event one = down(from.data()), other = up(to.data());
      one.wait();
      other.wait();
    });
    TimedOperations::Product product(timed_, WeightFormat{dense_}, kInputs, kOutputs, kMostRows);
    const double computing = timed_.median([&] { product.start().wait(); });
    const double both = timed_.median([&] {
      const Event computed = product.start(), copied = down(from.data());
      computed.wait();
      copied.wait();
    });
    profile.overlap = std::max(computing, kCopied / profile.link_down) / both;
  }

  void measure_products(Profile& profile) {
    std::map<int, WeightFormat> formats{{4, {Encoding::kQ4, 64, GroupAxis::kInput}},
                                        {8, {Encoding::kQ8, 64, GroupAxis::kInput}},
                                        {16, {dense_}}};
    profile.activation_bits = options_.activation_bits;
    if (options_.compute == DType::kF32) formats[32] = {Encoding::kF32};
    for (const auto& [bits, format] : formats) {
      const auto measure = [&](int inputs, int outputs) {
        std::vector<Curve::Point> rates;
        for (const int rows : {1, 16, 64, 128, 256, kMostRows}) {
          const double seconds = timed_.product(format, inputs, outputs, rows);
          rates.push_back({1.0 * rows, 2.0 * rows * inputs * outputs / seconds});
          if (timed_.is_slow(seconds)) break;  // more rows take longer yet
        }
        return Curve::fit(std::move(rates));
      };
      profile.products[bits] = measure(kInputs, kOutputs);
      profile.narrow_products[bits] = measure(kNarrow, kNarrow);
    }
    const Buffer y = timed_.numbers(1, 16, DType::kF32);
    profile.call_seconds = timed_.each([&] {
      timed_.kernels().activate(Kernels::Activation::kSilu, f32_matrix(y, 1, 16), {},
                                f32_matrix(y, 1, 16));
    });
  }

  void measure_elementwise(Profile& profile) {
    const Buffer a = timed_.numbers(64, kActivated, DType::kF32),
                 b = timed_.numbers(64, kActivated, DType::kF32);
    const MatrixView gate = f32_matrix(a, 64, kActivated), up = f32_matrix(b, 64, kActivated);
    profile.elementwise = 64 * kActivated / timed_.each([&] {
      timed_.kernels().activate(Kernels::Activation::kSilu, gate, up, gate);
    });
    constexpr int kDrawn = 8;
    const Buffer c = timed_.numbers(kDrawn, kVocab, DType::kF32);
    const Buffer ids = device_.allocate(Tier::kDevice, kDrawn * sizeof(std::int32_t), "probe");
    const std::vector<DrawParams> params(kDrawn);
    profile.draw = kDrawn * kVocab / timed_.each([&] {
      timed_.kernels().draw(f32_matrix(c, kDrawn, kVocab), params,
                            reinterpret_cast<std::int32_t*>(ids.data()));
    });
  }

  std::map<int, Profile::Attention> decode_attention() const {
    std::map<int, Profile::Attention> rates;
    for (const int bits : {4, 16}) {
      const KvFormat format{bits == 4 ? Encoding::kQ4 : Encoding::kF16, kKvHeads, kHeadDim, 64};
      // Eight query heads for each KV head, then one: as many bytes, an eighth of the operations.
      const double many = timed_.attention(format, kHeads, 1),
                   few = timed_.attention(format, kKvHeads, 1);
      const double bytes = 1.0 * kSequences * kKeys * static_cast<double>(format.record_bytes());
      const double ops = 4.0 * kSequences * kKeys * kHeadDim * (kHeads - kKvHeads);
      const double seconds_of_ops = std::max(many - few, 0.02 * many);
      const double seconds_of_bytes =
          std::max(few - seconds_of_ops * kKvHeads / (kHeads - kKvHeads), 0.02 * many);
      rates[bits] = {bytes / seconds_of_bytes, ops / seconds_of_ops};
    }
    return rates;
  }

  void measure_attention(Profile& profile) const {
    profile.decode_attention = decode_attention();
    // Some hundred times the operations of decoding: a slow device gets fewer rows.
    const double ops_a_row = 4.0 * kSequences * kKeys * kHeads * kHeadDim;
    const int rows =
        timed_.is_slow(100 * ops_a_row / profile.decode_attention.at(16).ops) ? 2 : kPromptRows;
    const KvFormat format{Encoding::kF16, kKvHeads, kHeadDim, 64};
    profile.prefill_attention =
        ops_a_row * rows * (1 - rows / 2.0 / kKeys) / timed_.attention(format, kHeads, rows);
  }

  // Copies to the device without a pause, as a run makes them, for as long as it lives.
  class Copies {
   public:
    explicit Copies(Device& device)
        : from_(device.allocate(Tier::kHost, kCopied, "probe")),
          to_(device.allocate(Tier::kDevice, kCopied, "probe")),
          thread_([this, &device](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
              device.load().copy(to_.data(), Tier::kDevice, from_.data(), Tier::kHost, kCopied);
              device.load().record().wait();
            }
          }) {}

   private:
    const Buffer from_, to_;
    std::jthread thread_;  // last: it uses the above
  };

 private:
  Device& device_;
  Disk& disk_;
  const TimedOperations timed_;
  const ProbeOptions& options_;
  const Encoding dense_;  // of 16-bit weights
};

}  // namespace

Profile probe(Backend& backend, Disk& disk, const ProbeOptions& options,
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
  if (options.attention != nullptr && !profile.unified) {
    ProbeOptions of_host = options;
    of_host.compute = DType::kF32;
    const Probe host(*options.attention, disk, of_host);
    const Probe::Copies copies(backend.device());
    profile.host_attention = host.decode_attention();
  }
  work.measure_elementwise(profile);
  say(1, "done");
  return profile;
}

}  // namespace barge
