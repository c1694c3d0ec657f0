#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench_job.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/report.h"
#include "cli/session.h"
#include "cli/simulate.h"
#include "cli/workload.h"
#include "core/errors.h"

namespace barge {
namespace {

// Prompts of each run differ, so that no run finds prefixes that an earlier one computed.
class JobSource {
 public:
  explicit JobSource(const Options& options) : options_(options) {
    if (!options.input.empty()) return;
    int count = options.num_prompts;
    if (count == 0)
      count = options.gpu_batch_size ? *options.gpu_batch_size * options.num_gpu_batches.value_or(1)
                                     : 64;
    lengths_ = draw_lengths(options, count);
    for (const LineLength& line : lengths_)
      if (line.prompt <= options.prefix_len)
        throw ConfigError(concat("--prefix-len ", options.prefix_len, " leaves a prompt of ",
                                 line.prompt, " tokens none of its own"));
  }

  const std::vector<LineLength>& lengths() const { return lengths_; }

  Workload workload() const {
    if (!options_.input.empty()) return estimate_workload(options_.input);
    Workload job = workload_of(lengths_);
    job.shared_prefix = options_.prefix_len;
    return job;
  }

  std::vector<TextRequest> lines(const Session& session, int run) const {
    const std::uint64_t seed = 1000 * options_.seed + static_cast<std::uint64_t>(run) + 1;
    if (options_.input.empty())
      return random_lines(lengths_, options_.prefix_len, session.engine->vocab(), seed);
    std::vector<TextRequest> lines = lines_of_file(options_.input, *session.text, options_.seed);
    if (options_.num_prompts > 0 && lines.size() > static_cast<std::size_t>(options_.num_prompts))
      lines.resize(static_cast<std::size_t>(options_.num_prompts));
    return lines;
  }

 private:
  const Options& options_;
  std::vector<LineLength> lengths_;
};

// Checks the sums of all panels that a sweep visits, makes products' primitives, touches memory.
void warm_up(Session& session, SweepMeter& meter, int count) {
  const int tokens = std::min(16, session.engine->max_positions() - 2);
  const std::vector<LineLength> lengths(static_cast<std::size_t>(count), {tokens, 2});
  run_lines(session, meter, random_lines(lengths, 0, session.engine->vocab(), /*seed=*/0));
}

void bench(const Options& o) {
  const JobSource job(o);
  if (!o.simulate.empty()) {
    if (!o.input.empty()) throw ConfigError("--simulate wants lengths, not an --input");
    return simulate(o, job.lengths(), job.workload());
  }
  Session session(o, job.workload());
  std::optional<BenchLimits> limits;
  if (!o.no_limits) {
    limits.emplace(o, session);
    limits->measure(session);
    forget_peak_resident_bytes();  // theirs
  }
  SweepMeter meter(session.machine.device().clock());
  session.on_sweep = [&meter](const SweepRecord& sweep) { meter.add(sweep); };
  session.load(o);
  if (o.warm_up > 0) warm_up(session, meter, o.warm_up);

  std::vector<std::pair<BenchRun, nlohmann::json>> runs;
  for (int i = 0; i < o.repetitions; ++i) {
    const std::vector<TextRequest> lines = job.lines(session, i);
    const ReportStart start = start_report(session);
    BenchRun run = run_lines(session, meter, lines);
    nlohmann::json report = bench_report(barge::report(session, run.seconds, start), run);
    report["model"] = o.model;
    report["num_prompts"] = lines.size();
    runs.emplace_back(std::move(run), std::move(report));
  }
  session.unload();  // ends the last sweep, and leaves room for what limits are measured with
  if (limits) limits->measure(session);
  if (!o.trace.empty()) session.machine.trace->write(o.trace);
  std::sort(runs.begin(), runs.end(),
            [](const auto& a, const auto& b) { return a.first.seconds < b.first.seconds; });
  auto& [run, report] = runs[runs.size() / 2];
  if (limits) add_limits(report, run, *limits);
  for (const auto& [each, unused] : runs) report["all_seconds"].push_back(each.seconds);
  std::cout << (o.json ? report.dump() + "\n" : bench_table(report));
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand(
      "bench", "Measure throughput, and hold it against what the machine can do");
  const auto o = std::make_shared<Options>();
  add_model_flags(*command, *o);
  add_machine_flags(*command, *o);
  add_policy_flags(*command, *o);
  add_workload_flags(*command, *o);
  command->add_option("--prefix-len", o->prefix_len, "random tokens with which every prompt begins")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("-i,--input", o->input,
                   "take prompts and max_tokens from this JSONL of Batch API requests; answers are "
                   "of just that length")
      ->check(CLI::ExistingFile);
  command->option_defaults()->group("Measurement");
  command->add_option("--repetitions", o->repetitions, "the median one is shown")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--warm-up", o->warm_up,
                   "short prompts before the first run: checksums of weights are verified there")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--simulate", o->simulate,
                   "run on the machine of this profile (machines/*.json), in virtual time")
      ->check(CLI::ExistingFile);
  command->add_flag("--no-limits", o->no_limits,
                    "don't measure what the machine can do (2 s before and after)");
  command->add_option("--trace", o->trace,
                      "file for what streams, disk and sweeps did: ui.perfetto.dev shows it, and "
                      "scripts/plot");
  command->option_defaults()->group("General");
  command->add_flag("--json", o->json, "one object");
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    bench(*o);
  });
}

}  // namespace barge
