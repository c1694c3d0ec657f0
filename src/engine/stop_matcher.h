#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace barge {

/// Finds the first stop string in a text that comes in pieces, wherever the pieces are cut, and
/// holds back what may still become one. Of several the one that is complete first counts, of
/// those the longest. For one sequence.
class StopMatcher {
 public:
  /// Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  /// The text that has become certain. Once `stopped`, all of it was given.
  [[nodiscard]] std::string push(std::string_view piece);
  /// At the end of the text: what was held back.
  [[nodiscard]] std::string flush();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace barge
