#pragma once

#include <algorithm>
#include <vector>

namespace barge {

/// Tokens of one line: how many in, how many out.
struct LineLength {
  int prompt = 0, answer = 0;
};

/// A job, by its means and its longest line.
struct Workload {
  double prompt_len = 512, gen_len = 32;  // tokens
  double num_prompts = 1000;
  double longest = 0;        // prompt + answer; 0: not known
  double shared_prefix = 0;  // tokens with which all prompts begin; all but the first find them
  /// Lines as they come, over and over until there are num_prompts; empty: all are like the mean.
  std::vector<LineLength> lines;

  /// Prompt tokens of a line that are computed.
  double own_prompt() const { return std::max(1.0, prompt_len - shared_prefix); }
};

}  // namespace barge
