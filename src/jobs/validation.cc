#include "jobs/validation.h"

#include "core/errors.h"

namespace barge {

Validation validate(const std::filesystem::path& path, const LineRules& rules,
                    const ValidationLimits& limits) {
  Validation out;
  const auto add = [&](LineProblem problem) {
    if (++out.num_problems <= limits.max_problems) out.problems.push_back(std::move(problem));
  };
  LineReader reader(path);
  LineChecker checker(rules);
  LineReader::Line line;
  while (reader.next(line)) {
    if (++out.num_requests > limits.max_requests) continue;  // goes on only to count and hash
    if (auto problem = checker.problem_of(line)) add(std::move(*problem));
  }
  if (out.num_requests == 0)
    add({"empty_file",
         "The input file is empty. Please ensure that the batch contains at least one request."});
  if (out.num_requests > limits.max_requests)
    add({"too_many_tasks",
         concat("The input file has ", out.num_requests, " requests; a batch may have at most ",
                limits.max_requests, ". Split it.")});
  out.content_hash = reader.content_hash();
  return out;
}

Validation scan(const std::filesystem::path& path) {
  Validation out;
  LineReader reader(path);
  LineReader::Line line;
  while (reader.next(line)) ++out.num_requests;
  out.content_hash = reader.content_hash();
  return out;
}

nlohmann::ordered_json problems_json(const std::vector<LineProblem>& problems) {
  using Json = nlohmann::ordered_json;
  Json data = Json::array();
  for (const LineProblem& problem : problems) {
    Json entry = {{"code", problem.code},
                  {"message", problem.message},
                  {"param", nullptr},
                  {"line", nullptr}};
    if (!problem.param.empty()) entry["param"] = problem.param;
    if (problem.line > 0) entry["line"] = problem.line;
    data.push_back(std::move(entry));
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

}  // namespace barge
