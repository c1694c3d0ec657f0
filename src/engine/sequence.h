#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/kv_demand.h"
#include "engine/request.h"
#include "offload/kv_store.h"

namespace barge {

struct Prefix;

/// A request on its way through the model. The engine's thread owns it.
struct Sequence {
  std::uint64_t id = 0;
  GenerationRequest request;
  KvStore::SequenceId kv = -1;   // none: waits, or its KV was dropped
  bool swapped = false;          // its KV is on disk, put aside
  KvStore::Placement placement;  // homes of its KV
  KvDemand demand;               // bytes of its KV cache by length
  Prefix* prefix = nullptr;      // in the cache: its prompt, for others; null: nobody may share it
  int fed = 0;                   // positions in the KV cache
  std::vector<TokenId> answer;   // sampled or forced so far; the last one isn't fed yet
  std::vector<SampledToken> prompt_scores;

  /// Set when it leaves at the end of the sweep.
  std::optional<FinishReason> end;
  std::string error;

  int prompt_tokens() const { return static_cast<int>(request.prompt.size()); }
  int prompt_left() const { return std::max(0, prompt_tokens() - fed); }
  bool in_cache() const { return kv >= 0 && !swapped; }
  /// Positions that it feeds at most: the last token of an answer is never fed.
  int final_positions() const { return prompt_tokens() + std::max(0, request.max_tokens - 1); }
  TokenId token_at(int position) const {
    return position < prompt_tokens()
               ? request.prompt[static_cast<std::size_t>(position)]
               : answer[static_cast<std::size_t>(position - prompt_tokens())];
  }
  /// Whether the logits after the token at `position` are looked at: once, where positions are fed
  /// again because their KV was dropped.
  bool wants_logits(int position) const {
    if (position + 1 < prompt_tokens()) return request.prompt_logprobs && answer.empty();
    return request.max_tokens > 0 &&
           position + 1 == prompt_tokens() + static_cast<int>(answer.size());
  }
};

}  // namespace barge
