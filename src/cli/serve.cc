#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/identity.h"
#include "cli/session.h"
#include "cli/workload.h"
#include "core/bytes.h"
#include "core/duration.h"
#include "core/errors.h"
#include "core/log.h"
#include "server/api_keys.h"
#include "server/server.h"
#include "server/shutdown_limit.h"

namespace barge {
namespace {

// A completion on-line needn't wait for a sequence of a batch to end while fewer than these run; it
// costs batches as much of their throughput. Small blocks have none to spare.
int reserved_of(int block_sequences) {
  return block_sequences < 16 ? 0 : std::max(1, block_sequences / 32);
}

// Of the disk, without a limit of its own: what is free now and what the pack has.
PerTier<std::size_t> capacity_of(Session& session) {
  const Budgets& budgets = session.machine.budgets;
  std::error_code unknown;
  const auto space = std::filesystem::space(session.machine.disk_directory, unknown);
  const std::size_t disk = session.plan.footprint.pack + (unknown ? 0 : space.available);
  return {budgets.device.limit(), budgets.host.limit(), std::min(disk, budgets.disk.limit())};
}

PerTier<std::size_t> used_of(Session& session) {
  const Budgets& budgets = session.machine.budgets;
  return {budgets.device.used(), budgets.host.used(),
          session.plan.footprint.pack + budgets.disk.used()};
}

void serve(const Options& o) {
  ServerOptions options;
  options.host = o.host;
  options.port = static_cast<std::uint16_t>(o.port);
  options.data_dir = o.data_dir.empty() ? cache_directory_of(o) / "jobs" : o.data_dir;
  options.served_model_name =
      !o.served_model_name.empty() ? o.served_model_name : default_served_name(o.model);
  options.api_keys = o.api_keys;
  if (!o.api_key_file.empty()) {
    const auto more = read_keys(o.api_key_file);
    options.api_keys.insert(options.api_keys.end(), more.begin(), more.end());
  }
  options.allow_anonymous = o.allow_anonymous;
  options.log_requests = o.log_requests;
  options.limits.max_connections = o.max_connections;
  options.seed = o.seed;
  if (!o.batch_expiry.empty())
    options.batch_expiry_seconds = parse_duration(o.batch_expiry, "--batch-expiry");
  if (!o.retain.empty()) options.retain_seconds = parse_duration(o.retain, "--retain");
  if (!o.data_limit.empty())
    options.data_limit_bytes = static_cast<std::int64_t>(parse_bytes(o.data_limit, "--data-limit"));
  const std::chrono::seconds shutdown_timeout(
      parse_duration(o.shutdown_timeout, "--shutdown-timeout"));
  Server server(options);
  log::info(concat("listening on http://", o.host, ":", server.port(), ", loading ", o.model));

  // Lines to come are of all lengths: no longest one is known.
  Workload job = workload_of(draw_lengths(o, 1000));
  job.longest = 0;
  Session session(o, job);
  session.reserved_sequences = reserved_of(session.plan.policy.block_sequences());
  session.load(o);
  ServedModel model;
  model.generator = session.text.get();
  model.identity = identity_of(session, o);
  model.lookahead = session.lookahead();
  model.max_model_len = session.engine->max_positions();
  model.live_tokens = [&] {
    return static_cast<std::int64_t>(session.engine->stats().generated_tokens);
  };
  const PerTier<std::size_t> capacity = capacity_of(session);
  model.numbers = [&session, capacity] {
    return EngineNumbers{.stats = session.engine->stats(),
                         .kv_capacity_bytes = session.plan.footprint.kv,
                         .capacity_bytes = capacity,
                         .used_bytes = used_of(session),
                         .sweep_seconds = session.watch->seconds(),
                         .predicted_sweep_seconds = session.watch->predicted()};
  };
  server.serve(model);
  log::info(concat("ready: ", options.served_model_name));
  server.wait();
  log::info(concat("stopping at the end of the sweep, in ", o.shutdown_timeout,
                   " at most; batches go on at the next start"));
  limit_shutdown(shutdown_timeout);
  server.stop();
  if (session.watch->predicted() > 0)
    log::info(concat("sweeps took ", session.watch->seconds() / session.watch->predicted(),
                     " of what the plan says of them"));
}

}  // namespace

void add_serve(CLI::App& app) {
  auto* command =
      app.add_subcommand("serve", "Serve OpenAI's Files, Batches and completions over HTTP");
  const auto o = std::make_shared<Options>();
  add_model_flags(*command, *o);
  command->option_defaults()->group("Server");
  command->add_option("--host", o->host, "address to listen on")->capture_default_str();
  command->add_option("--port", o->port, "0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--api-key", o->api_keys,
                   "that clients must send, may be given several times; default: none")
      ->allow_extra_args(false);
  command
      ->add_option("--api-key-file", o->api_key_file,
                   "keys, one a line: each sees its own files and batches")
      ->check(CLI::ExistingFile);
  command->add_flag("--allow-anonymous", o->allow_anonymous,
                    "without a key: listen also where other machines can reach it, under any name");
  command
      ->add_option("--max-connections", o->max_connections,
                   "open at once; beyond, clients are told to come back later")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--log-requests", o->log_requests,
                    "write what is asked to the log, prompts too");
  command->add_option("--data-dir", o->data_dir, "files and jobs; default: in the cache directory");
  command->add_option("--data-limit", o->data_limit,
                      "14GiB, 512MiB: of files and outputs; an upload beyond it is refused");
  command->add_option("--batch-expiry", o->batch_expiry,
                      "24h, 7d: a batch's age at which what it hasn't answered gets error lines; "
                      "default: never");
  command->add_option("--retain", o->retain,
                      "30d: how long files stay after the last batch that read or wrote them has "
                      "ended; default: for ever");
  command
      ->add_option("--shutdown-timeout", o->shutdown_timeout,
                   "how long the sweep may take to its end after SIGTERM or SIGINT; a second "
                   "signal ends at once")
      ->capture_default_str();
  add_machine_flags(*command, *o);
  add_policy_flags(*command, *o);
  add_workload_flags(*command, *o);
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    serve(*o);
  });
}

}  // namespace barge
