#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/log.h"
#include "engine/logits_hash.h"

namespace barge {

Scheduler::Scheduler(Stores& stores, Device& device, Budgets& budgets,
                     const Engine::Options& options, int vocab)
    : stores_(stores),
      device_(device),
      options_(options),
      limits_(stores.limits()),
      sampler_bytes_(budgets.host.reserve(stores.footprint().sampler, "sampler")),
      sampler_(vocab),
      room_(stores.kv(), options.policy, stores.footprint().kv_swap) {}

void Scheduler::add(std::unique_ptr<Sequence> sequence) { waiting_.add(std::move(sequence)); }

std::size_t Scheduler::swapped() const {
  return static_cast<std::size_t>(
      std::count_if(live_.begin(), live_.end(), [](const auto& s) { return !s->in_cache(); }));
}

void Scheduler::cancel(std::uint64_t id) {
  for (const auto& sequence : live_)
    if (sequence->id == id) sequence->end = FinishReason::kCancelled;
  retire();
  if (auto sequence = waiting_.take(id)) finish(std::move(sequence), FinishReason::kCancelled, {});
}

void Scheduler::end_all(FinishReason reason, const std::string& error) {
  for (auto& sequence : std::exchange(live_, {})) finish(std::move(sequence), reason, error);
  for (auto& sequence : waiting_.take_all()) finish(std::move(sequence), reason, error);
}

void Scheduler::step() {
  const Seconds begin = device_.clock().now();
  const KvTraffic kv_before = stores_.kv().traffic();
  room_.put_aside(live_);
  admit();
  if (live_.empty()) return;
  std::vector<Sequence*> running;
  for (const auto& sequence : live_)
    if (sequence->in_cache()) running.push_back(sequence.get());
  const Block block = compose(running, limits_, [this](const Block::Member& member) {
    const KvStore::Span span = kv_span(member);
    return stores_.kv().staging_needed({&span, 1});
  });
  const Event end = stores_.sweep().run(block);
  // Where nobody waits for logits the next sweep may be given to the device while this one runs,
  // but not the one after it. Nor where weights cross a link: they enter the load stream when the
  // disk has them, and must not come there behind pages that wait for the end of this sweep.
  stores_.waits().during("device", [&] {
    last_end_.wait();
    last_end_ = end;
    if (!block.wanted.empty() || !device_.unified()) end.wait();
  });
  SweepRecord record = record_of(block);
  absorb(block);
  retire();
  ++counts_.sweeps;
  const double took = (device_.clock().now() - begin).count();
  (block.has_prompts() ? counts_.prefill_seconds : counts_.decode_seconds) += took;
  if (!options_.on_sweep) return;
  const KvTraffic kv_after = stores_.kv().traffic();
  record.seconds = took;
  record.kv_read_bytes = kv_after.disk_read_bytes - kv_before.disk_read_bytes;
  record.kv_written_bytes = kv_after.disk_written_bytes - kv_before.disk_written_bytes;
  record.kv_down_bytes = kv_after.link_down_bytes - kv_before.link_down_bytes;
  record.kv_up_bytes = kv_after.link_up_bytes - kv_before.link_up_bytes;
  options_.on_sweep(record);
}

// Whoever needs what a live sequence is computing waits for it, and those behind go first.
void Scheduler::admit() {
  if (!room_.bring_back(live_)) return;
  waiting_.unpark([this](std::uint64_t owner) {
    const auto it = std::find_if(live_.begin(), live_.end(),
                                 [owner](const auto& sequence) { return sequence->id == owner; });
    return it == live_.end() || !(*it)->in_cache() ? -1 : (*it)->fed;
  });
  using Place = AdmissionQueue::Place;
  while (live_.size() < static_cast<std::size_t>(limits_.sequences)) {
    const auto others =
        std::count_if(live_.begin(), live_.end(), [](const auto& s) { return !s->request.urgent; });
    const bool reserved = others >= limits_.sequences - options_.reserved_sequences;
    Sequence* const next = waiting_.front(reserved ? Place::kUrgentOnes : Place::kAnybodys);
    if (next == nullptr) return;
    if (const KvRoom::Coming coming = room_.coming(*next); coming.owner != 0) {
      waiting_.park(coming.owner, coming.positions);
    } else if (room_.enter(*next, live_)) {
      live_.push_back(waiting_.pop());
    } else {
      if (!live_.empty()) return;
      finish(waiting_.pop(), FinishReason::kError, room_.shortage(*next));
    }
  }
}

void Scheduler::absorb(const Block& block) {
  for (const Block::Member& member : block.members) {
    Sequence& s = *member.sequence;
    s.fed += member.rows;
    if (member.prompt) {
      counts_.prompt_tokens += static_cast<std::size_t>(member.rows);
      room_.advanced(s);
    }
    try {
      const Sweep& sweep = stores_.sweep();
      int wanted = member.first_wanted;
      for (int p = member.first_position; p < s.fed && !s.end; ++p) {
        if (!s.wants_logits(p)) continue;
        if (block.draws[static_cast<std::size_t>(wanted)])
          append(s, {.id = require_token(sweep.drawn(wanted))});
        else
          absorb_row(s, p, sweep.logits(wanted));
        ++wanted;
      }
      if (s.prompt_left() == 0 && s.request.max_tokens == 0 && !s.end) {
        if (s.request.prompt_logprobs && s.request.on_prompt)
          s.request.on_prompt(std::move(s.prompt_scores));
        s.end = FinishReason::kLength;
      }
    } catch (const std::exception& e) {  // of a callback, or logits that are no numbers
      s.end = FinishReason::kError;
      s.error = e.what();
    }
  }
}

void Scheduler::absorb_row(Sequence& s, int position, std::span<const float> logits) {
  GenerationRequest& request = s.request;
  const auto hashed = [&](SampledToken token) {
    if (options_.hash_logits) token.logits_hash = hash_bits(logits);
    return token;
  };
  if (position + 1 < s.prompt_tokens()) {
    s.prompt_scores.push_back(hashed(
        sampler_.score(logits, s.token_at(position + 1), std::max(0, request.sampling.logprobs))));
    return;
  }
  if (s.answer.empty() && request.prompt_logprobs && request.on_prompt)
    request.on_prompt(std::move(s.prompt_scores));
  if (request.on_logits) request.on_logits(logits.data(), static_cast<int>(logits.size()));
  std::optional<TokenId> forced;
  if (s.answer.size() < request.forced.size()) forced = request.forced[s.answer.size()];
  append(s, hashed(sampler_.sample(logits, request.sampling, s.answer, forced)));
}

void Scheduler::append(Sequence& s, const SampledToken& token) {
  const GenerationRequest& request = s.request;
  s.answer.push_back(token.id);
  ++counts_.generated_tokens;
  const bool goes_on = !request.on_token || request.on_token(token);
  const bool eos = !request.ignore_eos && std::find(options_.eos.begin(), options_.eos.end(),
                                                    token.id) != options_.eos.end();
  if (!goes_on || eos)
    s.end = FinishReason::kStop;
  else if (s.answer.size() == static_cast<std::size_t>(request.max_tokens))
    s.end = FinishReason::kLength;
}

void Scheduler::retire() {
  for (auto& sequence : live_) {
    if (!sequence->end) continue;
    room_.leave(*sequence);
    const FinishReason reason = *sequence->end;
    const std::string error = sequence->error;
    finish(std::move(sequence), reason, error);
  }
  std::erase(live_, nullptr);
}

void Scheduler::finish(std::unique_ptr<Sequence> sequence, FinishReason reason,
                       const std::string& error) {
  sequence->end = reason;
  sequence->error = error;
  ended_.push_back(std::move(sequence));
  ++counts_.finished;
}

void Scheduler::tell_ends() {
  for (const auto& sequence : std::exchange(ended_, {})) {
    if (!sequence->request.on_done) continue;
    try {
      sequence->request.on_done(*sequence->end, sequence->error);
    } catch (const std::exception& e) {
      log::error(concat("what was to be done at the end of request ", sequence->id,
                        " failed: ", e.what()));
    }
  }
}

}  // namespace barge
