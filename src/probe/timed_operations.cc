#include "probe/timed_operations.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace barge {
namespace {

// Weights, or KV cache: more than most caches keep of a model that passes by.
constexpr std::size_t kPassing = 32_MiB;

}  // namespace

MatrixView f32_matrix(const Buffer& buffer, std::int64_t rows, std::int64_t cols) {
  return {buffer.data(), DType::kF32, rows, cols, cols};
}

TimedOperations::TimedOperations(Backend& backend, const KernelLimits& limits, double seconds)
    : device_(backend.device()),
      compute_(limits.compute),
      seconds_(seconds),
      kernels_(backend.make_kernels(limits)) {}

Buffer TimedOperations::numbers(std::int64_t rows, std::int64_t cols, DType dtype) const {
  const auto bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
  return zeros(device_.allocate(Tier::kDevice, bytes, "probe"));
}

Buffer TimedOperations::zeros(Buffer buffer) const {
  const std::vector<std::byte> zero(std::min<std::size_t>(buffer.bytes(), 1_MiB));
  for (std::size_t at = 0; at < buffer.bytes(); at += zero.size())
    device_.load().copy(buffer.data() + at, Tier::kDevice, zero.data(), Tier::kHost,
                        std::min(zero.size(), buffer.bytes() - at));
  device_.load().record().wait();
  return buffer;
}

TimedOperations::Product::Product(const TimedOperations& timed, const WeightFormat& format,
                                  int inputs, int outputs, int rows)
    : timed_(timed),
      layout_(panel_layout(format, outputs, inputs)),
      rows_(rows),
      panels_(std::max<std::size_t>(kPassing / layout_.bytes, 1)),
      weights_(
          timed.zeros(timed.device_.allocate(Tier::kDevice, panels_ * layout_.bytes, "probe"))),
      x_(timed.numbers(rows, inputs, timed.compute_)),
      y_(timed.numbers(rows, outputs, DType::kF32)) {}

void TimedOperations::Product::give() {
  const WeightPanel panel{weights_.data() + next_ * layout_.bytes, layout_};
  next_ = (next_ + 1) % panels_;
  const MatrixView in{x_.data(), timed_.compute_, rows_, layout_.cols, layout_.cols};
  const MatrixView out = f32_matrix(y_, rows_, layout_.rows);
  timed_.kernels_->linear(in, std::span(&panel, 1), nullptr, out, Epilogue::kStore);
}

double TimedOperations::product(const WeightFormat& format, int inputs, int outputs,
                                int rows) const {
  Product product(*this, format, inputs, outputs, rows);
  return each([&] { product.give(); });
}

double TimedOperations::attention(const KvFormat& format, int heads, int rows) const {
  const std::size_t page_bytes = kKeys * format.record_bytes();
  const std::size_t sets = std::max<std::size_t>(kPassing / (kSequences * page_bytes), 1);
  const Buffer pages =
      zeros(device_.allocate(Tier::kDevice, sets * kSequences * page_bytes, "probe"));
  const std::int64_t all_rows = kSequences * rows;
  const Buffer q = numbers(all_rows, heads * kHeadDim, DType::kF32);
  const Buffer out = numbers(all_rows, heads * kHeadDim, DType::kF32);
  std::vector<std::byte*> starts;
  for (std::size_t i = 0; i < sets * kSequences; ++i)
    starts.push_back(pages.data() + i * page_bytes);
  std::vector<AttentionSpan> spans;
  for (std::size_t i = 0; i < sets * kSequences; ++i)
    spans.push_back({.first_row = static_cast<std::int64_t>(i % kSequences) * rows,
                     .rows = rows,
                     .first_position = kKeys - rows,
                     .prompt = rows > 1,
                     .pages = std::span(&starts[i], 1)});
  std::size_t set = 0;
  return each([&] {
    const auto these = std::span(spans).subspan(set++ % sets * kSequences, kSequences);
    kernels_->attend(format, kKeys, these, heads, 0.125f, f32_matrix(q, all_rows, heads * kHeadDim),
                     f32_matrix(out, all_rows, heads * kHeadDim));
  });
}

double TimedOperations::each(const std::function<void()>& give) const {
  constexpr double kBatchSeconds = 3e-3;
  const auto batch = [&](int count) {
    const Seconds begin = device_.clock().now();
    for (int i = 0; i < count; ++i) give();
    device_.compute().record().wait();
    return (device_.clock().now() - begin).count() / count;
  };
  if (const double first = batch(1); is_slow(first)) return first;
  const double once = batch(4);
  const int count = std::clamp(static_cast<int>(kBatchSeconds / once), 1, 256);
  return median([&] { batch(count); }) / count;
}

double TimedOperations::median(const std::function<void()>& work) const {
  std::vector<double> seconds;
  work();
  const Seconds begin = device_.clock().now();
  do {
    const Seconds start = device_.clock().now();
    work();
    seconds.push_back((device_.clock().now() - start).count());
  } while (seconds.size() < 5 ||
           ((device_.clock().now() - begin).count() < seconds_ / 120 && seconds.size() < 1000));
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return std::max(seconds[seconds.size() / 2], 1e-9);
}

}  // namespace barge
