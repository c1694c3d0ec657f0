#include "cli/bits.h"

#include <algorithm>
#include <cstdio>

#include "model/checkpoint.h"
#include "offload/pack.h"
#include "quant/bits.h"

namespace barge {
namespace {

// Of the largest matrix, as the checkpoint has it. A dummy stands for a model that was published in
// 16 bits.
int stored_bits(const std::string& model) {
  if (model.starts_with("dummy:")) return 16;
  const auto checkpoint = open_checkpoint(model);
  const auto family = make_family(checkpoint->config());
  std::int64_t most = 0;
  int bits = 16;
  for (const Part& part : family->parts())
    for (const TensorSpec& tensor : part.tensors)
      if (tensor.kind == TensorSpec::Kind::kMatrix && tensor.rows * tensor.cols > most) {
        most = tensor.rows * tensor.cols;
        bits = bits_of(checkpoint->stored_format(tensor).encoding);
      }
  return bits;
}

// Flags' values to try. The first is what stays where there is nothing to choose.
std::vector<std::string> weight_bits_to_try(const Options& o) {
  if (o.weight_bits != "auto") return {o.weight_bits};
  if (is_pack(o.model)) return {""};
  const int stored = stored_bits(o.model);
  std::vector<std::string> bits;
  for (const int width : {4, 8, 16})
    if (width <= stored) bits.push_back(std::to_string(width));
  return bits;
}

std::vector<std::string> kv_bits_to_try(const Options& o) {
  if (o.kv_bits != "auto") return {o.kv_bits};
  return {"4", "16"};
}

double planned_rate(const Options& o, const PlannedModel& model, const PlanTarget& target,
                    const Workload& job) {
  try {
    return make_plan(o, model, target, job).predicted.generated_tokens_per_s;
  } catch (const InfeasibleError&) {
    return 0;
  }
}

}  // namespace

ChosenBits choose_bits(const Options& o, const PlanTarget& target, const Workload& job) {
  ChosenBits bits{.options = o};
  if (o.weight_bits != "auto" && o.kv_bits != "auto") return bits;
  if (o.policy != "auto") {
    for (std::string* flag : {&bits.options.weight_bits, &bits.options.kv_bits})
      if (*flag == "auto") flag->clear();
    return bits;
  }
  std::vector<Options> trials;
  for (const std::string& weights : weight_bits_to_try(o)) {
    Options trial = o;
    trial.weight_bits = weights;
    for (const std::string& kv : kv_bits_to_try(o)) {
      trial.kv_bits = kv;
      const PlannedModel model = planned_model(trial);
      bits.tried.push_back(
          {model.weight_bits, model.kv_bits, planned_rate(trial, model, target, job)});
      trials.push_back(trial);
    }
  }
  bits.chosen = widest_of_the_fast(bits.tried);
  bits.options = trials[bits.chosen];
  return bits;
}

std::string describe_bits(const ChosenBits& bits) {
  if (bits.tried.empty()) return {};
  std::string text = "bits of weights and KV cache, generated tokens/s:";
  for (std::size_t i = 0; i < bits.tried.size(); ++i) {
    const BitsOption& option = bits.tried[i];
    char part[96];
    std::snprintf(part, sizeof part, "%s %d and %d %.2f%s", i == 0 ? "" : ",", option.weight_bits,
                  option.kv_bits, option.generated_tokens_per_s,
                  i == bits.chosen ? " (chosen)" : "");
    text += part;
  }
  return text;
}

nlohmann::json bits_to_json(const ChosenBits& bits) {
  nlohmann::json json = nlohmann::json::array();
  for (std::size_t i = 0; i < bits.tried.size(); ++i) {
    const BitsOption& option = bits.tried[i];
    json.push_back({{"weight_bits", option.weight_bits},
                    {"kv_bits", option.kv_bits},
                    {"generated_tokens_per_s", option.generated_tokens_per_s},
                    {"chosen", i == bits.chosen}});
  }
  return json;
}

}  // namespace barge
