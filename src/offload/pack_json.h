#pragma once

#include <string>

#include "offload/pack.h"

namespace barge {

/// The words of pack.json that its writer and its reader share. The root object:
///   version      kPackVersion
///   model        what the packer says of the model, a string (JSON in it, opaque here: kept as a
///                string so that a tokenizer of many thousand words is not built up as a tree)
///   fingerprint  of the source
///   file_bytes   [files] sizes of data-0.bin, data-1.bin, ...
///   tensors      in sweep order: name, kind, rows, cols, format ("q4:64:input"), panel_rows, file,
///                offset (of the first panel; the others follow), checksums [panels] (XXH3-64 of
///                the padded bytes, 16 hexadecimal digits)
inline constexpr const char* kPackJson = "pack.json";

/// "data-0.bin".
std::string data_file_name(int file);

/// "matrix", "table", "vector"; the inverse throws FormatError, naming `source`.
std::string to_string(PackTensor::Kind kind);
PackTensor::Kind parse_tensor_kind(const std::string& word, const std::string& source);

}  // namespace barge
