#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace barge {

/// What a request line asks for, taken apart: "/v1/models/org%2Fm?limit=5".
class Target {
 public:
  /// Anything is a target.
  explicit Target(std::string_view text);

  const std::string& path() const { return path_; }  // without the query, as it came
  const std::map<std::string, std::string>& query() const { return query_; }

  /// The segments that stand where `pattern` has "*"; none if the path isn't of this form. A slash
  /// at the end doesn't matter.
  std::optional<std::vector<std::string>> match(const std::vector<std::string>& pattern) const;

 private:
  std::string path_;
  std::vector<std::string> segments_;  // decoded
  std::map<std::string, std::string> query_;
};

}  // namespace barge
