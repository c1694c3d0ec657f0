#include "model/llama.h"

#include <algorithm>
#include <utility>

#include "core/errors.h"
#include "model/forward.h"
#include "model/part_builder.h"

namespace barge {
namespace {

// Indices into Part::tensors.
namespace at {
constexpr int kEmbed = 0;
constexpr int kNorm = 0, kQ = 1, kK = 2, kV = 3, kQkvBiases = 3;  // attention; biases if any
constexpr int kO = 0, kMlpNorm = 1, kGate = 2, kUp = 3, kDown = 4, kOBias = 5;  // MLP
constexpr int kOutput = 1;
}  // namespace at

Kernels::Activation kernel_activation(ModelConfig::Activation activation) {
  switch (activation) {
    case ModelConfig::Activation::kSilu:
      return Kernels::Activation::kSilu;
    case ModelConfig::Activation::kRelu:
      return Kernels::Activation::kRelu;
    case ModelConfig::Activation::kGeluTanh:
      return Kernels::Activation::kGeluTanh;
    case ModelConfig::Activation::kGeluErf:
      return Kernels::Activation::kGeluErf;
  }
  throw FormatError("the model's activation function is not known");
}

}  // namespace

Llama::Llama(ModelConfig config)
    : Family(std::move(config)), inverse_frequencies_(rope_inverse_frequencies(this->config())) {}

std::vector<Part> Llama::parts() const {
  const ModelConfig& c = config();
  const std::int64_t queries = std::int64_t{c.heads} * c.head_dim;
  const std::int64_t keys = std::int64_t{c.kv_heads} * c.head_dim;
  std::vector<Part> parts;
  parts.push_back(PartBuilder(Part::Kind::kEmbed).table("embed", c.vocab, c.hidden).take());
  for (int layer = 0; layer < c.layers; ++layer) {
    PartBuilder attention(Part::Kind::kAttention, layer);
    attention.vector("attn_norm", c.hidden)
        .matrix("q", queries, c.hidden)
        .matrix("k", keys, c.hidden)
        .matrix("v", keys, c.hidden);
    if (c.qkv_bias)
      attention.vector("q_bias", queries).vector("k_bias", keys).vector("v_bias", keys);
    parts.push_back(attention.take());
    PartBuilder mlp(Part::Kind::kMlp, layer);
    mlp.matrix("o", c.hidden, queries)
        .vector("mlp_norm", c.hidden)
        .matrix("gate", c.ffn, c.hidden)
        .matrix("up", c.ffn, c.hidden)
        .matrix("down", c.hidden, c.ffn);
    if (c.output_bias) mlp.vector("o_bias", c.hidden);
    parts.push_back(mlp.take());
  }
  PartBuilder output(Part::Kind::kOutput);
  output.vector("output_norm", c.hidden);
  if (c.tied_output)
    output.table("embed", c.vocab, c.hidden);
  else
    output.matrix("output", c.vocab, c.hidden);
  parts.push_back(output.take());
  return parts;
}

void Llama::forward(const Part& part, Forward& forward) const {
  switch (part.kind) {
    case Part::Kind::kEmbed:
      return forward.lookup(at::kEmbed, forward.tokens(), Epilogue::kStore);
    case Part::Kind::kAttention:
      return attention(part, forward);
    case Part::Kind::kMlp:
      return mlp(forward);
    case Part::Kind::kOutput:
      return output(forward);
  }
}

void Llama::attention(const Part& part, Forward& f) const {
  const ModelConfig& c = config();
  const std::int64_t queries = std::int64_t{c.heads} * c.head_dim;
  const std::int64_t keys = std::int64_t{c.kv_heads} * c.head_dim;
  const auto bias_of = [&c](int matrix) { return c.qkv_bias ? matrix + at::kQkvBiases : -1; };

  const MatrixView x = f.scratch(c.hidden, f.compute_type());
  f.kernels().rms_norm(f.hidden(), f.vector(at::kNorm), c.norm_eps, x);
  const MatrixView q = f.projected(queries), k = f.projected(keys), v = f.projected(keys);
  f.linear(x, at::kQ, bias_of(at::kQ), q, Epilogue::kStore);
  f.linear(x, at::kK, bias_of(at::kK), k, Epilogue::kStore);
  f.linear(x, at::kV, bias_of(at::kV), v, Epilogue::kStore);
  f.kernels().rope(q, c.head_dim, f.positions(), inverse_frequencies_);
  f.kernels().rope(k, c.head_dim, f.positions(), inverse_frequencies_);
  f.attend(part.layer, q, k, v);
}

void Llama::mlp(Forward& f) const {
  const ModelConfig& c = config();
  f.linear(f.attended(), at::kO, c.output_bias ? at::kOBias : -1, f.hidden(), Epilogue::kAdd);
  const MatrixView x = f.scratch(c.hidden, f.compute_type());
  f.kernels().rms_norm(f.hidden(), f.vector(at::kMlpNorm), c.norm_eps, x);
  const MatrixView gate = f.scratch(c.ffn, f.compute_type());
  const MatrixView up = f.scratch(c.ffn, f.compute_type());
  f.linear(x, at::kGate, -1, gate, Epilogue::kStore);
  f.linear(x, at::kUp, -1, up, Epilogue::kStore);
  // In place: the MLP's width is the largest scratch there is.
  f.kernels().activate(kernel_activation(c.activation), gate, up, gate);
  f.linear(gate, at::kDown, -1, f.hidden(), Epilogue::kAdd);
}

void Llama::output(Forward& f) const {
  const MatrixView x = f.wanted_scratch(config().hidden, f.compute_type());
  f.kernels().rms_norm(f.wanted_hidden(), f.vector(at::kNorm), config().norm_eps, x);
  f.linear(x, at::kOutput, -1, f.logits(), Epilogue::kStore);
}

}  // namespace barge
