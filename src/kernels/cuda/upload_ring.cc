#include "kernels/cuda/upload_ring.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"
#include "kernels/cuda/check.h"

namespace barge::cuda {
namespace {
constexpr std::size_t kAlignment = 256;  // of each piece, for any kernel's widest load
}  // namespace

UploadRing::UploadRing(Device& device, EventPool& events, std::span<std::byte> there)
    : events_(events),
      there_(there),
      here_(device.allocate(Tier::kHost, there.size(), "uploads")) {}

const std::byte* UploadRing::upload(cudaStream_t stream, std::span<const std::byte> bytes) {
  if (std::ranges::equal(bytes, last_) && !last_.empty())
    return there_.data() + (last_.data() - here_.data());
  const std::size_t whole = round_up(bytes.size(), kAlignment);
  if (whole > there_.size())
    throw ConfigError(concat("one call's lists of pages and rows take ", format_bytes(whole),
                             ", but at most ", format_bytes(there_.size()),
                             " are kept for them; choose smaller micro-batches"));
  // All that reads what was put so far is launched by now.
  if (put_ > fenced_) {
    EventPool::Loan passed = events_.lend();
    check(cudaEventRecord(passed.get(), stream), "cudaEventRecord");
    used_.push_back({put_, std::move(passed)});
    fenced_ = put_;
  }
  const std::size_t left = there_.size() - put_ % there_.size();
  if (whole > left) put_ += left;  // a piece doesn't wrap
  make_room(whole);
  const std::size_t at = put_ % there_.size();
  std::memcpy(here_.data() + at, bytes.data(), bytes.size());
  check(cudaMemcpyAsync(there_.data() + at, here_.data() + at, bytes.size(), cudaMemcpyHostToDevice,
                        stream),
        "cudaMemcpyAsync");
  put_ += whole;
  last_ = {here_.data() + at, bytes.size()};
  return there_.data() + at;
}

// Until `bytes` more fit behind what is put.
void UploadRing::make_room(std::size_t bytes) {
  while (!used_.empty()) {
    const cudaError_t passed = cudaEventQuery(used_.front().passed.get());
    if (passed == cudaErrorNotReady) {
      if (put_ + bytes <= freed_ + there_.size()) return;
      check(cudaEventSynchronize(used_.front().passed.get()), "cudaEventSynchronize");
    } else {
      check(passed, "cudaEventQuery");
    }
    freed_ = used_.front().end;
    used_.pop_front();
  }
  freed_ = put_;
}

}  // namespace barge::cuda
