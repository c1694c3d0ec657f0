#include "cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "engine/engine.h"
#include "kernels/kernels.h"

namespace barge {
namespace {

using Json = nlohmann::json;
using Sweeps = std::vector<SweepMeter::Sweep>;

constexpr double kMatrixSeconds = 0.8, kMemorySeconds = 0.2, kDiskSeconds = 0.35;

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

Json times_of(const Sweeps& sweeps, const std::function<bool(const SweepRecord&)>& wanted) {
  std::vector<double> seconds;
  double sum = 0;
  for (const auto& sweep : sweeps) {
    if (!wanted(sweep.record)) continue;
    seconds.push_back(sweep.record.seconds);
    sum += sweep.record.seconds;
  }
  return {{"sweeps", seconds.size()}, {"seconds", sum}, {"median_seconds", median(seconds)}};
}

bool any(const SweepRecord&) { return true; }
bool prefill(const SweepRecord& sweep) { return sweep.prefill(); }
bool decode(const SweepRecord& sweep) { return !sweep.prefill(); }

// The run in ten parts of as many tokens each, cut at the ends of sweeps.
Json progress_of(const Sweeps& sweeps) {
  constexpr double kParts = 10;
  const auto tokens_of = [](const SweepMeter::Sweep& sweep) {
    return static_cast<double>(sweep.record.prompt_rows + sweep.record.logit_rows);
  };
  double total = 0;
  for (const auto& sweep : sweeps) total += tokens_of(sweep);
  Json parts = Json::array();
  double tokens = 0, begin_tokens = 0, begin = 0;
  std::size_t resident = 0;
  for (const auto& sweep : sweeps) {
    tokens += tokens_of(sweep);
    resident = std::max(resident, sweep.resident_bytes);
    // A sweep that is larger than a tenth ends several of them at once.
    const double due = std::floor(begin_tokens / total * kParts + 1 + 1e-9) / kParts * total;
    if (tokens < due * (1 - 1e-9)) continue;
    parts.push_back({{"share", tokens / total},
                     {"seconds", sweep.end},
                     {"total_tokens_per_s", per_second(tokens - begin_tokens, sweep.end - begin)},
                     {"rss_bytes", resident}});
    begin_tokens = tokens;
    begin = sweep.end;
    resident = 0;
  }
  return parts;
}

double operations_of(const Sweeps& sweeps, const SweepLimits& limits) {
  double sum = 0;
  for (const auto& sweep : sweeps) sum += limits.operations(sweep.record);
  return sum;
}

}  // namespace

BenchLimits::BenchLimits(const Options& o, Session& session)
    : threads_(o.threads > 0 ? o.threads : usable_processors()),
      policy_(session.plan.policy),
      unified_(session.machine.device().unified()) {
  const KernelLimits bounds =
      kernel_limits(*session.family, policy_, session.machine.compute, session.activation_bits());
  shape_ = shape_of(*session.family,
                    [&](const TensorSpec& tensor) {
                      return session.pack
                          .tensors()[static_cast<std::size_t>(session.pack.find(tensor.name))]
                          .format;
                    },
                    policy_.kv_bits, kv_group(o), bounds, {});
  if (unified_) policy_.weights.host += std::exchange(policy_.weights.device, 0);

  if (session.machine.accelerator.cuda()) {  // as the probe found it: cuBLAS, by our kernels
    const Profile profile = session.machine.profile();
    machine_.matrix_ops[shape_.hidden] = profile.products_of(16).at(1024);
    machine_.link_down = profile.link_down;
    machine_.link_up = profile.link_up;
  } else if (!unified_) {
    machine_.link_down = machine_.link_up = o.emulate_link * 1e9;
  }
}

void BenchLimits::measure(Session& session) {
  const Machine& machine = session.machine;
  if (!machine.accelerator.cuda()) {
    std::set<std::int64_t> inputs;
    for (const auto& matrix : shape_.matrices)
      if (matrix.visited) inputs.insert(matrix.cols);
    const auto improve = [&](std::map<std::int64_t, double>& best, int activation_bits) {
      const std::vector<std::int64_t> widths(inputs.begin(), inputs.end());
      for (const auto& [width, rate] :
           measure_matrix_ops(machine.compute, activation_bits, threads_, widths, kMatrixSeconds))
        best[width] = std::max(best[width], rate);
    };
    improve(machine_.matrix_ops, session.activation_bits());
    if (session.activation_bits() == 8) improve(machine_.matrix_ops_in_16_bits, 16);
    machine_.memory_read =
        std::max(machine_.memory_read, measure_memory_read(threads_, kMemorySeconds));
  }
  machine_.disk_read = std::max(machine_.disk_read, measure_disk_read(session.pack, kDiskSeconds));
  machine_.disk_write = std::max(machine_.disk_write,
                                 measure_disk_write(session.machine.disk_directory, kDiskSeconds));
}

SweepLimits BenchLimits::sweep_limits() const { return {machine_, shape_, policy_, unified_}; }
SweepLimits BenchLimits::sweep_limits_in_16_bits() const {
  return {machine_.in_16_bits(), shape_, policy_, unified_};
}

Json bench_report(Json json, const BenchRun& run) {
  const auto generated = json["generated_tokens"].get<double>();
  double prompt_rows = 0, decoded = 0;
  for (const auto& sweep : run.sweeps) {
    prompt_rows += static_cast<double>(sweep.record.prompt_rows);
    if (!sweep.record.prefill()) decoded += static_cast<double>(sweep.record.logit_rows);
  }
  const auto given = static_cast<double>(run.prompt_tokens);
  json["prompt_tokens"] = run.prompt_tokens;
  json["prompt_tokens_computed"] = prompt_rows;
  json["total_tokens_per_s"] = per_second(given + generated, run.seconds);
  // Sweeps that carry prompt tokens also generate; their time counts as prefill.
  json["prefill_tokens_per_s"] = per_second(given, json["prefill_seconds"].get<double>());
  json["decode_tokens_per_s"] = per_second(decoded, json["decode_seconds"].get<double>());
  const Json& moved = json["traffic"];
  json["disk_read_bytes_per_s"] = per_second(moved["disk_read_bytes"].get<double>(), run.seconds);
  json["disk_write_bytes_per_s"] =
      per_second(moved["disk_written_bytes"].get<double>(), run.seconds);
  json["sweep_times"] = {{"all", times_of(run.sweeps, any)},
                         {"prefill", times_of(run.sweeps, prefill)},
                         {"decode", times_of(run.sweeps, decode)}};
  json["progress"] = progress_of(run.sweeps);
  return json;
}

void add_limits(Json& json, const BenchRun& run, const BenchLimits& measured) {
  const SweepLimits limits = measured.sweep_limits();
  const SweepLimits in_16_bits = measured.sweep_limits_in_16_bits();
  double prefill_seconds = 0, decode_seconds = 0, decoded = 0;
  double seconds_in_16_bits = 0, compute_in_16_bits = 0;
  Json sweeps_bound_by = Json::object();
  SweepLimits::Seconds sum;
  for (const auto& sweep : run.sweeps) {
    const SweepLimits::Seconds least = limits.of(sweep.record);
    (sweep.record.prefill() ? prefill_seconds : decode_seconds) += least.longest();
    if (!sweep.record.prefill()) decoded += static_cast<double>(sweep.record.logit_rows);
    sum.compute += least.compute;
    const SweepLimits::Seconds least_in_16_bits = in_16_bits.of(sweep.record);
    seconds_in_16_bits += least_in_16_bits.longest();
    compute_in_16_bits += least_in_16_bits.compute;
    sum.memory += least.memory;
    sum.disk += least.disk;
    sum.link += least.link;
    const std::string bottleneck = least.bottleneck();
    sweeps_bound_by[bottleneck] = sweeps_bound_by.value(bottleneck, 0) + 1;
  }
  const double seconds = prefill_seconds + decode_seconds;
  const auto given = static_cast<double>(run.prompt_tokens);
  const auto generated = json["generated_tokens"].get<double>();
  const double operations = operations_of(run.sweeps, limits);
  json["matrix_ops_per_s"] = per_second(operations, run.seconds);
  const MachineLimits& machine = measured.machine();
  json["limits"] = {{"prefill_tokens_per_s", per_second(given, prefill_seconds)},
                    {"decode_tokens_per_s", per_second(decoded, decode_seconds)},
                    {"generated_tokens_per_s", per_second(generated, seconds)},
                    {"total_tokens_per_s", per_second(given + generated, seconds)},
                    {"matrix_ops_per_s", per_second(operations, sum.compute)},
                    {"disk_read_bytes_per_s", machine.disk_read},
                    {"disk_write_bytes_per_s", machine.disk_write}};
  Json& ratios = json["ratios"] = Json::object();
  for (const auto& [name, limit] : json["limits"].items())
    if (limit.get<double>() > 0) ratios[name] = json[name].get<double>() / limit.get<double>();
  // Of these there are no rates: what it takes at least, and how many times that it took.
  json["limits"]["seconds"] = seconds;
  ratios["seconds"] = per_second(run.seconds, seconds);
  // The matrix rate is of products in so many bits; what it would be in 16 bits stands beside it.
  json["limits"]["activation_bits"] = json["activation_bits"];
  json["limits"]["seconds_in_16_bits"] = seconds_in_16_bits;
  ratios["seconds_in_16_bits"] = per_second(run.seconds, seconds_in_16_bits);
  json["limits"]["matrix_ops_per_s_in_16_bits"] = per_second(operations, compute_in_16_bits);
  json["limits"]["memory_read_bytes_per_s"] = machine.memory_read;
  json["limit_seconds"] = {{"compute", sum.compute},     {"memory", sum.memory},
                           {"disk", sum.disk},           {"link", sum.link},
                           {"prefill", prefill_seconds}, {"decode", decode_seconds}};
  json["sweeps_bound_by"] = std::move(sweeps_bound_by);
}

}  // namespace barge
