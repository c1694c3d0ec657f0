#include "engine/admission_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace barge {

bool AdmissionQueue::Before::operator()(const Waiting* a, const Waiting* b) const {
  const Sequence &s = *a->sequence, &t = *b->sequence;
  if (s.request.urgent) return s.id < t.id;  // they are among themselves
  if (a->batch != b->batch) return a->batch < b->batch;
  if (s.request.max_tokens != t.request.max_tokens)
    return s.request.max_tokens > t.request.max_tokens;
  const auto &p = s.request.prompt, &q = t.request.prompt;
  if (std::bit_width(p.size()) != std::bit_width(q.size())) return p.size() > q.size();
  if (p != q) return p < q;
  return s.id < t.id;
}

void AdmissionQueue::add(std::unique_ptr<Sequence> sequence) {
  const std::uint64_t id = sequence->id;
  Waiting& waiting = by_id_[id];
  waiting = {std::move(sequence), arriving_};
  order_of(waiting).insert(&waiting);
}

Sequence* AdmissionQueue::front(Place place) {
  const bool others_turn = urgent_in_row_ >= kUrgentInRow && !order_.empty();
  const bool urgent = place == Place::kUrgentOnes || (!urgent_.empty() && !others_turn);
  const Order& order = urgent ? urgent_ : order_;
  if (order.empty()) return nullptr;
  front_ = *order.begin();
  if (!urgent && front_->batch == arriving_) ++arriving_;
  return front_->sequence.get();
}

std::unique_ptr<Sequence> AdmissionQueue::pop() {
  auto sequence = take(front_->sequence->id);
  urgent_in_row_ = sequence->request.urgent ? urgent_in_row_ + 1 : 0;
  return sequence;
}

void AdmissionQueue::park(std::uint64_t owner, int positions) {
  parked_[owner].emplace(positions, front_);
  order_of(*front_).erase(front_);
}

void AdmissionQueue::unpark(const std::function<int(std::uint64_t)>& computed) {
  for (auto group = parked_.begin(); group != parked_.end();) {
    auto& [owner, waiting] = *group;
    const int positions = computed(owner);
    const auto end = positions < 0 ? waiting.end() : waiting.upper_bound(positions);
    for (auto it = waiting.begin(); it != end; ++it) order_of(*it->second).insert(it->second);
    waiting.erase(waiting.begin(), end);
    group = waiting.empty() ? parked_.erase(group) : std::next(group);
  }
}

std::unique_ptr<Sequence> AdmissionQueue::take(std::uint64_t id) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return nullptr;
  Waiting& waiting = it->second;
  if (order_of(waiting).erase(&waiting) == 0)
    for (auto& [owner, group] : parked_)
      std::erase_if(group, [&](const auto& one) { return one.second == &waiting; });
  std::unique_ptr<Sequence> sequence = std::move(waiting.sequence);
  by_id_.erase(it);
  return sequence;
}

std::vector<std::unique_ptr<Sequence>> AdmissionQueue::take_all() {
  std::vector<std::unique_ptr<Sequence>> all;
  for (auto& [id, waiting] : by_id_) all.push_back(std::move(waiting.sequence));
  order_.clear();
  urgent_.clear();
  parked_.clear();
  by_id_.clear();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  return all;
}

}  // namespace barge
