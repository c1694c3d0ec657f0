#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/sequence.h"

namespace barge {

/// Sequences that wait to enter, those first that will run longest (by max_tokens, then by the
/// prompt's length to within a factor of two), so that no few of them drag the last sweeps of a job
/// along. Among equals, prompts that begin alike stand together; then the order of arrival decides.
///
/// Nobody starves: all that wait when the last of a batch has entered are the next batch, and
/// whoever comes later waits for the one after it. Between arrival and entry lie one batch and a
/// part of another, whatever else comes.
///
/// Urgent ones enter before all these, in the order of arrival. Where both wait, one of
/// kUrgentInRow + 1 that enter isn't urgent: neither can shut the other out. One thread.
class AdmissionQueue {
 public:
  static constexpr int kUrgentInRow = 3;

  void add(std::unique_ptr<Sequence> sequence);
  std::size_t size() const { return by_id_.size(); }
  /// Who may enter a place that is free.
  enum class Place { kAnybodys, kUrgentOnes };
  /// Who is to enter next; null: nobody, but for those who are parked.
  Sequence* front(Place place = Place::kAnybodys);
  /// Takes out whom `front` gave.
  std::unique_ptr<Sequence> pop();
  /// Leaves `front` aside until the live sequence `owner` has so many positions computed.
  void park(std::uint64_t owner, int positions);
  /// Takes those back whose waiting is over. `computed(owner)`: positions, negative if that one
  /// isn't in the KV cache any more.
  void unpark(const std::function<int(std::uint64_t)>& computed);
  /// Takes one out; null: it isn't here.
  std::unique_ptr<Sequence> take(std::uint64_t id);
  /// Takes all out, in the order of arrival.
  std::vector<std::unique_ptr<Sequence>> take_all();

 private:
  struct Waiting {
    std::unique_ptr<Sequence> sequence;
    std::uint64_t batch = 0;
  };
  struct Before {
    bool operator()(const Waiting* a, const Waiting* b) const;
  };

  using Order = std::set<Waiting*, Before>;
  Order& order_of(const Waiting& waiting) {
    return waiting.sequence->request.urgent ? urgent_ : order_;
  }
  std::unordered_map<std::uint64_t, Waiting> by_id_;  // all of them
  Order order_, urgent_;                              // those who aren't parked
  int urgent_in_row_ = 0;                             // that entered since another one did
  Waiting* front_ = nullptr;                          // whom `front` gave
  // Owner → positions → who waits for them.
  std::map<std::uint64_t, std::multimap<int, Waiting*>> parked_;
  std::uint64_t arriving_ = 0;  // the batch that newcomers join
};

}  // namespace barge
