#include "engine/kv_pipeline.h"

#include <utility>

namespace barge {
namespace {
// Leases opened ahead: enough for the next micro-batch and the one after it to be on their way.
constexpr std::size_t kMaxAhead = 2;
}  // namespace

void KvPipeline::begin(const Block& block) {
  spans_.clear();
  staged_.clear();
  num_opened_ = num_taken_ = 0;
  for (const Block::MicroBatch& batch : block.micro_batches) {
    std::vector<KvStore::Span> spans;
    for (std::size_t i = 0; i < batch.num_members; ++i) {
      const Block::Member& member = block.members[batch.first_member + i];
      spans.push_back({.sequence = member.sequence->kv,
                       .first_position = member.first_position,
                       .rows = member.rows});
    }
    staged_.push_back(kv_.staging_needed(spans));
    spans_.push_back(std::move(spans));
  }
}

bool KvPipeline::fits(std::size_t staged) {
  while (!closed_.empty() && closed_.front().computed.done()) closed_.pop_front();
  std::size_t busy = held_;
  for (const Closed& closed : closed_) busy += closed.staged;
  return staged == 0 || busy + staged <= staging_bytes_;
}

void KvPipeline::prefetch() {
  const std::size_t batches = spans_.size();
  while (open_.size() < kMaxAhead && num_opened_ < batches * static_cast<std::size_t>(layers_) &&
         fits(staged_[num_opened_ % batches]))
    open();
}

void KvPipeline::open() {
  const std::size_t batch = num_opened_ % spans_.size();
  open_.push_back(kv_.open(static_cast<int>(num_opened_ / spans_.size()), spans_[batch]));
  held_ += staged_[batch];
  ++num_opened_;
}

KvStore::Lease KvPipeline::take() {
  if (open_.empty()) open();  // blocks, if at all, for leases that are closed already
  KvStore::Lease lease = std::move(open_.front());
  open_.pop_front();
  ++num_taken_;
  return lease;
}

void KvPipeline::close(KvStore::Lease lease, Event computed) {
  const std::size_t staged = staged_[(num_taken_ - 1) % spans_.size()];
  held_ -= staged;
  if (staged > 0) closed_.push_back({computed, staged});
  kv_.close(std::move(lease), std::move(computed));
}

void KvPipeline::abandon() noexcept {
  while (!open_.empty()) {
    try {
      kv_.close(std::move(open_.front()), device_.compute().record());
    } catch (...) {  // the failure that led here is reported elsewhere
    }
    open_.pop_front();
  }
}

}  // namespace barge
