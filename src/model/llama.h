#pragma once

#include "model/family.h"

namespace barge {

/// Llama 2 and 3, Mistral, SmolLM2 and Qwen2: RMS norms before each half of a layer, rotary
/// positions, grouped queries, a gated MLP; biases where the config says so. Tensors: "embed",
/// "layers.N.{attn_norm,q,k,v,o,mlp_norm,gate,up,down}" with "q_bias" and so on, "output_norm",
/// and "output" unless it is tied.
class Llama final : public Family {
 public:
  explicit Llama(ModelConfig config);

  std::vector<Part> parts() const override;
  void forward(const Part& part, Forward& forward) const override;

 private:
  void attention(const Part& part, Forward& forward) const;
  void mlp(Forward& forward) const;
  void output(Forward& forward) const;

  const std::vector<float> inverse_frequencies_;  // [head_dim / 2]
};

/// Radians that each pair of a head's dimensions turns per position: [head_dim / 2].
std::vector<float> rope_inverse_frequencies(const ModelConfig& config);

}  // namespace barge
