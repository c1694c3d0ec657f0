#include "model/unicode_nfc.h"

#include <algorithm>
#include <vector>

#include "model/unicode.h"
#include "model/unicode_nfc_data.h"

namespace barge {
namespace {

using unicode::CombiningRange;
using unicode::Decomposition;

// Hangul: a syllable is leading consonant, vowel, and perhaps a trailing consonant.
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7;
constexpr char32_t kNumLeads = 19, kNumVowels = 21, kNumTrails = 28;  // kTrails itself: no trail
constexpr char32_t kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

struct Char {
  char32_t code;
  int combining_class;
};

int combining_class(char32_t code) {
  if (code < 0x300) return 0;
  const auto range = std::partition_point(unicode::kCombining.begin(), unicode::kCombining.end(),
                                          [&](const CombiningRange& r) { return r.last < code; });
  return range != unicode::kCombining.end() && range->first <= code ? range->combining_class : 0;
}

const Decomposition* find_decomposition(char32_t code) {
  for (const auto table : {unicode::kComposed, unicode::kOneWay}) {
    const auto row = std::partition_point(table.begin(), table.end(),
                                          [&](const Decomposition& d) { return d.code < code; });
    if (row != table.end() && row->code == code) return &*row;
  }
  return nullptr;
}

// Recurses as deep as Unicode nests its decompositions: four times.
void decompose(char32_t code, std::vector<Char>& out) {
  if (code - kSyllables < kNumSyllables) {
    const char32_t index = code - kSyllables;
    out.push_back({kLeads + index / (kNumVowels * kNumTrails), 0});
    out.push_back({kVowels + index / kNumTrails % kNumVowels, 0});
    if (index % kNumTrails != 0) out.push_back({kTrails + index % kNumTrails, 0});
  } else if (const Decomposition* row = code < 0xC0 ? nullptr : find_decomposition(code)) {
    decompose(row->first, out);
    if (row->second != 0) decompose(row->second, out);
  } else {
    out.push_back({code, combining_class(code)});
  }
}

// The pairs that compose, by (first, second).
const std::vector<Decomposition>& pairs() {
  static const auto sorted = [] {
    std::vector<Decomposition> all(unicode::kComposed.begin(), unicode::kComposed.end());
    std::sort(all.begin(), all.end(), [](const Decomposition& a, const Decomposition& b) {
      return a.first != b.first ? a.first < b.first : a.second < b.second;
    });
    return all;
  }();
  return sorted;
}

// 0 where the two don't compose.
char32_t compose(char32_t first, char32_t second) {
  if (first - kLeads < kNumLeads && second - kVowels < kNumVowels)
    return kSyllables + ((first - kLeads) * kNumVowels + (second - kVowels)) * kNumTrails;
  if (first - kSyllables < kNumSyllables && (first - kSyllables) % kNumTrails == 0 &&
      second - kTrails - 1 < kNumTrails - 1)
    return first + (second - kTrails);
  const auto row = std::partition_point(pairs().begin(), pairs().end(), [&](const auto& d) {
    return d.first != first ? d.first < first : d.second < second;
  });
  const bool found = row != pairs().end() && row->first == first && row->second == second;
  return found ? row->code : 0;
}

// Sorts runs of combining marks by their class, keeping the order of equals.
void order_marks(std::vector<Char>& chars) {
  for (auto at = chars.begin(); at != chars.end();) {
    const auto is_starter = [](const Char& c) { return c.combining_class == 0; };
    const auto begin = std::find_if_not(at, chars.end(), is_starter);
    const auto end = std::find_if(begin, chars.end(), is_starter);
    std::stable_sort(begin, end, [](const Char& a, const Char& b) {
      return a.combining_class < b.combining_class;
    });
    at = end;
  }
}

void compose_all(std::vector<Char>& chars) {
  std::size_t starter = chars.size();  // index of the last starter kept; none yet
  std::size_t kept = 0;
  int last_class = -1;  // of the character kept last after the starter; -1: none between
  for (std::size_t i = 0; i < chars.size(); ++i) {
    const Char c = chars[i];
    const bool has_starter = starter < chars.size();
    const bool blocked = last_class >= c.combining_class;
    const char32_t composed = has_starter && !blocked ? compose(chars[starter].code, c.code) : 0;
    if (composed != 0) {
      chars[starter].code = composed;
      continue;
    }
    if (c.combining_class == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = c.combining_class;
    }
    chars[kept++] = c;
  }
  chars.resize(kept);
}

void normalize_valid(std::string_view text, std::string& out) {
  std::vector<Char> chars;
  for (; !text.empty();) {
    const Utf8Char c = first_char(text);
    decompose(c.code, chars);
    text.remove_prefix(c.bytes);
  }
  order_marks(chars);
  compose_all(chars);
  for (const Char& c : chars) append_utf8(out, c.code);
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  // U+0300 is CC 80.
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; });
}

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view valid = valid_prefix(text);
    normalize_valid(valid, out);
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    const int bad = first_char(text).bytes;
    out += text.substr(0, bad);
    text.remove_prefix(bad);
  }
  return out;
}

}  // namespace barge
