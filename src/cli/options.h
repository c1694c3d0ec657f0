#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace barge {

/// All flags, by their names (conventions.md). What the user didn't say is empty or the default.
struct Options {
  std::string model;

  // Model
  std::string served_model_name;
  int max_model_len = 0;  // 0: the model's own
  std::string dtype = "auto", activation_bits = "auto";
  // A number; "auto": as choose_bits says; empty: weights as the checkpoint has them, 16-bit ones
  // in 4, and a KV cache in 16.
  std::string weight_bits, kv_bits;
  int group_size = 0;  // 0: the checkpoint's, or 64
  std::string chat_template;
  std::uint64_t seed = 0;

  // Machine
  std::string device = "auto", gpu_memory, cpu_memory, disk_space, io = "auto";
  std::filesystem::path disk_dir, cache_dir;
  int threads = 0;
  double emulate_link = 0;  // GB/s

  // Policy
  std::string policy = "auto";  // or a file
  std::optional<int> gpu_batch_size, num_gpu_batches, prefill_chunk, page_positions;
  std::vector<double> percent;
  std::string cpu_attention = "auto";
  bool no_prefix_sharing = false;

  // Workload
  std::string prompt_len = "512", gen_len = "32";  // a number or lognormal:MEDIAN,SIGMA,MAX
  int num_prompts = 0, prefix_len = 0, repetitions = 1, warm_up = 2;
  bool no_limits = false;
  std::filesystem::path input, output, trace, simulate;
  bool strict = false, overwrite = false;

  // Server
  std::string host = "127.0.0.1";
  int port = 8000;
  std::vector<std::string> api_keys;
  std::filesystem::path api_key_file;
  bool allow_anonymous = false, log_requests = false;
  std::size_t max_connections = 2048;
  std::filesystem::path data_dir;
  std::string batch_expiry, retain, data_limit;  // empty: never, for ever, none
  std::string shutdown_timeout = "30s";

  // Pack, probe, plan, tokenize
  bool verify = false, quick = false, pareto = false, explain = false;
  std::filesystem::path machine, file, chat;
  bool no_special = false;

  bool json = false;
};

}  // namespace barge
