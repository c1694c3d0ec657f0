#include "engine/kv_pipeline.h"

#include <utility>

namespace barge {
namespace {
// Micro-batches opened ahead that need no staging, which bounds the others.
constexpr std::size_t kMaxAhead = 2;
}  // namespace

KvStore::Span kv_span(const Block::Member& member) {
  return {.sequence = member.sequence->kv,
          .first_position = member.first_position,
          .rows = member.rows,
          .generated = !member.prompt};
}

void KvPipeline::Members::add(const Block::Member& member) {
  members.push_back(&member);
  spans.push_back(kv_span(member));
}

void KvPipeline::begin(const Block& block) {
  batches_.clear();
  num_opened_ = num_taken_ = 0;
  for (const Block::MicroBatch& micro_batch : block.micro_batches) {
    Batch& batch = batches_.emplace_back();
    for (std::size_t i = 0; i < micro_batch.num_members; ++i) {
      const Block::Member& member = block.members[micro_batch.first_member + i];
      batch.all.add(member);
      (member.prompt ? batch.prompts : batch.answers).add(member);
    }
    batch.staged = kv_.staging_needed(batch.all.spans);
  }
}

bool KvPipeline::fits(std::size_t staged) {
  while (!closed_.empty() && closed_.front().by_device.done() && closed_.front().by_host.done())
    closed_.pop_front();
  std::size_t busy = held_;
  for (const Closed& closed : closed_) busy += closed.staged;
  return staged == 0 || busy + staged <= staging_bytes_;
}

void KvPipeline::prefetch() {
  if (num_opened_ == batches_.size() * static_cast<std::size_t>(layers_)) return;
  const std::size_t staged = batches_[num_opened_ % batches_.size()].staged;
  if ((staged > 0 || open_.size() < kMaxAhead) && fits(staged)) open();
}

void KvPipeline::open() {
  const Batch& batch = batches_[num_opened_ % batches_.size()];
  const int layer = static_cast<int>(num_opened_ / batches_.size());
  Pages pages;
  if (kv_.attends_on_host(layer)) {
    pages.device = open(layer, batch.prompts);
    pages.host = open(layer, batch.answers);
  } else {
    pages.device = open(layer, batch.all);
  }
  open_.push_back(std::move(pages));
  held_ += batch.staged;
  ++num_opened_;
}

KvPipeline::Side KvPipeline::open(int layer, const Members& members) {
  if (members.members.empty()) return {};
  return {members.members, kv_.open(layer, members.spans)};
}

KvPipeline::Pages KvPipeline::take() {
  if (open_.empty()) open();  // blocks, if at all, for leases that are closed already
  Pages pages = std::move(open_.front());
  open_.pop_front();
  ++num_taken_;
  return pages;
}

void KvPipeline::close(Pages pages, Event by_device, Event by_host) {
  const std::size_t staged = batches_[(num_taken_ - 1) % batches_.size()].staged;
  held_ -= staged;
  if (staged > 0) closed_.push_back({by_device, by_host, staged});
  close(std::move(pages.device), std::move(by_device));
  close(std::move(pages.host), std::move(by_host));
}

void KvPipeline::close(Side side, Event attended) {
  if (!side.members.empty()) kv_.close(std::move(side.lease), std::move(attended));
}

void KvPipeline::abandon() noexcept {
  for (; !open_.empty(); open_.pop_front()) {
    for (Side* side : {&open_.front().device, &open_.front().host}) try {
        close(std::move(*side), device_.compute().record());
      } catch (...) {  // the failure that led here is reported elsewhere
      }
  }
}

}  // namespace barge
