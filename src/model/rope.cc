// How fast the rotary embedding turns, with the published ways to stretch it to longer contexts.
#include <cmath>
#include <numbers>

#include "model/llama.h"

namespace barge {
namespace {

// Llama 3: frequencies whose wave fits the original context well are kept, those that it can't
// hold are divided by `factor`, and in between the two are blended.
double scale_llama3(double frequency, const ModelConfig::RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double context = scaling.original_context;
  const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  if (wavelength < context / high) return frequency;
  if (wavelength > context / low) return frequency / scaling.factor;
  const double kept = (context / wavelength - low) / (high - low);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const ModelConfig& config) {
  const auto& scaling = config.rope_scaling;
  std::vector<float> result;
  for (int i = 0; i < config.head_dim / 2; ++i) {
    double frequency = std::pow(double{config.rope_theta}, -2.0 * i / config.head_dim);
    if (scaling.kind == ModelConfig::RopeScaling::Kind::kLinear) frequency /= scaling.factor;
    if (scaling.kind == ModelConfig::RopeScaling::Kind::kLlama3)
      frequency = scale_llama3(frequency, scaling);
    if (!config.rope_factors.empty()) frequency /= config.rope_factors[static_cast<std::size_t>(i)];
    result.push_back(static_cast<float>(frequency));
  }
  return result;
}

}  // namespace barge
