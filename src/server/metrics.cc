#include "server/metrics.h"

#include <algorithm>

namespace barge {
namespace {

template <typename Count>
double real(Count count) {
  return static_cast<double>(count);
}

void print_batches(PrometheusText& out, const BatchNumbers& batches) {
  out.family("batches", "gauge", "Batches by state.");
  out.number(real(batches.running.size()), {{"state", "running"}});
  out.number(real(batches.waiting), {{"state", "waiting"}});
  out.family("batch_lines_total", "counter", "Lines of batches that got their answer.");
  out.number(real(batches.lines_completed), {{"result", "completed"}});
  out.number(real(batches.lines_failed), {{"result", "failed"}});
  out.family("batch_lines", "gauge", "Lines of the batches that run.");
  for (const auto& [id, batch] : batches.running) {
    out.number(real(batch.total), {{"batch", id}, {"state", "total"}});
    out.number(real(batch.completed), {{"batch", id}, {"state", "completed"}});
    out.number(real(batch.failed), {{"batch", id}, {"state", "failed"}});
  }
  out.family("batch_seconds_left", "gauge", "Until a batch is done, at its rate of lines so far.");
  for (const auto& [id, batch] : batches.running)
    if (batch.seconds_left >= 0) out.number(batch.seconds_left, {{"batch", id}});
}

void print_traffic(PrometheusText& out, const EngineStats& stats) {
  const auto transferred = [&](const char* name, const char* help, double disk_read,
                               double disk_written, double link_down, double link_up) {
    out.family(name, "counter", help);
    out.number(disk_read, {{"tier", "disk"}, {"direction", "read"}});
    out.number(disk_written, {{"tier", "disk"}, {"direction", "write"}});
    out.number(link_down, {{"tier", "device"}, {"direction", "down"}});
    out.number(link_up, {{"tier", "device"}, {"direction", "up"}});
  };
  transferred("transferred_bytes_total", "Bytes that moved to and from a tier.",
              real(stats.disk.read_bytes), real(stats.disk.written_bytes),
              real(stats.link.down_bytes), real(stats.link.up_bytes));
  transferred("transfer_seconds_total", "Seconds in which such bytes were on their way.",
              stats.disk.read_seconds, stats.disk.write_seconds, stats.link.down_seconds,
              stats.link.up_seconds);
  transferred("weight_bytes_total", "Of these bytes, weights.", real(stats.weights.disk_bytes), 0,
              real(stats.weights.link_bytes), 0);
  transferred("kv_bytes_total", "Of these bytes, KV cache.", real(stats.kv.disk_read_bytes),
              real(stats.kv.disk_written_bytes), real(stats.kv.link_down_bytes),
              real(stats.kv.link_up_bytes));
  out.family(
      "stall_seconds_total", "counter",
      "Seconds in which computing, or the thread that gives it its work, waited for something.");
  for (const auto& [what, seconds] : stats.compute_waits)
    out.number(seconds, {{"who", "compute"}, {"waits_for", what}});
  for (const auto& [what, seconds] : stats.engine_waits)
    out.number(seconds, {{"who", "engine"}, {"waits_for", what}});
  out.family("compute_seconds_total", "counter", "Seconds in which the device computed.");
  out.number(stats.compute_seconds);
}

void print_engine(PrometheusText& out, const EngineNumbers& numbers) {
  const EngineStats& stats = numbers.stats;
  out.family("num_requests_running", "gauge", "Sequences in the block.");
  out.number(real(stats.running));
  out.family("num_requests_waiting", "gauge", "Sequences that wait to enter it.");
  out.number(real(stats.waiting));
  out.family("num_requests_swapped", "gauge", "Sequences that were put aside.");
  out.number(real(stats.swapped));
  double used = 0, capacity = 0;
  for (const Tier tier : kTiers) {
    used += real(stats.kv_bytes[tier]);
    capacity += real(numbers.kv_capacity_bytes[tier]);
  }
  out.family("kv_cache_usage_perc", "gauge", "Of the KV cache that is planned, in use: 1 is all.");
  out.number(used / std::max(capacity, 1.));
  out.family("memory_bytes", "gauge", "Bytes by home.");
  for (const Tier tier : kTiers) {
    out.number(real(stats.weight_bytes[tier]), {{"tier", name_of(tier)}, {"what", "weights"}});
    out.number(real(stats.kv_bytes[tier]), {{"tier", name_of(tier)}, {"what", "kv"}});
  }
  out.family("tier_capacity_bytes", "gauge", "Bytes that may be taken of a tier.");
  for (const Tier tier : kTiers)
    out.number(real(numbers.capacity_bytes[tier]), {{"tier", name_of(tier)}});
  out.family("tier_used_bytes", "gauge",
             "Bytes taken of it: by home, and buffers; of the disk by the whole pack.");
  for (const Tier tier : kTiers)
    out.number(real(numbers.used_bytes[tier]), {{"tier", name_of(tier)}});
  out.family("prompt_tokens_total", "counter", "Prompt tokens computed.");
  out.number(real(stats.prompt_tokens));
  out.family("generation_tokens_total", "counter", "Tokens generated.");
  out.number(real(stats.generated_tokens));
  out.family("sweeps_total", "counter", "Passes through all layers.");
  out.number(real(stats.sweeps));
  out.family("sweep_seconds_total", "counter", "Seconds of sweeps: as they were, and as planned.");
  out.number(numbers.sweep_seconds, {{"source", "actual"}});
  out.number(numbers.predicted_sweep_seconds, {{"source", "predicted"}});
  out.family("generation_tokens_per_second", "gauge",
             "Tokens generated in a second of sweeps since the start: as it was, and as planned.");
  const auto rate = [&](double seconds) {
    return seconds > 0 ? real(stats.generated_tokens) / seconds : 0;
  };
  out.number(rate(numbers.sweep_seconds), {{"source", "actual"}});
  out.number(rate(numbers.predicted_sweep_seconds), {{"source", "predicted"}});
  print_traffic(out, stats);
}

}  // namespace

void Metrics::answered(int http_status) {
  const std::lock_guard lock(mutex_);
  ++answers_[http_status];
}

void Metrics::choice_ended(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  ++choices_[std::string(reason)];
}

void Metrics::completion_took(double seconds) {
  const std::lock_guard lock(mutex_);
  latency_.add(seconds);
}

std::string Metrics::print(const std::string& model_name, const ServedModel* model,
                           const BatchNumbers& batches) const {
  PrometheusText out({{"model_name", model_name}});
  {
    const std::lock_guard lock(mutex_);
    out.family("request_success_total", "counter", "Choices of completions on-line, by their end.");
    for (const auto& [reason, count] : choices_)
      out.number(real(count), {{"finished_reason", reason}});
    out.family("e2e_request_latency_seconds", "histogram",
               "From a completion's arrival to its answer, on-line.");
    latency_.print(out);
    out.family("http_requests_total", "counter", "Requests by the status of their answer.");
    for (const auto& [status, count] : answers_)
      out.number(real(count), {{"status", std::to_string(status)}});
  }
  print_batches(out, batches);
  if (model && model->numbers) print_engine(out, model->numbers());
  return out.text();
}

}  // namespace barge
