#include "server/multipart.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "core/errors.h"

namespace barge {
namespace {

constexpr std::size_t kMaxHeaderBytes = 8192;
constexpr const char* kTooManyHeaderBytes = "has more than 8192 bytes of headers in a part.";
constexpr std::size_t kMaxBoundaryBytes = 200;  // RFC 2046: 70
constexpr int kMaxParts = 32;

[[noreturn]] void refuse(const std::string& what, int status = 400) {
  throw RequestError("The multipart/form-data body " + what, "", "", status);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// `form-data; name="a"; filename="b \"c\""`: the parameters by lower-case name.
std::vector<std::pair<std::string, std::string>> parameters(std::string_view value) {
  std::vector<std::pair<std::string, std::string>> found;
  std::size_t at = std::min(value.find(';'), value.size());
  while (at < value.size()) {
    ++at;  // the semicolon
    const std::size_t equals = value.find_first_of("=;", at);
    if (equals == std::string_view::npos || value[equals] == ';') {
      at = std::min(equals, value.size());
      continue;
    }
    std::string name = lower(trimmed(value.substr(at, equals - at)));
    at = std::min(value.find_first_not_of(" \t", equals + 1), value.size());
    std::string text;
    if (at < value.size() && value[at] == '"') {
      for (++at; at < value.size() && value[at] != '"'; ++at) {
        // Browsers write a backslash as it is; only an escaped quote is one.
        if (value[at] == '\\' && at + 1 < value.size() && value[at + 1] == '"') ++at;
        text += value[at];
      }
      at = std::min(value.find(';', at), value.size());
    } else {
      const std::size_t end = std::min(value.find(';', at), value.size());
      text = trimmed(value.substr(at, end - at));
      at = end;
    }
    found.emplace_back(std::move(name), std::move(text));
  }
  return found;
}

// HTML's escapes in form-data names.
std::string unescaped(std::string text) {
  for (const auto& [escape, plain] : {std::pair("%22", '"'), {"%0D", '\r'}, {"%0A", '\n'}})
    for (std::size_t at = 0; (at = text.find(escape, at)) != std::string::npos; ++at)
      text.replace(at, 3, 1, plain);
  return text;
}

}  // namespace

std::string MultipartParser::boundary_of(std::string_view content_type) {
  if (lower(trimmed(content_type.substr(0, content_type.find(';')))) != "multipart/form-data")
    throw RequestError("Invalid Content-Type: files are uploaded as 'multipart/form-data'.", "", "",
                       415);
  for (auto& [name, value] : parameters(content_type))
    if (name == "boundary" && !value.empty() && value.size() <= kMaxBoundaryBytes) return value;
  refuse("can't be read: its Content-Type names no boundary.");
}

// The first boundary may stand at the very beginning: a line end before it makes it like the rest.
MultipartParser::MultipartParser(std::string_view boundary, FormSink& sink)
    : delimiter_("\r\n--" + std::string(boundary)), sink_(sink), buffer_("\r\n") {}

void MultipartParser::push(std::string_view bytes) {
  if (state_ == State::kEpilogue) return;
  buffer_ += bytes;
  while (step()) {
  }
}

void MultipartParser::finish() const {
  if (state_ != State::kEpilogue)
    refuse(concat("ends before its last boundary, in part ", num_parts_, '.'));
}

std::size_t MultipartParser::find(std::string_view text, const char* refusal) const {
  const std::size_t at = buffer_.find(text);
  const bool too_late = at == std::string::npos ? buffer_.size() > kMaxHeaderBytes + text.size()
                                                : at > kMaxHeaderBytes;
  if (too_late) refuse(refusal);
  return at;
}

// False: more bytes are needed.
bool MultipartParser::step() {
  switch (state_) {
    case State::kPreamble: {
      const std::size_t at = find(delimiter_, "doesn't begin with its boundary.");
      if (at == std::string::npos) return false;
      buffer_.erase(0, at + delimiter_.size());
      state_ = State::kAfterBoundary;
      return true;
    }
    case State::kAfterBoundary: {
      if (buffer_.size() < 2) return false;
      if (buffer_.starts_with("--")) {
        state_ = State::kEpilogue;
        buffer_.clear();
        return false;
      }
      const std::size_t end = find("\r\n", "has no line end after a boundary.");
      if (end == std::string::npos) return false;
      if (!trimmed(std::string_view(buffer_).substr(0, end)).empty())
        refuse("has text behind a boundary.");
      buffer_.erase(0, end);  // the line end stays: headers may be none
      state_ = State::kHeaders;
      return true;
    }
    case State::kHeaders: {
      const std::size_t end = find("\r\n\r\n", kTooManyHeaderBytes);
      if (end == std::string::npos) return false;
      begin_part(std::string_view(buffer_).substr(0, end));
      buffer_.erase(0, end + 4);
      state_ = State::kData;
      return true;
    }
    case State::kData:
      return read_data();
    case State::kEpilogue:
      return false;
  }
  return false;
}

bool MultipartParser::read_data() {
  const std::size_t end = buffer_.find(delimiter_);
  if (end != std::string::npos) {
    if (end > 0) sink_.part_data(std::string_view(buffer_).substr(0, end));
    sink_.end_part();
    buffer_.erase(0, end + delimiter_.size());
    state_ = State::kAfterBoundary;
    return true;
  }
  if (buffer_.size() >= delimiter_.size()) {  // its end may be the beginning of the delimiter
    const std::size_t sure = buffer_.size() - delimiter_.size() + 1;
    sink_.part_data(std::string_view(buffer_).substr(0, sure));
    buffer_.erase(0, sure);
  }
  return false;
}

void MultipartParser::begin_part(std::string_view headers) {
  if (++num_parts_ > kMaxParts) refuse(concat("has more than ", kMaxParts, " parts."));
  std::string name, filename;
  bool has_name = false, has_filename = false;
  while (!headers.empty()) {
    const std::size_t end = std::min(headers.find("\r\n"), headers.size());
    const std::string_view line = headers.substr(0, end);
    headers.remove_prefix(std::min(end + 2, headers.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || lower(line.substr(0, colon)) != "content-disposition")
      continue;
    for (auto& [key, value] : parameters(line.substr(colon + 1))) {
      if (key == "name") {
        has_name = true;
        name = unescaped(std::move(value));
      } else if (key == "filename") {
        has_filename = true;
        filename = unescaped(std::move(value));
      }
    }
  }
  if (!has_name) refuse(concat("has a part without a name, number ", num_parts_, '.'));
  sink_.begin_part(name, filename, has_filename);
}

}  // namespace barge
