#include "jobs/run_job.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/identity.h"
#include "cli/report.h"
#include "cli/session.h"
#include "cli/stop_signal.h"
#include "cli/workload.h"
#include "core/errors.h"
#include "core/log.h"
#include "core/progress.h"

namespace barge {
namespace {

int run(const Options& o) {
  RunOptions job;
  job.input = o.input;
  job.output = o.output;
  job.seed = o.seed;
  job.strict = o.strict;
  job.overwrite = o.overwrite;
  const std::atomic<bool>& stop = stop_on_signal();

  Session session(o, estimate_workload(o.input));
  job.identity = identity_of(session, o);
  if (!o.served_model_name.empty()) job.models = {o.served_model_name};
  job.lookahead = session.lookahead();
  job.live_tokens = [&] {
    return static_cast<std::int64_t>(session.engine->stats().generated_tokens);
  };
  if (check_job(job)) {
    if (o.json)
      std::cout << nlohmann::json{{"already_complete", true}}.dump() << '\n';
    else
      std::printf("%s is complete already\n", o.output.c_str());
    return 0;
  }
  // The hash shows that policies agree, but wants all logits on the host: a GPU is not kept from
  // its work for that.
  const bool hash_logits = !session.machine.accelerator.cuda();
  session.load(o, hash_logits);
  Progress progress("answering", [](double n) { return concat(std::llround(n), " lines"); });
  const RunSummary summary = run_job(
      *session.text, job,
      [&](const JobProgress& p) {
        char note[48];
        std::snprintf(note, sizeof note, "%.1f generated tokens/s", p.tokens_per_s);
        progress.update(static_cast<double>(p.completed + p.failed), static_cast<double>(p.total),
                        note);
      },
      stop);

  nlohmann::json json = report(session, summary.seconds);
  json["lines"] = {{"total", summary.lines},
                   {"completed", summary.completed},
                   {"failed", summary.failed},
                   {"resumed", summary.resumed}};
  if (hash_logits) json["logits_hash"] = concat(std::hex, summary.logits_hash);
  if (o.json) {
    std::cout << json.dump() << '\n';
  } else {
    std::printf("%lld lines: %lld answered, %lld with an error\n",
                static_cast<long long>(summary.lines), static_cast<long long>(summary.completed),
                static_cast<long long>(summary.failed));
    std::printf(
        "%.1f generated tokens/s (%zu in %s)\n", json["generated_tokens_per_s"].get<double>(),
        json["generated_tokens"].get<std::size_t>(), format_duration(summary.seconds).c_str());
    std::printf(
        "%.1f were predicted for the whole job; its sweeps took %.2f of what the plan says of "
        "them\n",
        session.plan.predicted.generated_tokens_per_s,
        session.watch->seconds() / session.watch->predicted());
  }
  if (!summary.stopped) return 0;
  log::warning(concat("stopped with ", summary.completed + summary.failed, " of ", summary.lines,
                      " lines answered; the same command goes on from here"));
  return 1;
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "Answer a JSONL file of Batch API requests");
  const auto o = std::make_shared<Options>();
  add_model_flags(*command, *o);
  command->option_defaults()->group("Job");
  command->add_option("-i,--input", o->input, "JSONL, one request a line")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("-o,--output", o->output, "JSONL, one answer a line, as they finish")
      ->required();
  command->add_flag("--strict", o->strict, "refuse a file with a bad line");
  command->add_flag("--overwrite", o->overwrite, "drop the output of another job");
  add_machine_flags(*command, *o);
  add_policy_flags(*command, *o);
  command->option_defaults()->group("General");
  command->add_flag("--json", o->json, "print a report as one object");
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    if (const int status = run(*o); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace barge
