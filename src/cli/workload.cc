#include "cli/workload.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "core/errors.h"
#include "jobs/batch_line.h"
#include "jobs/completion_request.h"
#include "jobs/line_reader.h"

namespace barge {
namespace {

constexpr double kBytesPerToken = 4;
constexpr std::size_t kLinesLookedAt = 1000;  // of a job, for its plan
constexpr int kDefaultAnswer = 256;           // of chat requests that set no limit

// "200" or "lognormal:200,0.8,1500".
class Lengths {
 public:
  Lengths(const std::string& text, const char* flag, std::uint64_t seed) : random_(seed) {
    constexpr const char* kWord = "lognormal:";
    int taken = 0;
    const bool drawn = text.starts_with(kWord);
    const int fields = drawn ? std::sscanf(text.c_str(), "lognormal:%lf,%lf,%d%n", &median_,
                                           &sigma_, &most_, &taken)
                             : std::sscanf(text.c_str(), "%d%n", &most_, &taken);
    if (!drawn) median_ = most_;
    if (fields != (drawn ? 3 : 1) || taken != static_cast<int>(text.size()) || most_ < 1 ||
        !(median_ > 0) || !(sigma_ >= 0))
      throw ConfigError(
          concat(flag, " wants a number of tokens or lognormal:MEDIAN,SIGMA,MAX, got ", text));
  }

  int draw() {
    if (sigma_ == 0) return std::min(most_, std::max(1, static_cast<int>(std::lround(median_))));
    const double length = std::lognormal_distribution<double>(std::log(median_), sigma_)(random_);
    return static_cast<int>(std::clamp(std::round(length), 1.0, 1.0 * most_));
  }

 private:
  double median_ = 0, sigma_ = 0;
  int most_ = 0;
  std::mt19937_64 random_;
};

}  // namespace

std::vector<LineLength> draw_lengths(const Options& o, int num_prompts) {
  // A generator each: answers don't change where prompts do.
  Lengths prompts(o.prompt_len, "--prompt-len", 1), answers(o.gen_len, "--gen-len", 2);
  std::vector<LineLength> lengths;
  for (int i = 0; i < num_prompts; ++i) lengths.push_back({prompts.draw(), answers.draw()});
  return lengths;
}

namespace {

// Cuts `common` to what this prompt begins with, too.
void share_with(std::optional<std::string>& common, const nlohmann::json& body) {
  const char* const key = body.contains("messages") ? "messages" : "prompt";
  if (!body.contains(key)) return;
  const std::string prompt =
      body[key].is_string() ? body[key].get<std::string>() : body[key].dump();
  if (!common) common = prompt;
  const auto [in_common, in_prompt] =
      std::mismatch(common->begin(), common->end(), prompt.begin(), prompt.end());
  common->erase(in_common, common->end());
}

}  // namespace

Workload workload_of(const std::vector<LineLength>& lengths) {
  Workload job{.prompt_len = 0, .gen_len = 0, .num_prompts = static_cast<double>(lengths.size())};
  for (const LineLength& line : lengths) {
    job.prompt_len += line.prompt / job.num_prompts;
    job.gen_len += line.answer / job.num_prompts;
    job.longest = std::max(job.longest, 1.0 * line.prompt + line.answer);
  }
  job.lines.assign(lengths.begin(),
                   lengths.begin() + std::min<std::ptrdiff_t>(std::ssize(lengths), kLinesLookedAt));
  return job;
}

Workload estimate_workload(const std::filesystem::path& input) {
  Workload job{.prompt_len = 0, .gen_len = 0};
  LineReader reader(input);
  double bytes_seen = 0;
  std::optional<std::string> common;
  for (LineReader::Line line; reader.next(line);) {
    bytes_seen += static_cast<double>(line.text.size()) + 1;
    if (job.lines.size() >= kLinesLookedAt) break;
    const auto json = nlohmann::json::parse(line.text, nullptr, false);
    if (!json.is_object() || !json.contains("body") || !json["body"].is_object()) continue;
    const auto& body = json["body"];
    double limit = kDefaultAnswer;
    for (const char* key : {"max_tokens", "max_completion_tokens"})
      if (body.contains(key) && body[key].is_number()) limit = body[key].get<double>();
    share_with(common, body);
    const double text = std::max(1.0, static_cast<double>(line.text.size()) / kBytesPerToken);
    limit = std::max(1.0, limit);
    job.lines.push_back({static_cast<int>(text), static_cast<int>(limit)});
    job.gen_len += limit;
    job.prompt_len += text;
    job.longest = std::max(job.longest, text + limit);
  }
  const auto lines = static_cast<double>(job.lines.size());
  if (lines == 0) return {};
  const double bytes = static_cast<double>(std::filesystem::file_size(input));
  const double all = std::max(lines, lines * bytes / std::max(bytes_seen, 1.0));
  job.prompt_len /= lines;
  if (common && lines > 1) job.shared_prefix = static_cast<double>(common->size()) / kBytesPerToken;
  job.shared_prefix = std::min(job.shared_prefix, job.prompt_len - 1);
  job.gen_len /= lines;
  job.num_prompts = all;
  return job;
}

std::vector<TextRequest> random_lines(const std::vector<LineLength>& lengths, int prefix, int vocab,
                                      std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<TokenId> any(5, vocab - 6);  // special tokens are often at the ends
  std::vector<TokenId> common(static_cast<std::size_t>(prefix));
  for (TokenId& id : common) id = any(random);
  std::vector<TextRequest> lines;
  for (const LineLength& length : lengths) {
    std::vector<TokenId> prompt = common;
    prompt.resize(static_cast<std::size_t>(length.prompt));
    for (std::size_t i = common.size(); i < prompt.size(); ++i) prompt[i] = any(random);
    TextRequest& line = lines.emplace_back();
    line.prompt = std::move(prompt);
    line.sampling.temperature = 0;
    line.max_tokens = length.answer;
    line.ignore_eos = true;
  }
  return lines;
}

std::vector<TextRequest> lines_of_file(const std::filesystem::path& input, const TextEngine& engine,
                                       std::uint64_t seed) {
  std::vector<TextRequest> lines;
  LineReader reader(input);
  LineChecker checker(LineRules{});
  for (LineReader::Line text; reader.next(text);) {
    const BatchLine line = checker.check(text);
    if (line.problem) throw line.problem->as_error();
    for (TextRequest& request : parse_completion(line.endpoint, line.body, seed).texts) {
      request.prompt = engine.ids(request);
      request.stop.clear();
      request.max_tokens = request.max_tokens.value_or(kDefaultAnswer);
      request.ignore_eos = true;
      lines.push_back(std::move(request));
    }
  }
  if (lines.empty()) throw ConfigError(concat(input.string(), " has no request"));
  return lines;
}

}  // namespace barge
