#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/errors.h"
#include "core/log.h"

namespace barge {
namespace {

using Json = nlohmann::json;

// What --help says behind an option that must be given. CLI11, told so, would look for it on the
// command line only.
constexpr const char* kRequired = " REQUIRED";

// By which environment and file know an option: its long names, or a positional's in small letters.
std::vector<std::string> names_of(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return option.get_lnames();
  std::string name = option.get_name(/*positional=*/true);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return {name};
}

std::string variable_of(const std::string& name) {
  std::string variable = "BARGE_";
  for (const char c : name)
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

bool takes_several(const CLI::Option& option) { return option.get_items_expected_max() > 1; }
bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

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

// The value that `option` has in the file, in words as on the command line.
std::vector<std::string> words_of(const CLI::Option& option, const Json& value,
                                  const std::string& source) {
  const auto is_word = [](const Json& item) { return item.is_string() || item.is_number(); };
  const auto word_of = [](const Json& item) {
    return item.is_string() ? item.get<std::string>() : item.dump();
  };
  if (is_flag(option)) {
    if (!value.is_boolean())
      throw ConfigError(concat(source, " wants true or false, got ", value.type_name()));
    return {value.dump()};
  }
  if (!takes_several(option)) {
    if (!is_word(value))
      throw ConfigError(concat(source, " wants a string or a number, got ", value.type_name()));
    return {word_of(value)};
  }
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_word))
    throw ConfigError(concat(source, " wants a list of strings or numbers, got ",
                             value.is_array() ? "one of other things" : value.type_name()));
  std::vector<std::string> words;
  std::transform(value.begin(), value.end(), std::back_inserter(words), word_of);
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
  command.option_defaults()->group("Model");
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
  command.option_defaults()->group("Compute");
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
  command.option_defaults()->group("Model");
  command
      .add_option("MODEL", o.model,
                  "a Hugging Face directory, a .gguf file, a pack, or dummy:NAME[@LAYERS]")
      ->required();
  add_format_flags(command, o);
  command.add_option("--served-model-name", o.served_model_name, "the model's name for clients")
      ->type_name("NAME");
  command
      .add_option("--max-model-len", o.max_model_len,
                  "longest prompt and answer together, in tokens; default: the model's own")
      ->check(CLI::NonNegativeNumber);
  add_compute_flags(command, o);
  command.option_defaults()->group("Model");
  command
      .add_option("--kv-bits,--kv-cache-dtype", o.kv_bits,
                  "bits of a KV cache number; default: 16; auto: 4 or 16, likewise")
      ->check(CLI::IsMember({"auto", "4", "16", "32"}));
  command.add_option("--chat-template", o.chat_template, "a Jinja file instead of the model's own")
      ->check(CLI::ExistingFile);
  command.add_option("--seed", o.seed, "of requests that have none")->capture_default_str();
}

void add_machine_flags(CLI::App& command, Options& o) {
  command.option_defaults()->group("Machine");
  command.add_option("--device", o.device, "where to compute; auto: a GPU if one can be used")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->capture_default_str();
  command.add_option("--gpu-memory", o.gpu_memory, "14GiB, 512MiB or 80%: of the device")
      ->type_name("SIZE");
  command.add_option("--cpu-memory", o.cpu_memory, "likewise, of the host; default 80%")
      ->type_name("SIZE");
  command
      .add_option("--disk-space", o.disk_space,
                  "likewise, for the pack and the KV cache; default: what is free")
      ->type_name("SIZE");
  command.add_option("--disk-dir", o.disk_dir, "where KV pages go; default: the cache directory")
      ->type_name("DIR");
  command
      .add_option("--cache-dir", o.cache_dir,
                  "packs and profiles; default: $XDG_CACHE_HOME/barge or ~/.cache/barge")
      ->type_name("DIR");
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
  command.option_defaults()->group("Policy");
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
  command.option_defaults()->group("Workload");
  command
      .add_option("--prompt-len", o.prompt_len,
                  "tokens in a prompt: a number, or lognormal:MEDIAN,SIGMA,MAX, the same each time")
      ->type_name("LENGTH")
      ->capture_default_str();
  command.add_option("--gen-len", o.gen_len, "tokens in an answer, likewise")
      ->type_name("LENGTH")
      ->capture_default_str();
  command
      .add_option("--num-prompts", o.num_prompts,
                  "prompts in the job; default: one block, "
                  "at least 64")
      ->check(CLI::PositiveNumber);
}

void add_common_flags(CLI::App& command) {
  command.option_defaults()->group("General");
  command.add_option("--log-level", "debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->default_str("info");
  command.add_option("--config", "JSON file with flags' names; the command line wins")
      ->type_name("TEXT")
      ->check(CLI::ExistingFile);
  for (CLI::Option* option : command.get_options())
    if (option->get_required())
      option->required(false)->option_text(option->get_type_name() + kRequired);
}

bool is_required(const CLI::Option& option) {
  return option.get_option_text().ends_with(kRequired);
}

void read_environment_and_config(CLI::App& command) {
  std::map<std::string, CLI::Option*> options;  // by each of their names
  std::set<CLI::Option*> open;                  // about which the command line says nothing
  for (CLI::Option* option : command.get_options()) {
    if (option == command.get_help_ptr()) continue;
    for (const std::string& name : names_of(*option)) options[name] = option;
    if (option->count() == 0) open.insert(option);
  }

  for (const auto& [name, option] : options) {
    const std::string variable = variable_of(name);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0' || !open.contains(option)) continue;
    give(*option, takes_several(*option) ? split(value) : std::vector<std::string>{value},
         variable);
    open.erase(option);
  }
  const CLI::Option* config = command.get_option("--config");
  if (config->count() > 0) {
    const auto path = config->as<std::string>();
    const Json json = read_config(path);
    for (const auto& [key, value] : json.items()) {
      const std::string source = concat("--config: ", path, ": \"", key, "\"");
      const auto known = options.find(key);
      if (known == options.end() || known->second == config)
        throw ConfigError(concat(source, " is no flag of `barge ", command.get_name(), "`"));
      const std::vector<std::string> words = words_of(*known->second, value, source);
      if (open.contains(known->second)) give(*known->second, words, source);
    }
  }
  for (const CLI::Option* option : command.get_options())
    if (is_required(*option) && option->count() == 0) throw CLI::RequiredError(option->get_name());
  const CLI::Option* level = command.get_option("--log-level");
  if (level->count() > 0) log::set_level(log::parse_level(level->as<std::string>()));
}

}  // namespace barge
