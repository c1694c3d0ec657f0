#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "core/device.h"
#include "core/tier.h"
#include "offload/disk.h"
#include "offload/kv_store.h"
#include "offload/weight_store.h"

namespace barge {

class Scheduler;
class Stores;

/// What an engine did since its start.
struct EngineStats {
  std::size_t sweeps = 0, prompt_tokens = 0, generated_tokens = 0, finished = 0;
  std::size_t running = 0, waiting = 0;  // sequences now
  std::size_t swapped = 0;               // begun, but put aside now: neither of the two
  std::size_t swaps = 0, replays = 0;    // put aside so far; of these, to be computed again
  std::size_t shared_prompt_tokens = 0;  // not computed, for others' prompts begin like that
  double prefill_seconds = 0, decode_seconds = 0;  // sweeps with and without prompt tokens
  PerTier<std::size_t> weight_bytes;               // by home
  PerTier<std::size_t> kv_bytes;       // by home, of what runs: beside it prompts are kept
  PerTier<std::size_t> kv_peak_bytes;  // by home, of all
  double cpu_attention_seconds = 0;    // that the CPU attended beside the device
  WeightTraffic weights;
  KvTraffic kv;
  DiskTraffic disk;
  LinkTraffic link;
  double compute_seconds = 0;  // in which the device computed
  /// Seconds in which the device's compute stream and the engine's thread waited, by what for.
  std::map<std::string, double> compute_waits, engine_waits;
};

/// What the scheduler and its stores count, on the thread that leads them.
EngineStats counted(const Scheduler& scheduler, Stores& stores);
/// Adds what streams and disk count meanwhile. Thread-safe.
void add_measured(EngineStats& stats, const Stores& stores, const Device& device, const Disk& disk);

}  // namespace barge
