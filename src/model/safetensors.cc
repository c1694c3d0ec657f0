#include "model/safetensors.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/errors.h"
#include "model/json_fields.h"

namespace barge {
namespace {

constexpr std::uint64_t kLengthBytes = 8;           // of the header, at the front
constexpr std::uint64_t kMostHeader = 100'000'000;  // the reference implementation's limit
constexpr int kMostDepth = 4;                       // {tensor: {field: [number]}}
constexpr std::size_t kMostDims = 8;

std::optional<std::uint64_t> bytes_of(const std::string& dtype) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 14> kBytes{{{"BOOL", 1},
                                                                               {"U8", 1},
                                                                               {"I8", 1},
                                                                               {"F8_E5M2", 1},
                                                                               {"F8_E4M3", 1},
                                                                               {"I16", 2},
                                                                               {"U16", 2},
                                                                               {"F16", 2},
                                                                               {"BF16", 2},
                                                                               {"I32", 4},
                                                                               {"U32", 4},
                                                                               {"F32", 4},
                                                                               {"F64", 8},
                                                                               {"I64", 8}}};
  for (const auto& [name, bytes] : kBytes)
    if (name == dtype) return bytes;
  return std::nullopt;  // a newer type: an error only for who wants the tensor
}

// Unsigned numbers of an array field; anything else is refused.
std::vector<std::uint64_t> numbers(const JsonFields& fields, const char* key, std::size_t most) {
  const nlohmann::json* array = fields.find(key);
  const std::string wanted = concat("an array of at most ", most, " whole numbers");
  if (array == nullptr || !array->is_array() || array->size() > most) fields.refuse(key, wanted);
  std::vector<std::uint64_t> result;
  for (const auto& value : *array) {
    if (!value.is_number_unsigned()) fields.refuse(key, wanted);
    result.push_back(value.get<std::uint64_t>());
  }
  return result;
}

SafeTensor parse_tensor(const nlohmann::json& json, const std::string& where,
                        std::uint64_t data_bytes) {
  if (!json.is_object()) throw FormatError(where + ": wanted a JSON object");
  const JsonFields fields(json, where);
  SafeTensor tensor{.dtype = fields.text("dtype"), .shape = numbers(fields, "shape", kMostDims)};
  const auto range = numbers(fields, "data_offsets", 2);
  if (range.size() != 2 || range[0] > range[1] || range[1] > data_bytes)
    fields.refuse("data_offsets",
                  concat("a beginning and an end within ", data_bytes, " bytes of data"));
  tensor.offset = range[0];
  tensor.bytes = range[1] - range[0];
  const auto each = bytes_of(tensor.dtype);
  if (!each) return tensor;
  std::uint64_t left = tensor.bytes;  // divided by each dimension, so that nothing overflows
  bool fits = left % *each == 0;
  left /= *each;
  bool empty = false;
  for (const std::uint64_t size : tensor.shape) {
    empty |= size == 0;
    fits &= size == 0 || left % size == 0;
    if (size != 0) left /= size;
  }
  if (empty ? tensor.bytes != 0 : !fits || left != 1)
    fields.refuse("shape", concat("sizes whose product, of ", tensor.dtype, ", takes ",
                                  tensor.bytes, " bytes"));
  return tensor;
}

}  // namespace

SafeTensors::SafeTensors(std::filesystem::path path) : file_(std::move(path)) {
  const std::string name = file_.path().string();
  if (file_.size() < kLengthBytes)
    throw FormatError(concat(name, " is not a safetensors file: wanted a header of at least ",
                             kLengthBytes, " bytes, got ", file_.size()));
  std::uint64_t length = 0;
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMostHeader || length > file_.size() - kLengthBytes)
    throw FormatError(concat(name, " is not a whole safetensors file: wanted a header of at most ",
                             std::min(kMostHeader, file_.size() - kLengthBytes),
                             " bytes, got the length ", length));
  header_bytes_ = kLengthBytes + length;
  std::string text(length, '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const nlohmann::json json = parse_json_object(text, name, kMostDepth);
  for (const auto& [tensor_name, fields] : json.items()) {
    if (tensor_name == "__metadata__") continue;
    SafeTensor tensor = parse_tensor(fields, concat(name, ": tensor \"", tensor_name, "\""),
                                     file_.size() - header_bytes_);
    tensor.offset += header_bytes_;
    tensors_.emplace(tensor_name, std::move(tensor));
  }
}

}  // namespace barge
