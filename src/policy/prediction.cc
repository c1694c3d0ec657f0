#include "policy/prediction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <vector>

namespace barge {
namespace {

constexpr double kBlocksWalked = 16;

// The scheduler, reduced to counts.
class Walk {
 public:
  Walk(const Workload& job, const Policy& policy, std::int64_t lines)
      : job_(job), lines_(lines), block_(policy.block_sequences()), rows_(policy.sweep_tokens) {}

  bool over() const { return next_ == lines_ && prompts_.empty() && decoding_ == 0; }

  SweepLoad sweep() {
    while (next_ < lines_ && decoding_ + static_cast<std::int64_t>(prompts_.size()) < block_)
      prompts_.push_back(next_prompt());
    SweepLoad load{.rows = static_cast<double>(decoding_),
                   .answers = static_cast<double>(decoding_),
                   .logits = static_cast<double>(decoding_),
                   .read_positions = static_cast<double>(positions_ + decoding_)};
    // Those who decode go one on; some end.
    positions_ += decoding_;
    const auto ending = ends_.find(++now_);
    if (ending != ends_.end()) {
      decoding_ -= ending->second.count;
      positions_ -= ending->second.positions;
      ends_.erase(ending);
    }
    std::int64_t left = rows_ - static_cast<std::int64_t>(load.rows);
    while (left > 0 && !prompts_.empty()) {
      Prompt& prompt = prompts_.front();
      const std::int64_t chunk = std::min<std::int64_t>(left, prompt.length.prompt - prompt.fed);
      load.rows += static_cast<double>(chunk);
      load.prompt_keys += static_cast<double>(chunk) *
                          (static_cast<double>(prompt.fed) + static_cast<double>(chunk + 1) / 2);
      if (prompt.fed > 0) load.reread_positions += static_cast<double>(prompt.fed);
      prompt.fed += chunk;
      left -= chunk;
      if (prompt.fed < prompt.length.prompt) break;
      ++load.logits;
      begin_to_decode(prompt.length);
      prompts_.pop_front();
    }
    return load;
  }

 private:
  struct Prompt {
    LineLength length;
    std::int64_t fed = 0;
  };
  struct End {
    std::int64_t count = 0, positions = 0;
  };

  // The first line computes what all have in common.
  Prompt next_prompt() {
    const bool first = next_ == 0;
    const LineLength length = line(next_++);
    const auto shared = static_cast<std::int64_t>(first ? 0 : job_.shared_prefix);
    return {length, std::clamp<std::int64_t>(shared, 0, length.prompt - 1)};
  }

  LineLength line(std::int64_t i) const {
    if (!job_.lines.empty()) return job_.lines[static_cast<std::size_t>(i) % job_.lines.size()];
    return {std::max(1, static_cast<int>(std::lround(job_.prompt_len))),
            std::max(1, static_cast<int>(std::lround(job_.gen_len)))};
  }

  // Its first token is there; the others take a sweep each.
  void begin_to_decode(LineLength length) {
    if (length.answer <= 1) return;
    ++decoding_;
    positions_ += length.prompt;
    End& end = ends_[now_ + length.answer - 1];
    ++end.count;
    end.positions += length.prompt + length.answer - 1;
  }

  const Workload& job_;
  const std::int64_t lines_, block_, rows_;
  std::int64_t next_ = 0, now_ = 0;
  std::deque<Prompt> prompts_;                 // in the block, not yet through
  std::int64_t decoding_ = 0, positions_ = 0;  // and the sum of what they have in the cache
  std::map<std::int64_t, End> ends_;           // by sweep
};

}  // namespace

Prediction predict(const Profile& profile, const ModelShape& shape, const Workload& job,
                   const Policy& policy) {
  const SweepPricer pricer(profile, shape, policy);
  const double all = std::max(1.0, std::round(job.num_prompts));
  const double walked = std::min(all, std::max(kBlocksWalked * policy.block_sequences(), 64.0));
  Walk walk(job, policy, static_cast<std::int64_t>(walked));
  Prediction p;
  std::vector<double> ends, tokens;  // after each sweep: seconds, tokens generated
  std::map<std::string_view, double> waited;
  double generated = 0;
  while (!walk.over()) {
    const SweepLoad load = walk.sweep();
    const ResourceSeconds seconds = pricer.seconds(load);
    p.sweep += seconds;
    p.seconds += seconds.longest();
    waited[seconds.bottleneck()] += seconds.longest();
    generated += load.logits;
    ends.push_back(p.seconds);
    tokens.push_back(generated);
  }
  p.sweeps = static_cast<double>(ends.size());
  p.sweep = p.sweep * (1 / p.sweeps);
  p.sweep_seconds = p.seconds / p.sweeps;
  double most = 0;
  for (const auto& [name, seconds] : waited)
    if (seconds > most) most = seconds, p.bottleneck = name.data();
  if (walked < all) {
    const std::size_t from = ends.size() / 4, to = ends.size() * 3 / 4;
    const double left = generated * (all / walked - 1);
    p.seconds += left * (ends[to] - ends[from]) / (tokens[to] - tokens[from]);
    p.sweeps += left * static_cast<double>(to - from) / (tokens[to] - tokens[from]);
    generated += left;
  }
  p.generated_tokens_per_s = generated / p.seconds;
  const double prompts = job.num_prompts * job.prompt_len;
  p.total_tokens_per_s = p.generated_tokens_per_s + prompts / p.seconds;
  return p;
}

}  // namespace barge
