#pragma once

#include "model/family.h"

namespace barge {

/// OPT (all published sizes but 350m, which normalises after each half of a layer and projects its
/// embedding): layer norms, learned positions, biases everywhere, a plain MLP, tied output.
/// Tensors: "embed", "positions", "layers.N.{attn_norm,q,k,v,o,mlp_norm,fc1,fc2}", each with its
/// "..._bias", "output_norm", "output_norm_bias", and "output" unless it is tied.
class Opt final : public Family {
 public:
  /// Throws FormatError for a config that isn't OPT's.
  explicit Opt(ModelConfig config);

  std::vector<Part> parts() const override;
  void forward(const Part& part, Forward& forward) const override;

  /// The table of positions begins with two rows that no token uses.
  static constexpr int kPositionOffset = 2;

 private:
  void embed(Forward& forward) const;
  void attention(const Part& part, Forward& forward) const;
  void mlp(Forward& forward) const;
  void output(Forward& forward) const;
};

}  // namespace barge
