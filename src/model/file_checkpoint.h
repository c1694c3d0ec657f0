#pragma once

#include <memory>
#include <string>

#include "model/checkpoint.h"
#include "model/stored_tensor.h"

namespace barge {

/// What checkpoints that keep each tensor whole in a file have in common.
class FileCheckpoint : public Checkpoint {
 public:
  const ModelConfig& config() const override { return config_; }
  std::string fingerprint() const override { return fingerprint_; }
  WeightFormat stored_format(const TensorSpec& tensor) const override;
  void read_rows(const TensorSpec& tensor, std::int64_t first, std::int64_t count,
                 std::span<float> out) const override;
  void read_panel(const TensorSpec& tensor, std::int64_t first, const PanelLayout& layout,
                  std::span<std::byte> panel) const override;

 protected:
  /// Where a tensor of the family is. Throws FormatError if it is missing or of a type that barge
  /// doesn't read.
  virtual StoredTensor locate(const TensorSpec& tensor) const = 0;

  ModelConfig config_;
  std::string fingerprint_;

 private:
  StoredTensor checked(const TensorSpec& tensor) const;
};

/// "layers.12.q_bias" is layer 12's "q_bias"; "embed" is of no layer (-1).
struct CanonicalName {
  int layer = -1;
  std::string tensor;
};
CanonicalName split_canonical_name(const std::string& name);

}  // namespace barge
