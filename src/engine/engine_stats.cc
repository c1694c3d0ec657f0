#include "engine/engine_stats.h"

#include "engine/scheduler.h"
#include "engine/stores.h"

namespace barge {

EngineStats counted(const Scheduler& scheduler, Stores& stores) {
  const Scheduler::Counts& counts = scheduler.counts();
  return {.sweeps = counts.sweeps,
          .prompt_tokens = counts.prompt_tokens,
          .generated_tokens = counts.generated_tokens,
          .finished = counts.finished,
          .running = scheduler.running(),
          .waiting = scheduler.waiting(),
          .swapped = scheduler.swapped(),
          .swaps = scheduler.room().swaps(),
          .replays = scheduler.room().replays(),
          .shared_prompt_tokens = scheduler.room().shared_tokens(),
          .prefill_seconds = counts.prefill_seconds,
          .decode_seconds = counts.decode_seconds,
          .weight_bytes = stores.weights().bytes_at_home(),
          .kv_bytes = scheduler.room().bytes_in_use(),
          .kv_peak_bytes = stores.kv().peak_bytes_held(),
          .kv = stores.kv().traffic()};
}

void add_measured(EngineStats& stats, const Stores& stores, const Device& device,
                  const Disk& disk) {
  stats.cpu_attention_seconds = stores.cpu_attention_seconds();
  stats.weights = stores.weights().traffic();
  stats.disk = disk.traffic();
  stats.link = device.link_traffic();
  stats.compute_seconds = device.compute_seconds();
  stats.compute_waits = device.compute_waits();
  stats.engine_waits = stores.waits().seconds();
}

}  // namespace barge
