#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/admission_queue.h"
#include "engine/kv_room.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "engine/stores.h"

namespace barge {

/// Leads sequences through the sweeps: lets them in, in the order of their queue, as far as block
/// (of which some may be reserved for urgent ones) and KV cache have room, samples, calls back,
/// lets them go. Their ends are told by `tell_ends`, so that the caller can publish what it knows
/// before. One thread.
class Scheduler {
 public:
  struct Counts {
    std::size_t sweeps = 0, generated_tokens = 0, finished = 0;
    std::size_t prompt_tokens = 0;  // again where KV was dropped
    double prefill_seconds = 0, decode_seconds = 0;
  };

  Scheduler(Stores& stores, Device& device, Budgets& budgets, const Engine::Options& options,
            int vocab);

  void add(std::unique_ptr<Sequence> sequence);
  /// Ends a sequence; unknown ids are ignored.
  void cancel(std::uint64_t id);
  /// Ends all of them for good, without touching the KV cache: nothing goes on after that.
  void end_all(FinishReason reason, const std::string& error);

  std::size_t running() const { return live_.size() - swapped(); }
  std::size_t swapped() const;
  std::size_t waiting() const { return waiting_.size(); }
  bool idle() const { return live_.empty() && waiting_.size() == 0; }
  const Counts& counts() const { return counts_; }
  const KvRoom& room() const { return room_; }

  /// One sweep. Throws what the device or the disk failed with: nothing goes on then.
  void step();
  /// Calls on_done of all that ended since the last time.
  void tell_ends();

 private:
  void admit();
  void absorb(const Block& block);
  void absorb_row(Sequence& sequence, int position, std::span<const float> logits);
  void append(Sequence& sequence, const SampledToken& token);
  void retire();
  void finish(std::unique_ptr<Sequence> sequence, FinishReason reason, const std::string& error);

  Stores& stores_;
  Device& device_;
  const Engine::Options& options_;
  const BlockLimits limits_;
  MemoryBudget::Reservation sampler_bytes_;
  Sampler sampler_;
  KvRoom room_;
  AdmissionQueue waiting_;
  std::vector<std::unique_ptr<Sequence>> live_;   // in the order of entry; the last may be aside
  std::vector<std::unique_ptr<Sequence>> ended_;  // and not yet told
  Event last_end_;                                // of the sweep before
  Counts counts_;
};

}  // namespace barge
