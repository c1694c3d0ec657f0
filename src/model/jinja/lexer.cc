#include "model/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "core/errors.h"
#include "model/unicode.h"

namespace barge::jinja {
namespace {

using Kind = Token::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Tokens run() {
    if (!source_.empty() && source_.back() == '\n') source_.remove_suffix(1);
    while (at_ < source_.size()) {
      const std::size_t tag = find_tag(at_);
      const bool is_last = tag == source_.npos;
      std::string_view text = source_.substr(at_, is_last ? source_.npos : tag - at_);
      if (!is_last) text = strip_before(text, tag);
      add_text(text);
      if (is_last) break;
      skip_to(tag);
      read_tag();
    }
    add(Kind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(concat("the chat template, line ", line_, ": ", what));
  }

  void add(Kind kind, std::string_view text) { tokens_.list.push_back({kind, text, line_}); }

  void add_text(std::string_view text) {
    if (!text.empty()) add(Kind::kText, text);
  }

  void skip_to(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  [[nodiscard]] bool starts(std::string_view with) const {
    return source_.substr(at_, with.size()) == with;
  }

  [[nodiscard]] std::size_t find_tag(std::size_t from) const {
    for (std::size_t i = source_.find('{', from); i != source_.npos; i = source_.find('{', i + 1))
      if (i + 1 < source_.size() && std::string_view("{%#").find(source_[i + 1]) != source_.npos)
        return i;
    return source_.npos;
  }

  // What stays of the text before a tag: "-" takes all white space, a block or comment that is
  // first in its line takes the indentation, "+" keeps it.
  [[nodiscard]] std::string_view strip_before(std::string_view text, std::size_t tag) const {
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign == '-') return strip_right(text);
    if (sign == '+' || source_[tag + 1] == '{') return text;
    const std::size_t newline = text.rfind('\n');
    if (newline == text.npos && !at_line_start_) return text;
    const std::size_t begin = newline == text.npos ? 0 : newline + 1;
    return strip_left(text.substr(begin)).empty() ? text.substr(0, begin) : text;
  }

  // After a tag's end. at_ stands on the sign, if any.
  void close_tag(std::string_view end, bool trims_newline) {
    const char sign = at_ < source_.size() ? source_[at_] : ' ';
    const bool signed_end = sign == '-' || (sign == '+' && trims_newline);
    skip_to(at_ + (signed_end ? 1 : 0) + end.size());
    const std::size_t start = at_;
    if (sign == '-') {
      while (at_ < source_.size() && is_blank(source_[at_])) skip_to(at_ + 1);
    } else if (trims_newline && !signed_end && starts("\n")) {
      skip_to(at_ + 1);
    }
    at_line_start_ = at_ > start && source_[at_ - 1] == '\n';
  }

  void read_tag() {
    const char kind = source_[at_ + 1];
    if (kind == '#') return read_comment();
    const bool is_block = kind == '%';
    const std::size_t begin = at_;
    skip_to(at_ + 2);
    if (starts("-") || (is_block && starts("+"))) skip_to(at_ + 1);
    if (is_block && is_raw_tag()) return read_raw();
    add(is_block ? Kind::kBlock : Kind::kOutput, source_.substr(begin, 2));
    const std::string_view end = is_block ? "%}" : "}}";
    brackets_.clear();
    while (true) {
      while (at_ < source_.size() && is_blank(source_[at_])) skip_to(at_ + 1);
      if (at_ == source_.size()) fail(concat("the tag is never closed with ", end));
      if (brackets_.empty() && closes(end, is_block)) break;
      read_token();
    }
    add(is_block ? Kind::kBlockEnd : Kind::kOutputEnd, end);
    close_tag(end, is_block);
  }

  [[nodiscard]] bool closes(std::string_view end, bool is_block) const {
    if (starts(end)) return true;
    const bool has_sign = starts("-") || (is_block && starts("+"));
    return has_sign && source_.substr(at_ + 1, 2) == end;
  }

  void read_comment() {
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == source_.npos) fail("the comment is never closed with #}");
    const char last = source_[end - 1];
    const bool has_sign = end - 1 >= at_ + 2 && (last == '-' || last == '+');
    skip_to(has_sign ? end - 1 : end);
    close_tag("#}", true);
  }

  // at_ stands behind "{%" and its sign.
  [[nodiscard]] bool is_raw_tag() const {
    const std::string_view rest = strip_left(source_.substr(at_));
    return rest.substr(0, 3) == "raw" && rest.size() > 3 && !is_name(rest[3]);
  }

  void read_raw() {
    const std::size_t open_end = source_.find("%}", at_);
    if (open_end == source_.npos) fail("the raw tag is never closed with %}");
    skip_to(source_[open_end - 1] == '-' ? open_end - 1 : open_end);
    close_tag("%}", true);
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != source_.npos; tag += 2) {
      std::size_t name = tag + 2;
      while (name < source_.size() && (is_blank(source_[name]) || source_[name] == '-')) ++name;
      if (source_.substr(name, 6) != "endraw") continue;
      add_text(strip_before(source_.substr(at_, tag - at_), tag));
      const std::size_t end = source_.find("%}", name);
      if (end == source_.npos) break;
      skip_to(source_[end - 1] == '-' ? end - 1 : end);
      return close_tag("%}", true);
    }
    fail("the raw block has no endraw");
  }

  void read_token() {
    const char c = source_[at_];
    if (is_name_start(c)) {
      std::size_t end = at_;
      while (end < source_.size() && is_name(source_[end])) ++end;
      take(Kind::kName, end);
    } else if (is_digit(c)) {
      read_number();
    } else if (c == '"' || c == '\'') {
      read_string();
    } else {
      read_operator();
    }
  }

  void take(Kind kind, std::size_t end) {
    add(kind, source_.substr(at_, end - at_));
    skip_to(end);
  }

  void read_number() {
    std::size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    Kind kind = Kind::kInteger;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      kind = Kind::kFloat;
      ++end;
      digits();
    }
    if (end + 1 < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const std::size_t sign = source_[end + 1] == '-' || source_[end + 1] == '+' ? 1 : 0;
      if (end + 1 + sign < source_.size() && is_digit(source_[end + 1 + sign])) {
        kind = Kind::kFloat;
        end += 1 + sign;
        digits();
      }
    }
    if (end < source_.size() && is_name(source_[end])) fail("a number runs into a name");
    take(kind, end);
  }

  void read_string() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    bool escaped = false;
    while (end < source_.size() && source_[end] != quote) {
      if (source_[end] == '\\') {
        escaped = true;
        ++end;
      }
      ++end;
    }
    if (end >= source_.size()) fail("the string is never closed");
    const std::string_view text = source_.substr(at_ + 1, end - at_ - 1);
    add(Kind::kString, escaped ? tokens_.strings.emplace_back(unescape(text)) : text);
    skip_to(end + 1);
  }

  [[nodiscard]] std::string unescape(std::string_view text) const {
    static constexpr std::string_view kFrom = "nrtbfav0\\'\"", kTo = {"\n\r\t\b\f\a\v\0\\'\"", 11};
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (digits != 0) {
        unsigned code = 0;
        const char* begin = text.data() + i + 1;
        const char* end = begin + std::min(digits, text.size() - i - 1);
        const auto read = std::from_chars(begin, end, code, 16);
        if (read.ptr != begin + digits || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
          fail(concat("\\", c, " wants ", digits, " hexadecimal digits of a character"));
        append_utf8(out, code);
        i += digits;
      } else if (c == '\n') {
        // a line that is continued
      } else if (const std::size_t known = kFrom.find(c); known != kFrom.npos) {
        out += kTo[known];
      } else {
        out += {'\\', c};
      }
    }
    return out;
  }

  void read_operator() {
    static constexpr std::string_view kTwo[] = {"==", "!=", "<=", ">=", "//", "**"};
    const std::string_view two = source_.substr(at_, 2);
    if (std::find(std::begin(kTwo), std::end(kTwo), two) != std::end(kTwo))
      return take(Kind::kOperator, at_ + 2);
    const char c = source_[at_];
    if (std::string_view("+-*/%~<>=()[]{},.:|").find(c) == std::string_view::npos)
      fail(concat("'", source_.substr(at_, first_char(source_.substr(at_)).bytes),
                  "' means nothing in a tag"));
    if (std::string_view("([{").find(c) != std::string_view::npos) brackets_ += c;
    if (std::string_view(")]}").find(c) != std::string_view::npos) {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets_.empty() || brackets_.back() != open) fail(concat("'", c, "' closes nothing"));
      brackets_.pop_back();
    }
    take(Kind::kOperator, at_ + 1);
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // whether what was read last ended a line
  std::string brackets_;       // open ones in this tag
  Tokens tokens_;
};

}  // namespace

Tokens tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace barge::jinja
