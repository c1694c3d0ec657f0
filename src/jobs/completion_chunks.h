#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "jobs/completion_request.h"
#include "jobs/logprobs_json.h"

namespace barge {

/// An answer in pieces: the chat.completion.chunk or text_completion objects of a stream. Of each
/// choice: `begin` once, `piece` as they come, `end` once; of different choices in any order.
class CompletionChunks {
 public:
  /// References must outlive it.
  CompletionChunks(const CompletionRequest& request, const Generator& generator, std::string id,
                   std::int64_t created);

  /// Whether pieces are of use. Where the prompt is echoed, `end` has the whole choice: the
  /// prompt's log-probabilities, which stand before the answer's, come with it.
  bool in_pieces() const { return !request_.echo && !request_.score_only; }

  /// Says who speaks; null: this endpoint doesn't.
  nlohmann::ordered_json begin(std::size_t choice) const;
  nlohmann::ordered_json piece(std::size_t choice, const TextPiece& piece);
  /// Why it ended, and the log-probabilities of tokens that came with no piece.
  nlohmann::ordered_json end(std::size_t choice, const TextResult& result);
  /// After all ends, if request.include_usage.
  nlohmann::ordered_json usage(std::span<const TextResult> results) const;

 private:
  nlohmann::ordered_json chunk(nlohmann::ordered_json choices) const;
  nlohmann::ordered_json chunk(std::size_t choice, nlohmann::ordered_json content,
                               std::span<const SampledToken> tokens,
                               nlohmann::ordered_json finish_reason);
  nlohmann::ordered_json logprobs(std::size_t choice, std::span<const SampledToken> tokens);

  const CompletionRequest& request_;
  const Generator& generator_;
  const std::string id_;
  const std::int64_t created_;
  const bool chat_;
  std::vector<std::size_t> told_;         // tokens of each choice that came with a piece
  std::vector<LegacyLogprobs> logprobs_;  // of each choice of /v1/completions
};

}  // namespace barge
