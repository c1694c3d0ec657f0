#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/config.h"
#include "quant/format.h"

namespace barge {

class Forward;

/// One tensor of a model, as the pack stores it.
struct TensorSpec {
  using Kind = TensorKind;
  std::string name;  // canonical: "layers.3.q", "embed", "output_norm"
  std::int64_t rows = 0, cols = 0;
  Kind kind = Kind::kMatrix;
};

/// The tensors that are visited together, and in which role.
struct Part {
  /// Attention is queries, keys, values, and ends as it attends; the projection of what comes of
  /// that belongs to the MLP, so that someone else may attend between the two.
  enum class Kind : std::uint8_t { kEmbed, kAttention, kMlp, kOutput };
  Kind kind = Kind::kEmbed;
  int layer = -1;
  /// Matrices stand in the order in which `forward` multiplies by them: the order of the pack and
  /// of the weight ring. A tied output layer names the table "embed" again.
  std::vector<TensorSpec> tensors;
};

/// The layers of one family of models, written over views: it never knows where bytes live.
/// Immutable; thread-safe.
class Family {
 public:
  explicit Family(ModelConfig config) : config_(std::move(config)) {}
  virtual ~Family() = default;

  const ModelConfig& config() const { return config_; }

  /// Embed, then attention and MLP of each layer, then output: the order of a sweep.
  virtual std::vector<Part> parts() const = 0;
  /// Gives the work of `part` (one of parts()) to `forward`.
  virtual void forward(const Part& part, Forward& forward) const = 0;

 private:
  const ModelConfig config_;
};

/// Throws FormatError with the families that there are.
std::unique_ptr<Family> make_family(const ModelConfig& config);

}  // namespace barge
