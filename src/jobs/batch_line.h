#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/errors.h"
#include "jobs/hash_set.h"
#include "jobs/line_fields.h"
#include "jobs/line_reader.h"

namespace barge {

enum class Endpoint { kChatCompletions, kCompletions };

/// "/v1/chat/completions", "/v1/completions".
std::string_view url_of(Endpoint endpoint);
std::optional<Endpoint> endpoint_of(std::string_view url);

/// What every line of a job must agree with.
struct LineRules {
  std::optional<Endpoint> endpoint;  // none: either, line by line
  std::vector<std::string> models;   // names that the model answers to; empty: any single one
};

/// What is wrong with a line that can be seen before anything runs, in the words of OpenAI's batch
/// errors.
struct LineProblem {
  std::string code, message;
  std::string param;     // empty: null
  std::size_t line = 0;  // 1-based; 0: null, the whole file is meant

  RequestError as_error() const;
};

/// One line of a Batch-API input file.
struct BatchLine {
  std::size_t number = 0;
  std::optional<std::string> custom_id;  // as soon as it could be read
  Endpoint endpoint = Endpoint::kChatCompletions;
  nlohmann::json body;  // an object
  std::optional<LineProblem> problem;
};

/// Checks the lines of one file, in order: it remembers their custom_ids (as hashes) and the model
/// of the first. Bodies beyond model, prompt and stream are the request parser's matter. Two passes
/// over a file say the same.
class LineChecker {
 public:
  explicit LineChecker(LineRules rules) : rules_(std::move(rules)) {}

  /// Never throws for what is in the line. 20 to 100 MB/s: the body is parsed into a tree.
  BatchLine check(const LineReader::Line& line);
  /// What `check` would find, without the body: about 1 GB/s.
  std::optional<LineProblem> problem_of(const LineReader::Line& line);

 private:
  void check_fields(const LineFields& fields, BatchLine& out);
  void check_model(const LineFields::Field& model);

  LineRules rules_;
  LineScanner scanner_;
  HashSet seen_;
  std::optional<std::string> first_model_;
};

}  // namespace barge
