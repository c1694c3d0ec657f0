#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "model/checkpoint.h"
#include "quant/format.h"

namespace barge {

/// How a checkpoint becomes a pack.
struct ConvertOptions {
  /// 4, 8, 16 or 32; 0: as the checkpoint has them, 16-bit ones quantised to 4.
  int weight_bits = 0;
  /// Numbers that share a scale where weights are quantised here; 0: 64, and matrices that have the
  /// wanted bits already are kept bit for bit, whatever their group is.
  int group = 0;
  GroupAxis axis = GroupAxis::kInput;  // tables always have kInput
  int threads = 0;                     // that encode; 0: all that this process may run on
};

/// Bytes of data done and in all. Called from the converting thread, about once a panel.
using PackProgress = std::function<void(std::size_t done, std::size_t total)>;

/// "4", "8", "16", "32" or "" (0). Throws ConfigError, naming --weight-bits.
int parse_weight_bits(const std::string& text);

/// Throws ConfigError for bits or a group that there aren't.
void validate(const ConvertOptions& options);

/// The format that a pack made with `options` keeps `tensor` in. Norms and biases are f32.
WeightFormat packed_format(const Checkpoint& checkpoint, const TensorSpec& tensor,
                           const ConvertOptions& options);

/// Bytes of data that the pack will have, padding aside.
std::size_t packed_bytes(const Checkpoint& checkpoint, const ConvertOptions& options);

/// What names a pack's content: the source's fingerprint, the options, the version of the format.
std::string pack_fingerprint(const Checkpoint& checkpoint, const ConvertOptions& options);

/// Writes the pack `directory`, which must not exist and appears whole or not at all. Reads,
/// encodes and writes a few MiB at a time: its memory is about 8 MiB, 3 MiB a thread and three
/// times the tokenizer's text. Blocks. Throws IoError (a full disk: bytes wanted and free),
/// FormatError.
void convert(const Checkpoint& checkpoint, const ConvertOptions& options,
             const std::filesystem::path& directory, const PackProgress& progress = {});

}  // namespace barge
