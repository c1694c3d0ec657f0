#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "core/log.h"

namespace barge {
namespace {

using Json = nlohmann::json;

std::string variable_of(const CLI::Option& option) {
  std::string name = "BARGE_";
  for (const char c : option.get_lnames().front())
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// Gives `words` to an option that the command line left alone, as if they stood there.
void give(CLI::Option& option, const std::vector<std::string>& words, const std::string& source) {
  try {
    option.clear();
    for (const std::string& word : words) option.add_result(word);
    option.run_callback();
  } catch (const CLI::Error& e) {
    throw ConfigError(concat(source, ": ", e.what()));
  }
}

std::vector<std::string> words_of(const Json& value, const std::string& source) {
  std::vector<std::string> words;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    if (item.is_structured() || item.is_null())
      throw ConfigError(concat(source, " wants a string, a number, true, false or a list of them"));
    words.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  }
  return words;
}

Json read_config(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw ConfigError(concat("--config: cannot read ", path));
  const Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  if (!json.is_object())
    throw ConfigError(concat("--config: ", path, " wants one JSON object with flags' names"));
  return json;
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace

void add_format_flags(CLI::App& command, Options& o) {
  command
      .add_option("--weight-bits", o.weight_bits,
                  "bits of a weight; default: as the checkpoint has them, 16-bit ones in 4; auto: "
                  "the most of 4, 8 and 16 that cost the job next to no speed")
      ->check(CLI::IsMember({"auto", "4", "8", "16", "32"}));
  command
      .add_option("--group-size", o.group_size,
                  "numbers that share a scale in 4 and 8 bits; default: the checkpoint's, or 64")
      ->check(CLI::IsMember({32, 64, 128}));
}

void add_compute_flags(CLI::App& command, Options& o) {
  command.add_option("--dtype", o.dtype, "type in which products are computed")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}))
      ->capture_default_str();
  command
      .add_option("--activation-bits", o.activation_bits,
                  "bits to which inputs of products with 4- and 8-bit weights are rounded, on the "
                  "CPU; auto: 8 where that is faster and --dtype is auto")
      ->check(CLI::IsMember({"auto", "8", "16"}))
      ->capture_default_str();
}

void add_model_flags(CLI::App& command, Options& o) {
  command
      .add_option("MODEL", o.model,
                  "a Hugging Face directory, a .gguf file, a pack, or dummy:NAME[@LAYERS]")
      ->required();
  add_format_flags(command, o);
  command.add_option("--served-model-name", o.served_model_name, "the model's name for clients");
  command
      .add_option("--max-model-len", o.max_model_len,
                  "longest prompt and answer together, in tokens; default: the model's own")
      ->check(CLI::NonNegativeNumber);
  add_compute_flags(command, o);
  command
      .add_option("--kv-bits,--kv-cache-dtype", o.kv_bits,
                  "bits of a KV cache number; default: 16; auto: 4 or 16, likewise")
      ->check(CLI::IsMember({"auto", "4", "16", "32"}));
  command.add_option("--chat-template", o.chat_template, "a Jinja file instead of the model's own")
      ->check(CLI::ExistingFile);
  command.add_option("--seed", o.seed, "of requests that have none")->capture_default_str();
}

void add_machine_flags(CLI::App& command, Options& o) {
  command.add_option("--device", o.device, "where to compute; auto: a GPU if one can be used")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->capture_default_str();
  command.add_option("--gpu-memory", o.gpu_memory, "14GiB, 512MiB or 80%: of the device");
  command.add_option("--cpu-memory", o.cpu_memory, "likewise, of the host; default 80%");
  command.add_option("--disk-space", o.disk_space,
                     "likewise, for the pack and the KV cache; default: what is free");
  command.add_option("--disk-dir", o.disk_dir, "where KV pages go; default: the cache directory");
  command.add_option("--cache-dir", o.cache_dir,
                     "packs and profiles; default: $XDG_CACHE_HOME/barge or ~/.cache/barge");
  command.add_option("--threads", o.threads, "of compute; default: all processors")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--io", o.io, "how the disk is read and written")
      ->check(CLI::IsMember({"auto", "uring", "pread"}))
      ->capture_default_str();
  command
      .add_option("--emulate-link", o.emulate_link,
                  "GB/s: treat the CPU as a device with memory of its own behind such a link")
      ->check(CLI::NonNegativeNumber);
}

void add_policy_flags(CLI::App& command, Options& o) {
  command.add_option("--policy", o.policy, "auto, or a JSON file with the keys of `barge plan`")
      ->capture_default_str();
  command.add_option("--gpu-batch-size", o.gpu_batch_size, "sequences in a micro-batch")
      ->check(CLI::PositiveNumber);
  command.add_option("--num-gpu-batches", o.num_gpu_batches, "micro-batches in a block")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--percent", o.percent,
                  "WG WC CG CC HG HC: shares of weights, KV cache and activations on GPU and "
                  "CPU; the rest is on disk")
      ->expected(6);
  command.add_option("--prefill-chunk", o.prefill_chunk, "most tokens of a sweep")
      ->check(CLI::PositiveNumber);
  command
      .add_option(
          "--cpu-attention", o.cpu_attention,
          "decode attention of the CPU, where KV isn't in GPU memory; auto: where that is faster")
      ->check(CLI::IsMember({"on", "off", "auto"}))
      ->capture_default_str();
  command.add_option("--page-positions", o.page_positions, "positions in a page of KV cache")
      ->check(CLI::Range(1, 4096));
  command.add_flag("--no-prefix-sharing", o.no_prefix_sharing,
                   "compute and store each prompt whole, even where others begin like it");
}

void add_workload_flags(CLI::App& command, Options& o) {
  command
      .add_option("--prompt-len", o.prompt_len,
                  "tokens in a prompt: a number, or lognormal:MEDIAN,SIGMA,MAX, the same each time")
      ->capture_default_str();
  command.add_option("--gen-len", o.gen_len, "tokens in an answer, likewise")
      ->capture_default_str();
  command
      .add_option("--num-prompts", o.num_prompts,
                  "prompts in the job; default: one block, "
                  "at least 64")
      ->check(CLI::PositiveNumber);
}

void add_common_flags(CLI::App& command) {
  command.add_option("--log-level", "debug, info, warning, error or off")->default_str("info");
  command.add_option("--config", "JSON file with flags' names; the command line wins")
      ->check(CLI::ExistingFile);
}

void read_environment_and_config(CLI::App& command) {
  const auto named = [](const CLI::Option& o) { return !o.get_lnames().empty(); };
  std::vector<CLI::Option*> open;
  for (CLI::Option* option : command.get_options())
    if (named(*option) && option->count() == 0 && !option->check_name("--help"))
      open.push_back(option);

  for (CLI::Option*& option : open) {
    const std::string variable = variable_of(*option);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    const bool several = option->get_items_expected_max() > 1;
    give(*option, several ? split(value) : std::vector<std::string>{value}, variable);
    option = nullptr;
  }
  const CLI::Option* config = command.get_option("--config");
  if (config->count() > 0) {
    const auto path = config->as<std::string>();
    const Json json = read_config(path);
    for (const auto& [key, value] : json.items()) {
      CLI::Option* known = command.get_option_no_throw("--" + key);
      if (known == nullptr || key == "config" || key == "help")
        throw ConfigError(concat("--config: ", path, ": \"", key, "\" is no flag of `barge ",
                                 command.get_name(), "`"));
      const std::string source = concat("--config: ", path, ": \"", key, "\"");
      if (std::find(open.begin(), open.end(), known) != open.end())
        give(*known, words_of(value, source), source);
    }
  }
  const CLI::Option* level = command.get_option("--log-level");
  if (level->count() > 0) log::set_level(log::parse_level(level->as<std::string>()));
}

}  // namespace barge
