#include "cli/simulate.h"

#include <cmath>
#include <iostream>
#include <optional>
#include <utility>
#include <variant>

#include "cli/bench_job.h"
#include "cli/bench_report.h"
#include "cli/bits.h"
#include "cli/planning.h"
#include "cli/report.h"
#include "cli/workload.h"
#include "core/log.h"
#include "core/progress.h"
#include "jobs/lookahead.h"
#include "simulate/simulation.h"

namespace barge {
namespace {

std::vector<GenerationRequest> requests_of(const Options& o, const std::vector<LineLength>& lengths,
                                           int vocab) {
  std::vector<GenerationRequest> requests;
  for (TextRequest& line : random_lines(lengths, o.prefix_len, vocab, o.seed + 1)) {
    GenerationRequest& request = requests.emplace_back();
    request.prompt = std::get<std::vector<TokenId>>(std::move(line.prompt));
    request.sampling.temperature = 0;
    request.max_tokens = *line.max_tokens;
  }
  return requests;
}

}  // namespace

void simulate(const Options& given, const std::vector<LineLength>& lengths, const Workload& job) {
  Machine here(given);
  const PlanTarget target = other_machine(given, given.simulate, here);
  const ChosenBits bits = choose_bits(given, target, job);
  if (!bits.tried.empty()) log::info(describe_bits(bits));
  const Options& o = bits.options;
  const PlannedModel model = planned_model(o);
  const Plan plan = make_plan(o, model, target, job);
  log::info(describe_plan(plan, target.limits, target.profile.unified));

  Simulation::Options options;
  options.engine.policy = plan.policy;
  options.engine.compute = target.compute;
  options.engine.activation_bits = target.activation_bits;
  options.engine.kv_group = kv_group(o);
  options.format_of = model.format_of;
  options.limits = target.limits;
  options.workspace = {.device = plan.footprint.workspace, .host = plan.footprint.workspace_host};
  options.attention_workspace = plan.footprint.attention_workspace;
  options.directory = here.disk_directory;
  options.trace = !o.trace.empty();
  std::optional<SweepMeter> meter;
  options.engine.on_sweep = [&meter](const SweepRecord& sweep) { meter->add(sweep); };
  Simulation simulation(target.profile, *model.family, options);
  const auto tokenizer = simulation.budgets().host.reserve(plan.footprint.tokenizer, "tokenizer");

  double wanted = 0;
  for (const LineLength& line : lengths) wanted += line.answer;
  Progress progress("simulating", [](double n) { return concat(std::llround(n), " tokens"); });
  const Lookahead ahead = Lookahead::of_block(plan.policy.block_sequences());
  meter.emplace(simulation.clock());
  const EngineStats before = simulation.stats();
  const Seconds begin = simulation.clock().now();
  simulation.run(requests_of(o, lengths, model.family->config().vocab),
                 static_cast<std::size_t>(ahead.most - plan.policy.block_sequences()),
                 [&](std::size_t tokens) { progress.update(static_cast<double>(tokens), wanted); });
  BenchRun run{.seconds = (simulation.clock().now() - begin).count(), .sweeps = meter->sweeps()};
  for (const LineLength& line : lengths) run.prompt_tokens += static_cast<std::size_t>(line.prompt);
  nlohmann::json json = bench_report(
      report(simulation.stats(), before, simulation.budgets(), plan, run.seconds), run);
  json["model"] = o.model;
  json["num_prompts"] = lengths.size();
  json["simulated"] = target.profile.machine;
  if (simulation.trace() != nullptr) simulation.trace()->write(o.trace);
  std::cout << (o.json ? json.dump() + "\n" : bench_table(json));
}

}  // namespace barge
