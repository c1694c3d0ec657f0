#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "model/config.h"
#include "model/family.h"
#include "model/tokenizer_spec.h"
#include "quant/format.h"

namespace barge {

/// A model as somebody published it, read in pieces and never whole in memory. Immutable;
/// thread-safe.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  virtual const ModelConfig& config() const = 0;
  virtual TokenizerSpec tokenizer() const = 0;
  /// Names the content: changes when a file's name, size, time or header changes. Cheap.
  virtual std::string fingerprint() const = 0;

  /// How the checkpoint stores a tensor that the family asks for: the format that keeps it without
  /// loss (Q4_0 and Q4_1: kQ4 in groups of 32). Throws FormatError if it is missing or has another
  /// shape.
  virtual WeightFormat stored_format(const TensorSpec& tensor) const = 0;
  /// Rows [first, first + count) as f32, in the order that the family expects (GGUF's permuted
  /// rotary halves are put back). out [count, cols].
  virtual void read_rows(const TensorSpec& tensor, std::int64_t first, std::int64_t count,
                         std::span<float> out) const = 0;
  /// The same rows as a panel of stored_format(), bit for bit what the checkpoint holds.
  virtual void read_panel(const TensorSpec& tensor, std::int64_t first, const PanelLayout& layout,
                          std::span<std::byte> panel) const = 0;
};

/// MODEL: a Hugging Face directory, a .gguf file, or dummy:NAME[@LAYERS] (random weights).
/// Throws FormatError or IoError.
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model);

/// The tokenizer of MODEL alone: a directory without weights or a vocabulary-only GGUF will do.
/// Throws as open_checkpoint.
TokenizerSpec read_tokenizer(const std::string& model);

}  // namespace barge
