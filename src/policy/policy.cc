#include "policy/policy.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/errors.h"

namespace barge {
namespace {

using Json = nlohmann::json;

// Shares of device and host in percent; the rest is on disk.
PerTier<double> shares(double device, double host, const char* of) {
  if (!(device >= 0) || !(host >= 0) || device + host > 100 + 1e-9)
    throw ConfigError(concat("--percent wants two shares of ", of,
                             " that are at least 0 and at most 100 together, got ", device, " and ",
                             host));
  return {device / 100, host / 100, std::max(0.0, 1 - (device + host) / 100)};
}

}  // namespace

void set_percent(Policy& policy, const std::vector<double>& percent) {
  if (percent.size() != 6)
    throw ConfigError(
        concat("--percent wants six numbers (WG WC CG CC HG HC), got ", percent.size()));
  policy.weights = shares(percent[0], percent[1], "weights");
  policy.kv = shares(percent[2], percent[3], "KV cache");
  policy.activations = shares(percent[4], percent[5], "activations");
}

std::vector<double> percent_of(const Policy& policy) {
  const auto rounded = [](double share) { return std::round(share * 1e4) / 1e2; };
  return {rounded(policy.weights.device),     rounded(policy.weights.host),
          rounded(policy.kv.device),          rounded(policy.kv.host),
          rounded(policy.activations.device), rounded(policy.activations.host)};
}

std::string policy_to_json(const Policy& policy) {
  return Json{{"gpu_batch_size", policy.gpu_batch_size},
              {"num_gpu_batches", policy.num_gpu_batches},
              {"percent", percent_of(policy)},
              {"weight_bits", policy.weight_bits},
              {"kv_bits", policy.kv_bits},
              {"cpu_attention", policy.cpu_attention},
              {"page_positions", policy.page_positions},
              {"sweep_tokens", policy.sweep_tokens},
              {"max_positions", policy.max_positions},
              {"kv_positions", policy.kv_positions},
              {"over_commit", policy.over_commit},
              {"prefix_sharing", policy.prefix_sharing},
              {"ring_bytes", policy.ring_bytes},
              {"staged_batches", policy.staged_batches}}
      .dump();
}

Policy policy_from_json(const std::string& text, const std::string& source) {
  try {
    const Json json = Json::parse(text);
    Policy policy;
    const auto read = [&](const char* key, auto& to) {
      if (json.contains(key)) json.at(key).get_to(to);
    };
    read("gpu_batch_size", policy.gpu_batch_size);
    read("num_gpu_batches", policy.num_gpu_batches);
    read("weight_bits", policy.weight_bits);
    read("kv_bits", policy.kv_bits);
    read("cpu_attention", policy.cpu_attention);
    read("page_positions", policy.page_positions);
    read("sweep_tokens", policy.sweep_tokens);
    read("max_positions", policy.max_positions);
    read("kv_positions", policy.kv_positions);
    read("over_commit", policy.over_commit);
    read("prefix_sharing", policy.prefix_sharing);
    read("ring_bytes", policy.ring_bytes);
    read("staged_batches", policy.staged_batches);
    if (json.contains("percent"))
      set_percent(policy, json.at("percent").get<std::vector<double>>());
    for (const auto& [key, value] : {std::pair{"gpu_batch_size", policy.gpu_batch_size},
                                     std::pair{"num_gpu_batches", policy.num_gpu_batches},
                                     std::pair{"page_positions", policy.page_positions},
                                     std::pair{"sweep_tokens", policy.sweep_tokens},
                                     std::pair{"max_positions", policy.max_positions}})
      if (value < 1) throw ConfigError(concat("\"", key, "\" wants at least 1, got ", value));
    return policy;
  } catch (const std::exception& e) {
    throw ConfigError(concat("cannot read a policy from ", source, ": ", e.what()));
  }
}

}  // namespace barge
