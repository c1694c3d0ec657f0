#include "model/unicode.h"

namespace barge {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

}  // namespace

Utf8Char first_char(std::string_view text) {
  using Status = Utf8Char::Status;
  const unsigned lead = byte_at(text, 0);
  if (lead < 0x80) return {Status::kValid, lead, 1};
  int bytes = 0;
  if (lead >= 0xC2 && lead <= 0xDF) bytes = 2;
  if (lead >= 0xE0 && lead <= 0xEF) bytes = 3;
  if (lead >= 0xF0 && lead <= 0xF4) bytes = 4;
  if (bytes == 0) return {Status::kInvalid, 0, 1};
  char32_t code = lead & (0x7Fu >> bytes);
  for (int i = 1; i < bytes; ++i) {
    if (static_cast<std::size_t>(i) == text.size()) return {Status::kTruncated, 0, i};
    const unsigned next = byte_at(text, i);
    unsigned low = 0x80, high = 0xBF;         // narrower for the second byte of some leads
    if (i == 1 && lead == 0xE0) low = 0xA0;   // overlong
    if (i == 1 && lead == 0xED) high = 0x9F;  // surrogates
    if (i == 1 && lead == 0xF0) low = 0x90;   // overlong
    if (i == 1 && lead == 0xF4) high = 0x8F;  // above U+10FFFF
    if (next < low || next > high) return {Status::kInvalid, 0, i};
    code = code << 6 | (next & 0x3F);
  }
  return {Status::kValid, code, bytes};
}

std::string_view valid_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const Utf8Char c = first_char(text.substr(end));
    if (c.status != Utf8Char::Status::kValid) break;
    end += c.bytes;
  }
  return text.substr(0, end);
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    if (c.status != Utf8Char::Status::kValid || !is_space(c.code)) break;
    text.remove_prefix(c.bytes);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    std::size_t start = text.size() - 1;  // of the last character
    while (start > 0 && (byte_at(text, start) & 0xC0) == 0x80) --start;
    const Utf8Char c = first_char(text.substr(start));
    if (c.status != Utf8Char::Status::kValid || !is_space(c.code)) break;
    text = text.substr(0, start);
  }
  return text;
}

}  // namespace barge
