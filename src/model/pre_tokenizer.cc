#include "model/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8  // pcre2.h asks for it
#include <pcre2.h>

#include <array>
#include <memory>
#include <string>

#include "core/errors.h"
#include "model/unicode.h"

namespace barge {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Known {
  std::string_view name, pattern;
  bool split_digits = false;  // each numeric character is a word, before the pattern is tried
  bool nfc = false;
};

// The first name of a pattern is the one that tokenizer.json is mapped to; the others are what GGUF
// files call it too.
constexpr auto kKnown = std::to_array<Known>({
    {"gpt-2", kGpt2},
    {"gpt2", kGpt2},
    {"opt", kGpt2},
    {"phi-2", kGpt2},
    {"smollm", kGpt2, true},
    {"starcoder", kGpt2, true},
    {"refact", kGpt2, true},
    {"llama-bpe", kLlama3},
    {"llama3", kLlama3},
    {"llama-v3", kLlama3},
    {"qwen2", kQwen2, false, true},
    {"deepseek-r1-qwen", kQwen2, false, true},
});

const Known& find_known(std::string_view name) {
  std::string names;
  for (const Known& known : kKnown) {
    if (known.name == name) return known;
    names += concat(names.empty() ? "" : ", ", known.name);
  }
  throw FormatError(concat("the tokenizer asks for the pre-tokenizer '", name,
                           "', which barge doesn't know; it knows ", names));
}

// PCRE2's \s takes U+180E, which Unicode no longer counts as white space; spelled out instead.
std::string spell_out_spaces(std::string_view pattern) {
  constexpr std::string_view kSpaces =
      R"(\t-\r \x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view here = pattern.substr(i, 2);
    if (here == "\\s" || here == "\\S") {
      out += in_class ? std::string(kSpaces) : concat(here[1] == 's' ? "[" : "[^", kSpaces, "]");
      ++i;
      continue;
    }
    if (here[0] == '[') in_class = true;
    if (here[0] == ']') in_class = false;
    out += here[0];
    if (here[0] == '\\') out += pattern[++i];
  }
  return out;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

constexpr std::string_view kDigits = R"(\p{N}|\P{N}+)";

}  // namespace

struct PreTokenizer::Regex {
  explicit Regex(std::string_view pattern) {
    const std::string spelled = spell_out_spaces(pattern);
    int error = 0;
    PCRE2_SIZE at = 0;
    code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                             PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
    if (!code)
      throw Error(concat("PCRE2 refuses the pattern ", spelled, " at ", at, ": error ", error));
    // Where the system forbids JIT, matching interprets: slower, the same words.
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  }

  /// Adds the words of `text`, which is valid UTF-8. `match` is room for one match.
  void split(std::string_view text, pcre2_match_data* match,
             std::vector<std::string_view>& words) const {
    const auto add = [&](std::string_view word) {
      if (!word.empty()) words.push_back(word);
    };
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::size_t at = 0;
    while (at < text.size()) {
      // PCRE2's own check of UTF-8 would read the whole rest each time.
      const int rc =
          pcre2_match(code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, match, nullptr);
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0)
        throw RequestError(concat("cannot split ", text.size(), " bytes of text into words: PCRE2 ",
                                  "gives up at byte ", at, " with error ", rc));
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match);
      if (span[1] == span[0]) break;  // none of the patterns matches nothing
      add(text.substr(at, span[0] - at));
      add(text.substr(span[0], span[1] - span[0]));
      at = span[1];
    }
    add(text.substr(at));
  }

  std::unique_ptr<pcre2_code, FreeCode> code;
};

PreTokenizer::PreTokenizer(std::string_view name) {
  const Known& known = find_known(name);
  if (known.split_digits) stages_.emplace_back(kDigits);
  stages_.emplace_back(known.pattern);
  nfc_ = known.nfc;
}
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

bool PreTokenizer::wants_nfc() const { return nfc_; }

std::size_t PreTokenizer::bytes() const {
  std::size_t sum = 0;
  for (const Regex& stage : stages_) {
    std::size_t code = 0, jit = 0;
    (void)pcre2_pattern_info(stage.code.get(), PCRE2_INFO_SIZE, &code);
    (void)pcre2_pattern_info(stage.code.get(), PCRE2_INFO_JITSIZE, &jit);
    sum += sizeof(Regex) + code + jit;
  }
  return sum;
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  if (!match) throw OutOfMemory("cannot allocate PCRE2's match data");
  std::vector<std::string_view> words, pieces;
  while (!text.empty()) {
    const std::string_view valid = valid_prefix(text);
    if (stages_.size() == 1) {
      stages_[0].split(valid, match.get(), words);
    } else {
      pieces.clear();
      stages_[0].split(valid, match.get(), pieces);
      for (const std::string_view piece : pieces) stages_[1].split(piece, match.get(), words);
    }
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    const int bad = first_char(text).bytes;
    words.push_back(text.substr(0, bad));
    text.remove_prefix(bad);
  }
  return words;
}

std::string_view pre_tokenizer_by_pattern(std::string_view pattern) {
  for (const Known& known : kKnown)
    if (known.pattern == pattern) return known.name;
  return {};
}

}  // namespace barge
