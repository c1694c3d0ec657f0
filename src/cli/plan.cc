#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/session.h"
#include "cli/text_files.h"
#include "cli/workload.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "model/checkpoint.h"
#include "pack/cache.h"

namespace barge {
namespace {

// What a model would be as a pack, without making one.
PlannedModel model_of(const Options& o) {
  if (is_pack(o.model)) {
    const auto pack = std::make_shared<Pack>(o.model);
    const ModelDescription description = description_from_json(pack->model(), o.model);
    PlannedModel model = planned_model(o, description.config, [pack](const TensorSpec& tensor) {
      return pack->tensors()[static_cast<std::size_t>(pack->find(tensor.name))].format;
    });
    model.tokenizer_bytes = Tokenizer(description.tokenizer).bytes();
    return model;
  }
  const std::shared_ptr<Checkpoint> checkpoint = open_checkpoint(o.model);
  const ConvertOptions convert = convert_options(o);
  validate(convert);
  PlannedModel model =
      planned_model(o, checkpoint->config(), [checkpoint, convert](const TensorSpec& tensor) {
        return packed_format(*checkpoint, tensor, convert);
      });
  model.tokenizer_bytes = Tokenizer(checkpoint->tokenizer()).bytes();
  return model;
}

void plan(const Options& o) {
  Workload job = workload_of(draw_lengths(o, o.num_prompts > 0 ? o.num_prompts : 1000));
  if (!o.input.empty()) job = estimate_workload(o.input);
  Machine machine(o);
  TierLimits limits = machine.limits();
  Profile profile;
  if (o.machine.empty()) {
    profile = machine.profile();
  } else {
    profile = profile_from_json(read_text(o.machine), o.machine.string());
    const auto limit = [](const std::string& flag, double has, const char* name) {
      return flag.empty() ? static_cast<std::size_t>(has)
                          : parse_bytes(flag, name, static_cast<std::size_t>(has));
    };
    limits = {limit(o.gpu_memory, profile.device_bytes, "--gpu-memory"),
              limit(o.cpu_memory, profile.host_bytes, "--cpu-memory"),
              limit(o.disk_space, profile.disk_bytes, "--disk-space")};
  }
  const PlannedModel model = model_of(o);
  const Plan plan = [&] {
    try {
      return make_plan(o, model, profile, limits, machine, job);
    } catch (const InfeasibleError& e) {
      if (o.json) std::cout << infeasible_to_json(e.infeasible, profile.unified) << '\n';
      throw;
    }
  }();
  if (o.json)
    std::cout << plan_to_json(plan, profile.unified) << '\n';
  else
    std::cout << describe_plan(plan, limits, profile.unified) << '\n';
  // A policy that was given whole is priced whether it fits or not.
  if (const auto over = misfit(plan, limits, profile.unified)) throw InfeasibleError(*over);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto* command = app.add_subcommand("plan", "Choose homes, block and bits for a job");
  const auto o = std::make_shared<Options>();
  add_model_flags(*command, *o);
  add_machine_flags(*command, *o);
  add_policy_flags(*command, *o);
  add_workload_flags(*command, *o);
  command->add_option("-i,--input", o->input, "take the workload from this JSONL file")
      ->check(CLI::ExistingFile);
  command->add_option("--machine", o->machine, "plan for the machine of this profile")
      ->check(CLI::ExistingFile);
  command->add_flag("--json", o->json, "one object");
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    plan(*o);
  });
}

}  // namespace barge
