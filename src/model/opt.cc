#include "model/opt.h"

#include <utility>
#include <vector>

#include "core/errors.h"
#include "model/forward.h"
#include "model/part_builder.h"

namespace barge {
namespace {

// Indices into Part::tensors.
namespace at {
constexpr int kEmbed = 0, kPositions = 1;
constexpr int kNorm = 0, kNormBias = 1;
constexpr int kQ = 2, kK = 3, kV = 4, kQBias = 5, kKBias = 6, kVBias = 7;  // attention
constexpr int kO = 0, kMlpNorm = 1, kMlpNormBias = 2, kFc1 = 3, kFc2 = 4;  // MLP
constexpr int kOBias = 5, kFc1Bias = 6, kFc2Bias = 7;
constexpr int kOutput = 2;
}  // namespace at

}  // namespace

Opt::Opt(ModelConfig config) : Family(std::move(config)) {
  const ModelConfig& c = this->config();
  const auto refuse = [&](const char* what) {
    throw FormatError(concat("model \"", c.name, "\" can't be run as OPT: ", what));
  };
  if (std::int64_t{c.heads} * c.head_dim != c.hidden) refuse("heads x head_dim must be hidden");
  if (c.kv_heads != c.heads) refuse("it has no grouped queries, so kv_heads must be heads");
  if (!c.qkv_bias || !c.output_bias) refuse("its projections have biases");
  if (c.activation != ModelConfig::Activation::kRelu) refuse("its activation must be relu");
}

std::vector<Part> Opt::parts() const {
  const ModelConfig& c = config();
  const std::int64_t hidden = c.hidden;
  std::vector<Part> parts;
  parts.push_back(PartBuilder(Part::Kind::kEmbed)
                      .table("embed", c.vocab, hidden)
                      .table("positions", std::int64_t{c.context} + kPositionOffset, hidden)
                      .take());
  for (int layer = 0; layer < c.layers; ++layer) {
    parts.push_back(PartBuilder(Part::Kind::kAttention, layer)
                        .vector("attn_norm", hidden)
                        .vector("attn_norm_bias", hidden)
                        .matrix("q", hidden, hidden)
                        .matrix("k", hidden, hidden)
                        .matrix("v", hidden, hidden)
                        .vector("q_bias", hidden)
                        .vector("k_bias", hidden)
                        .vector("v_bias", hidden)
                        .take());
    parts.push_back(PartBuilder(Part::Kind::kMlp, layer)
                        .matrix("o", hidden, hidden)
                        .vector("mlp_norm", hidden)
                        .vector("mlp_norm_bias", hidden)
                        .matrix("fc1", c.ffn, hidden)
                        .matrix("fc2", hidden, c.ffn)
                        .vector("o_bias", hidden)
                        .vector("fc1_bias", c.ffn)
                        .vector("fc2_bias", hidden)
                        .take());
  }
  PartBuilder output(Part::Kind::kOutput);
  output.vector("output_norm", hidden).vector("output_norm_bias", hidden);
  if (c.tied_output)
    output.table("embed", c.vocab, hidden);
  else
    output.matrix("output", c.vocab, hidden);
  parts.push_back(output.take());
  return parts;
}

void Opt::forward(const Part& part, Forward& forward) const {
  switch (part.kind) {
    case Part::Kind::kEmbed:
      return embed(forward);
    case Part::Kind::kAttention:
      return attention(part, forward);
    case Part::Kind::kMlp:
      return mlp(forward);
    case Part::Kind::kOutput:
      return output(forward);
  }
}

void Opt::embed(Forward& f) const {
  std::vector<std::int32_t> rows(f.positions().begin(), f.positions().end());
  for (std::int32_t& row : rows) row += kPositionOffset;
  f.lookup(at::kEmbed, f.tokens(), Epilogue::kStore);
  f.lookup(at::kPositions, rows, Epilogue::kAdd);
}

void Opt::attention(const Part& part, Forward& f) const {
  const ModelConfig& c = config();
  const MatrixView x = f.scratch(c.hidden, f.compute_type());
  f.kernels().layer_norm(f.hidden(), f.vector(at::kNorm), f.vector(at::kNormBias), c.norm_eps, x);
  const MatrixView q = f.projected(c.hidden), k = f.projected(c.hidden), v = f.projected(c.hidden);
  f.linear(x, at::kQ, at::kQBias, q, Epilogue::kStore);
  f.linear(x, at::kK, at::kKBias, k, Epilogue::kStore);
  f.linear(x, at::kV, at::kVBias, v, Epilogue::kStore);
  f.attend(part.layer, q, k, v);
}

void Opt::mlp(Forward& f) const {
  const ModelConfig& c = config();
  f.linear(f.attended(), at::kO, at::kOBias, f.hidden(), Epilogue::kAdd);
  const MatrixView x = f.scratch(c.hidden, f.compute_type());
  f.kernels().layer_norm(f.hidden(), f.vector(at::kMlpNorm), f.vector(at::kMlpNormBias), c.norm_eps,
                         x);
  const MatrixView inner = f.scratch(c.ffn, f.compute_type());
  f.linear(x, at::kFc1, at::kFc1Bias, inner, Epilogue::kStore);
  f.kernels().activate(Kernels::Activation::kRelu, inner, {}, inner);
  f.linear(inner, at::kFc2, at::kFc2Bias, f.hidden(), Epilogue::kAdd);
}

void Opt::output(Forward& f) const {
  const MatrixView x = f.wanted_scratch(config().hidden, f.compute_type());
  f.kernels().layer_norm(f.wanted_hidden(), f.vector(at::kNorm), f.vector(at::kNormBias),
                         config().norm_eps, x);
  f.linear(x, at::kOutput, -1, f.logits(), Epilogue::kStore);
}

}  // namespace barge
