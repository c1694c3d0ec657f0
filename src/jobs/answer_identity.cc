#include "jobs/answer_identity.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "jobs/hash.h"

namespace barge {
namespace {

constexpr std::size_t kHashDigits = 20, kLineDigits = 12;

std::int64_t from_hex(const std::string& digits) {
  return static_cast<std::int64_t>(std::strtoull(digits.c_str(), nullptr, 16));
}

}  // namespace

std::string AnswerIdentity::name(std::int64_t line) const {
  const std::string hash = hash128(concat(line, '#', created_at_, '#', job_id_)).hex();
  return hash.substr(0, kHashDigits) +
         hash_text(static_cast<std::uint64_t>(line)).substr(16 - kLineDigits);
}

std::optional<AnswerRecord> AnswerIdentity::recognize(std::string_view text) const {
  using nlohmann::json;
  try {
    const json answer = json::parse(text);
    const auto id = answer.at("id").get<std::string>();
    if (id.size() < kLineDigits) return std::nullopt;
    AnswerRecord record{.line = from_hex(id.substr(id.size() - kLineDigits))};
    if (id != line_id(record.line)) return std::nullopt;
    const json& response = answer.at("response");
    if (response.is_null()) {
      answer.at("error").at("code").get<std::string>();
      record.status = AnswerRecord::kNotRun;
      return record;
    }
    record.status = response.at("status_code");
    if (record.status != 200) return record;
    const json& body = response.at("body");
    record.prompt_tokens = body.at("usage").at("prompt_tokens");
    record.generated_tokens = body.at("usage").at("completion_tokens");
    if (body.contains("logits_hash"))
      record.logits_hash =
          static_cast<std::uint64_t>(from_hex(body.at("logits_hash").get<std::string>()));
    return record;
  } catch (const json::exception&) {  // not JSON, or other JSON than we write
    return std::nullopt;
  }
}

std::string hash_text(std::uint64_t hash) { return Hash128{0, hash}.hex().substr(16); }

}  // namespace barge
