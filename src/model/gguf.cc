#include "model/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"
#include "model/gguf_cursor.h"

namespace barge {
namespace {

constexpr std::uint64_t kMostName = 64 << 10;              // bytes of a key or of a tensor's name
constexpr std::uint64_t kMostDims = 4;                     // ggml's limit
constexpr std::uint64_t kLeastPair = 8 + 4 + 1;            // key's length, type, one byte of value
constexpr std::uint64_t kLeastTensor = 8 + 4 + 8 + 4 + 8;  // name, dims, one size, type, offset

}  // namespace

Gguf::Gguf(std::filesystem::path path) : file_(std::move(path)) {
  static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in the file");
  Cursor cursor(file_, 0);
  constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
  if (const auto magic = cursor.read<std::uint32_t>("magic"); magic != kMagic)
    cursor.refuse(concat("wanted the magic bytes GGUF, got the number ", magic));
  const auto version = cursor.read<std::uint32_t>("version");
  if (version != 2 && version != 3)
    cursor.refuse(concat("wanted version 2 or 3, got ", version,
                         version > 0xffff ? " (a big-endian file?)" : ""));
  const std::uint64_t tensors = cursor.read_count("number of tensors", kLeastTensor);
  const std::uint64_t pairs = cursor.read_count("number of metadata pairs", kLeastPair);
  read_values(cursor, pairs);
  read_tensors(cursor, tensors);
}

void Gguf::read_values(Cursor& cursor, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key = cursor.read_string("key of metadata", kMostName);
    const GgufType type = cursor.read_type("type of metadata");
    if (!values_.emplace(key, cursor.read_value(type, key)).second)
      cursor.refuse(concat("metadata \"", key, "\" is there twice"));
  }
}

void Gguf::read_tensors(Cursor& cursor, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = cursor.read_string("name of a tensor", kMostName);
    GgufTensor tensor;
    const auto dims = cursor.read<std::uint32_t>("number of dimensions");
    if (dims < 1 || dims > kMostDims)
      cursor.refuse(
          concat("tensor \"", name, "\": wanted 1 to ", kMostDims, " dimensions, got ", dims));
    for (std::uint32_t d = 0; d < dims; ++d)
      tensor.dims.push_back(cursor.read<std::uint64_t>("size of a dimension"));
    tensor.type = cursor.read<std::uint32_t>("type of a tensor");
    tensor.offset = cursor.read<std::uint64_t>("offset of a tensor");
    if (!tensors_.emplace(name, tensor).second)
      cursor.refuse(concat("tensor \"", name, "\" is there twice"));
  }
  header_bytes_ = cursor.at();
  const int alignment = integer("general.alignment", 32);
  if (alignment < 1 || alignment > 1 << 20 || !std::has_single_bit(unsigned(alignment)))
    refuse("general.alignment", "a power of two up to 1 MiB");
  const std::uint64_t data = round_up(header_bytes_, static_cast<std::size_t>(alignment));
  for (auto& [name, tensor] : tensors_) {
    // Offsets count from the end of the header; a vocabulary-only file has no data there.
    if (data > file_.size() || tensor.offset > file_.size() - data)
      cursor.refuse(concat("tensor \"", name, "\": wanted an offset within the file's ",
                           file_.size(), " bytes, got ", tensor.offset, " after ", data));
    if (tensor.offset % static_cast<std::uint64_t>(alignment) != 0)
      cursor.refuse(concat("tensor \"", name, "\": wanted an offset that is a multiple of ",
                           alignment, ", got ", tensor.offset));
    tensor.offset += data;
  }
}

const GgufTensor* Gguf::find_tensor(const std::string& name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

void Gguf::refuse(const std::string& key, const std::string& wanted) const {
  const auto at = values_.find(key);
  std::string got = "nothing";
  if (at != values_.end())
    got = std::visit(
        [](const auto& value) -> std::string {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, GgufArray>)
            return concat("an array of ", value.count, " values of type ", value.type);
          else if constexpr (std::is_same_v<T, std::string>)
            return concat('"', value.substr(0, 60), '"');
          else
            return concat(value);
        },
        at->second);
  throw FormatError(
      concat(file_.path().string(), ": metadata \"", key, "\": wanted ", wanted, ", got ", got));
}

std::string Gguf::text(const std::string& key, std::optional<std::string> absent) const {
  const auto at = values_.find(key);
  if (at == values_.end() && absent) return *absent;
  const auto* value = at == values_.end() ? nullptr : std::get_if<std::string>(&at->second);
  if (value == nullptr) refuse(key, "a string");
  return *value;
}

int Gguf::integer(const std::string& key, std::optional<int> absent) const {
  const auto at = values_.find(key);
  if (at == values_.end() && absent) return *absent;
  constexpr int kMost = std::numeric_limits<int>::max();
  if (at != values_.end()) {
    const auto* positive = std::get_if<std::uint64_t>(&at->second);
    if (positive != nullptr && *positive <= std::uint64_t{kMost})
      return static_cast<int>(*positive);
    const auto* any = std::get_if<std::int64_t>(&at->second);
    if (any != nullptr && *any >= -kMost && *any <= kMost) return static_cast<int>(*any);
  }
  refuse(key, "an integer below 2^31");
}

float Gguf::number(const std::string& key, std::optional<float> absent) const {
  const auto at = values_.find(key);
  if (at == values_.end() && absent) return *absent;
  const auto* value = at == values_.end() ? nullptr : std::get_if<double>(&at->second);
  if (value == nullptr || !(std::abs(*value) <= std::numeric_limits<float>::max()))
    refuse(key, "a finite floating-point number");
  return static_cast<float>(*value);
}

bool Gguf::flag(const std::string& key, bool absent) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return absent;
  const auto* value = std::get_if<bool>(&at->second);
  if (value == nullptr) refuse(key, "a boolean");
  return *value;
}

const GgufArray& Gguf::array(const std::string& key) const {
  const auto at = values_.find(key);
  const auto* value = at == values_.end() ? nullptr : std::get_if<GgufArray>(&at->second);
  if (value == nullptr) refuse(key, "an array");
  return *value;
}

std::vector<std::string> Gguf::texts(const std::string& key) const {
  const GgufArray& from = array(key);
  if (static_cast<GgufType>(from.type) != GgufType::kString) refuse(key, "an array of strings");
  Cursor cursor(file_, from.offset);
  std::vector<std::string> result;
  result.reserve(from.count);
  for (std::uint64_t i = 0; i < from.count; ++i)
    result.push_back(cursor.read_string("string in an array", kMostName));
  return result;
}

std::vector<std::int64_t> Gguf::integers(const std::string& key) const {
  const GgufArray& from = array(key);
  Cursor cursor(file_, from.offset);
  std::vector<std::int64_t> result;
  result.reserve(from.count);
  for (std::uint64_t i = 0; i < from.count; ++i) {
    const GgufValue value = cursor.read_value(static_cast<GgufType>(from.type), key);
    if (const auto* any = std::get_if<std::int64_t>(&value))
      result.push_back(*any);
    else if (const auto* positive = std::get_if<std::uint64_t>(&value);
             positive != nullptr && std::in_range<std::int64_t>(*positive))
      result.push_back(static_cast<std::int64_t>(*positive));
    else
      refuse(key, "an array of integers");
  }
  return result;
}

}  // namespace barge
