#include "model/gguf_cursor.h"

#include <algorithm>
#include <array>

namespace barge {
namespace {

constexpr std::size_t kPiece = 64 << 10;          // bytes of the header read at once
constexpr std::uint64_t kMostText = 1 << 20;      // of one string; templates have a few thousand
constexpr int kMostDepth = 4;                     // of arrays in arrays
constexpr std::uint64_t kLengthBytes = 8;         // before a string
constexpr std::uint64_t kArrayHeadBytes = 4 + 8;  // type and count

// Bytes of one element at the least; strings and arrays have more.
std::uint64_t least_bytes(GgufType type) {
  constexpr std::array<std::uint64_t, static_cast<std::size_t>(GgufType::kCount)> kBytes{
      1, 1, 2, 2, 4, 4, 4, 1, kLengthBytes, kArrayHeadBytes, 8, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

}  // namespace

void Gguf::Cursor::refuse(const std::string& message) const {
  throw FormatError(
      concat(file_.path().string(), " is not a whole GGUF file: at offset ", at_, ": ", message));
}

void Gguf::Cursor::read_bytes(void* to, std::size_t bytes, const char* what) {
  if (bytes > left())
    refuse(concat(what, ": wanted ", bytes, " bytes, got ", left(), " to the file's end"));
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    if (at_ < buffer_at_ || at_ - buffer_at_ >= buffer_.size()) {
      buffer_.resize(std::min<std::uint64_t>(kPiece, left()));
      buffer_at_ = at_;
      file_.read(at_, buffer_);
    }
    const std::size_t from = at_ - buffer_at_, now = std::min(bytes, buffer_.size() - from);
    std::memcpy(out, buffer_.data() + from, now);
    out += now;
    at_ += now;
    bytes -= now;
  }
}

void Gguf::Cursor::skip(std::uint64_t bytes, const char* what) {
  if (bytes > left())
    refuse(concat(what, ": wanted ", bytes, " bytes, got ", left(), " to the file's end"));
  at_ += bytes;
}

std::string Gguf::Cursor::read_string(const char* what, std::uint64_t most) {
  const auto length = read<std::uint64_t>(what);
  if (length > most || length > left())
    refuse(concat(what, ": wanted a string of at most ", std::min(most, left()),
                  " bytes, got the length ", length));
  std::string text(length, '\0');
  read_bytes(text.data(), length, what);
  return text;
}

void Gguf::Cursor::skip_string(const char* what) { skip(read<std::uint64_t>(what), what); }

std::uint64_t Gguf::Cursor::read_count(const char* what, std::uint64_t bytes_each) {
  const auto count = read<std::uint64_t>(what);
  if (count > left() / bytes_each)
    refuse(concat(what, ": wanted at most ", left() / bytes_each,
                  ", which fit the rest of the file, got ", count));
  return count;
}

GgufType Gguf::Cursor::read_type(const char* what) {
  const auto number = read<std::uint32_t>(what);
  if (number >= static_cast<std::uint32_t>(GgufType::kCount))
    refuse(concat(what, ": wanted a type from 0 to ", static_cast<int>(GgufType::kCount) - 1,
                  ", got ", number));
  return static_cast<GgufType>(number);
}

GgufArray Gguf::Cursor::read_array(const std::string& key, int depth) {
  if (depth > kMostDepth)
    refuse(concat("metadata \"", key, "\": arrays are nested more than ", kMostDepth, " deep"));
  const GgufType type = read_type("type of an array's elements");
  const std::uint64_t count = read_count("number of an array's elements", least_bytes(type));
  const GgufArray array{static_cast<std::uint32_t>(type), count, at_};
  if (type == GgufType::kString)
    for (std::uint64_t i = 0; i < count; ++i) skip_string("string in an array");
  else if (type == GgufType::kArray)
    for (std::uint64_t i = 0; i < count; ++i) read_array(key, depth + 1);
  else
    skip(count * least_bytes(type), "array");
  return array;
}

GgufValue Gguf::Cursor::read_value(GgufType type, const std::string& key) {
  constexpr const char* kWhat = "value of metadata";
  switch (type) {
    case GgufType::kU8:
      return std::uint64_t{read<std::uint8_t>(kWhat)};
    case GgufType::kI8:
      return std::int64_t{read<std::int8_t>(kWhat)};
    case GgufType::kU16:
      return std::uint64_t{read<std::uint16_t>(kWhat)};
    case GgufType::kI16:
      return std::int64_t{read<std::int16_t>(kWhat)};
    case GgufType::kU32:
      return std::uint64_t{read<std::uint32_t>(kWhat)};
    case GgufType::kI32:
      return std::int64_t{read<std::int32_t>(kWhat)};
    case GgufType::kF32:
      return double{read<float>(kWhat)};
    case GgufType::kBool:
      return read<std::uint8_t>(kWhat) != 0;
    case GgufType::kU64:
      return read<std::uint64_t>(kWhat);
    case GgufType::kI64:
      return read<std::int64_t>(kWhat);
    case GgufType::kF64:
      return read<double>(kWhat);
    case GgufType::kArray:
      return read_array(key, 1);
    case GgufType::kString:
    case GgufType::kCount:
      break;
  }
  return read_string(kWhat, kMostText);
}

}  // namespace barge
