#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/bits.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/planning.h"
#include "cli/workload.h"
#include "core/errors.h"

namespace barge {
namespace {

void plan(const Options& given) {
  const Workload job =
      given.input.empty()
          ? workload_of(draw_lengths(given, given.num_prompts > 0 ? given.num_prompts : 1000))
          : estimate_workload(given.input);
  Machine machine(given);
  const PlanTarget target =
      given.machine.empty() ? this_machine(machine) : other_machine(given, given.machine, machine);
  const ChosenBits bits = choose_bits(given, target, job);
  const Options& o = bits.options;
  const bool unified = target.profile.unified;
  const PlannedModel model = planned_model(o);
  const ShapeFor shape = shape_for(o, model, target);
  if (o.pareto) {
    const std::vector<Plan> plans =
        frontier(target.profile, shape, job, target.limits, wishes_of(o, model));
    if (plans.empty()) throw ConfigError("not even one line fits; `barge plan` alone says why");
    std::cout << (o.json ? frontier_to_json(plans, unified).dump() : describe_frontier(plans))
              << '\n';
    return;
  }
  const Plan plan = [&] {
    try {
      return make_plan(o, model, target, job);
    } catch (const InfeasibleError& e) {
      if (o.json) std::cout << infeasible_to_json(e.infeasible, unified).dump() << '\n';
      throw;
    }
  }();
  std::vector<Neighbour> others;
  if (o.explain) others = neighbours(target.profile, shape, job, target.limits, plan.policy);
  if (o.json) {
    nlohmann::json json = plan_to_json(plan, unified);
    if (!bits.tried.empty()) json["bits"] = bits_to_json(bits);
    if (o.explain) json["neighbours"] = neighbours_to_json(others, unified);
    std::cout << json.dump() << '\n';
  } else {
    std::cout << describe_plan(plan, target.limits, unified) << '\n';
    if (!bits.tried.empty()) std::cout << "  " << describe_bits(bits) << '\n';
    if (o.explain) std::cout << describe_neighbours(plan, others) << '\n';
  }
  // A policy that was given whole is priced whether it fits or not.
  if (const auto over = misfit(plan, target.limits, unified)) throw InfeasibleError(*over);
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
  command->option_defaults()->group("Plan");
  command->add_option("--machine", o->machine, "plan for the machine of this profile")
      ->check(CLI::ExistingFile);
  command->add_flag("--explain", o->explain, "say what other policies would bring");
  command->add_flag("--pareto", o->pareto,
                    "jobs of one block each: which block brings most at which latency");
  command->option_defaults()->group("General");
  command->add_flag("--json", o->json, "one object");
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    plan(*o);
  });
}

}  // namespace barge
