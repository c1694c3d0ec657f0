#include "cli/workload.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "jobs/line_reader.h"

namespace barge {
namespace {

constexpr double kBytesPerToken = 4;
constexpr double kDefaultAnswer = 256;  // of chat requests that set no limit

}  // namespace

Workload workload_of(const Options& o, int num_prompts) {
  return {1.0 * o.prompt_len, 1.0 * o.gen_len, 1.0 * num_prompts, 1.0 * o.prompt_len + o.gen_len};
}

Workload estimate_workload(const std::filesystem::path& input) {
  constexpr int kLinesLookedAt = 1000;
  double lines = 0, prompt = 0, answer = 0, longest = 0;
  LineReader reader(input);
  double bytes_seen = 0;
  for (LineReader::Line line; reader.next(line);) {
    bytes_seen += static_cast<double>(line.text.size()) + 1;
    if (lines >= kLinesLookedAt) break;
    const auto json = nlohmann::json::parse(line.text, nullptr, false);
    if (!json.is_object() || !json.contains("body") || !json["body"].is_object()) continue;
    const auto& body = json["body"];
    double limit = kDefaultAnswer;
    for (const char* key : {"max_tokens", "max_completion_tokens"})
      if (body.contains(key) && body[key].is_number()) limit = body[key].get<double>();
    ++lines;
    const double text = std::max(1.0, static_cast<double>(line.text.size()) / kBytesPerToken);
    answer += std::max(1.0, limit);
    prompt += text;
    longest = std::max(longest, text + limit);
  }
  if (lines == 0) return {};
  const double bytes = static_cast<double>(std::filesystem::file_size(input));
  const double all = std::max(lines, lines * bytes / std::max(bytes_seen, 1.0));
  return {prompt / lines, answer / lines, all, longest};
}

}  // namespace barge
