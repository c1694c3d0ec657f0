#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/workload.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/progress.h"

namespace barge {
namespace {

// Submits `count` random prompts, waits for their answers, returns the seconds.
double run_job(Session& session, const Options& o, int count, int gen_len) {
  std::mutex mutex;
  std::condition_variable changed;
  int finished = 0;
  std::size_t tokens = 0;
  std::string failure;
  std::mt19937 random(static_cast<std::uint32_t>(o.seed + 1));
  std::uniform_int_distribution<TokenId> any(5, session.engine->vocab() - 6);
  const Seconds begin = session.machine.device().clock().now();
  for (int i = 0; i < count; ++i) {
    GenerationRequest request;
    for (int t = 0; t < o.prompt_len; ++t) request.prompt.push_back(any(random));
    request.sampling.temperature = 0;
    request.max_tokens = gen_len;
    request.ignore_eos = true;
    request.on_token = [&](const SampledToken&) {
      const std::scoped_lock lock(mutex);
      ++tokens;
      return true;
    };
    request.on_done = [&](FinishReason, const std::string& error) {
      const std::scoped_lock lock(mutex);
      if (!error.empty()) failure = error;
      ++finished;
      changed.notify_all();
    };
    session.engine->submit(std::move(request));
  }
  Progress progress("bench", [](double n) { return concat(std::llround(n), " tokens"); });
  std::unique_lock lock(mutex);
  while (finished < count) {
    changed.wait_for(lock, std::chrono::milliseconds(500));
    progress.update(static_cast<double>(tokens), 1.0 * count * gen_len);
  }
  if (!failure.empty()) throw Error(failure);
  return (session.machine.device().clock().now() - begin).count();
}

EngineStats minus(EngineStats after, const EngineStats& before) {
  after.prefill_seconds -= before.prefill_seconds;
  after.decode_seconds -= before.decode_seconds;
  after.sweeps -= before.sweeps;
  after.prompt_tokens -= before.prompt_tokens;
  after.generated_tokens -= before.generated_tokens;
  return after;
}

void bench(const Options& o) {
  Workload job = workload_of(o, o.num_prompts);
  if (o.num_prompts == 0)
    job.num_prompts = o.gpu_batch_size ? *o.gpu_batch_size * o.num_gpu_batches.value_or(1) : 64;
  const int count = static_cast<int>(job.num_prompts);
  Session session(o, job);
  session.load(o);
  run_job(session, o, std::min(count, 2), 2);  // warms caches, checks the panels' sums

  std::vector<nlohmann::json> runs;
  for (int i = 0; i < o.repetitions; ++i) {
    const EngineStats before = session.engine->stats();
    const double seconds = run_job(session, o, count, o.gen_len);
    const EngineStats run = minus(session.engine->stats(), before);
    nlohmann::json json = report(session, seconds);
    const double generated = 1.0 * count * o.gen_len, prompt = 1.0 * count * o.prompt_len;
    // Sweeps that carry prompt tokens also generate; their time counts as prefill.
    json["prefill_tokens_per_s"] = prompt / std::max(run.prefill_seconds, 1e-9);
    json["decode_tokens_per_s"] =
        run.decode_seconds > 0 ? (generated - count) / run.decode_seconds : 0;
    json["generated_tokens_per_s"] = generated / seconds;
    json["total_tokens_per_s"] = (generated + prompt) / seconds;
    json["prefill_seconds"] = run.prefill_seconds;
    json["decode_seconds"] = run.decode_seconds;
    json["sweeps"] = run.sweeps;
    json["busy_seconds"] = busy_seconds(session.engine->stats(), before);
    runs.push_back(std::move(json));
  }
  if (!o.trace.empty()) {
    session.engine.reset();  // ends the last sweep
    session.machine.trace->write(o.trace);
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return a["seconds"].template get<double>() < b["seconds"].template get<double>();
  });
  const nlohmann::json& median = runs[runs.size() / 2];
  if (o.json) {
    std::cout << median.dump() << '\n';
    return;
  }
  std::printf("%s: %d prompts of %d tokens, %d generated each\n", o.model.c_str(), count,
              o.prompt_len, o.gen_len);
  for (const char* key : {"prefill_tokens_per_s", "decode_tokens_per_s", "generated_tokens_per_s",
                          "total_tokens_per_s", "seconds"})
    std::printf("  %-24s %10.1f\n", key, median[key].get<double>());
  std::printf("  %-24s %10zu\n", "sweeps", median["sweeps"].get<std::size_t>());
  std::printf("  %-24s %10s\n", "peak resident set",
              format_bytes(median["peak_rss_bytes"].get<std::size_t>()).c_str());
  for (const auto& [name, busy] : median["busy_seconds"].items())
    if (busy > 0)
      std::printf("  busy: %-18s %9.0f %%\n", name.c_str(),
                  100 * busy.get<double>() / median["seconds"].get<double>());
  for (const char* key : {"weights", "kv"})
    std::printf("  %-24s device %s, host %s, disk %s\n", key,
                format_bytes(median[key]["device"].get<std::size_t>()).c_str(),
                format_bytes(median[key]["host"].get<std::size_t>()).c_str(),
                format_bytes(median[key]["disk"].get<std::size_t>()).c_str());
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "Measure throughput on random prompts");
  const auto o = std::make_shared<Options>();
  add_model_flags(*command, *o);
  add_machine_flags(*command, *o);
  add_policy_flags(*command, *o);
  add_workload_flags(*command, *o);
  command->add_option("--repetitions", o->repetitions, "the median one is shown")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--trace", o->trace,
                      "file for what streams, disk and sweeps did: ui.perfetto.dev shows it");
  command->add_flag("--json", o->json, "one object");
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    bench(*o);
  });
}

}  // namespace barge
