#include "offload/pack_json.h"

#include "core/errors.h"

namespace barge {

std::string data_file_name(int file) { return concat("data-", file, ".bin"); }

std::string to_string(PackTensor::Kind kind) {
  return kind == PackTensor::Kind::kMatrix  ? "matrix"
         : kind == PackTensor::Kind::kTable ? "table"
                                            : "vector";
}

PackTensor::Kind parse_tensor_kind(const std::string& word, const std::string& source) {
  for (const auto kind :
       {PackTensor::Kind::kMatrix, PackTensor::Kind::kTable, PackTensor::Kind::kVector})
    if (to_string(kind) == word) return kind;
  throw FormatError(
      concat(source, ": kind '", word, "' is not known; wanted matrix, table or vector"));
}

}  // namespace barge
