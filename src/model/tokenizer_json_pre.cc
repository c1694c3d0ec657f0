#include "core/errors.h"
#include "model/pre_tokenizer.h"
#include "model/tokenizer_json_file.h"

namespace barge::tokenizer_files {
namespace {

using nlohmann::json;

// A step, or a Sequence of steps, as a flat list; `parts` is the name of a Sequence's list.
void flatten(const json& step, const char* parts, std::vector<json>& out) {
  if (step.is_null()) return;
  if (step.at("type") != "Sequence") {
    out.push_back(step);
    return;
  }
  for (const json& part : step.at(parts)) flatten(part, parts, out);
}

bool is_byte_level(const json& step, bool use_regex) {
  return step.at("type") == "ByteLevel" && !step.value("add_prefix_space", true) &&
         step.value("use_regex", true) == use_regex;
}

bool is_single_digits(const json& step) {
  return step.at("type") == "Digits" && step.value("individual_digits", false);
}

// The regular expression of a Split that keeps all of the text; empty for anything else.
std::string split_pattern(const json& step) {
  if (step.at("type") != "Split" || step.value("behavior", "") != "Isolated" ||
      step.value("invert", false))
    return {};
  return step.at("pattern").value("Regex", "");
}

std::string_view map_steps(const std::vector<json>& steps) {
  if (steps.size() == 1 && is_byte_level(steps[0], true)) return "gpt-2";
  if (steps.size() != 2) return {};
  if (is_single_digits(steps[0]) && is_byte_level(steps[1], true)) return "smollm";
  if (is_byte_level(steps[1], false)) return pre_tokenizer_by_pattern(split_pattern(steps[0]));
  return {};
}

}  // namespace

std::string map_pre_tokenizer(const json& tokenizer, const std::string& source) {
  std::vector<json> steps, normalizers;
  const json pre_tokenizer = tokenizer.value("pre_tokenizer", json());
  const json normalizer = tokenizer.value("normalizer", json());
  flatten(pre_tokenizer, "pretokenizers", steps);
  flatten(normalizer, "normalizers", normalizers);
  const std::string name(map_steps(steps));
  if (name.empty())
    throw FormatError(concat(source, " has the pre-tokenizer ", pre_tokenizer.dump(),
                             ", which is none of those that barge knows: byte-level BPE split as ",
                             "GPT-2, OPT, SmolLM, Llama 3 or Qwen2 do"));
  const bool nfc = normalizers.size() == 1 && normalizers[0].at("type") == "NFC";
  if ((!nfc && !normalizers.empty()) || nfc != PreTokenizer(name).wants_nfc())
    throw FormatError(concat(source, " has the normalizer ", normalizer.dump(),
                             " with the pre-tokenizer of ", name, "; barge wants ",
                             PreTokenizer(name).wants_nfc() ? "NFC" : "none", " there"));
  return name;
}

}  // namespace barge::tokenizer_files
