#include "cli/session.h"

#include <malloc.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/bits.h"
#include "cli/text_files.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/log.h"
#include "core/progress.h"
#include "pack/cache.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

Options with_bits(const Options& o, Machine& machine, const Workload& job) {
  if (o.weight_bits != "auto" && o.kv_bits != "auto") return o;
  const ChosenBits bits = choose_bits(o, this_machine(machine), job);
  if (!bits.tried.empty()) log::info(describe_bits(bits));
  return bits.options;
}

}  // namespace

std::string default_served_name(const std::string& model) {
  const fs::path path = model.ends_with('/') ? fs::path(model).parent_path() : fs::path(model);
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

Session::Session(const Options& given, const Workload& job)
    : machine(given), options(with_bits(given, machine, job)), pack([&, &o = options] {
        Progress progress("packing " + o.model,
                          [](double n) { return format_bytes(static_cast<std::size_t>(n)); });
        return find_or_convert(o.model, convert_options(o), machine.cache_directory / "packs",
                               [&](std::size_t done, std::size_t total) {
                                 progress.update(static_cast<double>(done),
                                                 static_cast<double>(total));
                               });
      }()) {
  const Options& o = options;
  ModelDescription description =
      description_from_json(pack.model(), (pack.directory() / "pack.json").string());
  config = description.config;
  served_name = !o.served_model_name.empty() ? o.served_model_name : default_served_name(o.model);
  family = make_family(config);
  tokenizer.emplace(std::move(description.tokenizer));
  tokenizer_memory = machine.budgets.host.reserve(tokenizer->bytes(), "tokenizer");
  const std::string chat_source =
      o.chat_template.empty() ? tokenizer->chat_template() : read_text(o.chat_template);
  if (!chat_source.empty()) chat.emplace(chat_source);

  const auto format_of = [this](const TensorSpec& tensor) {
    return pack.tensors()[static_cast<std::size_t>(pack.find(tensor.name))].format;
  };
  PlannedModel model = planned_model(o, config, format_of);
  model.tokenizer_bytes = 0;  // it has its reservation already
  PlanTarget target = this_machine(machine);
  target.limits.host -= machine.budgets.host.used();
  plan = make_plan(o, model, target, job);
  profile = target.profile;
  watch.emplace(profile, shape_for(o, model, target)(plan.policy), plan.policy,
                [this] { return engine->stats(); });
  log::info(concat(describe_plan(plan, machine.limits(), machine.device().unified()),
                   "\n  products: ", name_of(machine.compute),
                   activation_bits() == 8 ? ", by 4- and 8-bit weights of inputs in 8 bits" : ""));
}

void Session::unload() {
  text.reset();
  engine.reset();
}

void Session::load(const Options& o, bool hash_logits) {
  malloc_trim(0);  // the vocabulary's JSON tree was large, and memory is promised
  Engine::Options options;
  options.policy = plan.policy;
  options.compute = machine.compute;
  options.activation_bits = activation_bits();
  options.kv_group = kv_group(o);
  options.disk_directory = machine.disk_directory;
  options.eos.assign(tokenizer->eos().begin(), tokenizer->eos().end());
  options.hash_logits = hash_logits;
  options.attention_threads = o.threads;
  options.reserved_sequences = reserved_sequences;
  options.on_sweep = [this](const SweepRecord& sweep) {
    watch->add(sweep);
    if (on_sweep) on_sweep(sweep);
  };
  options.trace = machine.trace.get();
  options.on_failure = [this](const std::exception& e) {
    if (dynamic_cast<const DeviceError*>(&e) == nullptr) return;
    // Nothing of the GPU works any more, destructors included. Finished answers are on disk, and
    // the next start goes on with the others.
    log::error(concat(e.what(), "; the policy was ", policy_to_json(plan.policy)));
    std::_Exit(1);
  };
  Progress progress("loading", [](double n) { return format_bytes(static_cast<std::size_t>(n)); });
  engine = std::make_unique<Engine>(pack, *family, *machine.backend, machine.disk, machine.budgets,
                                    options, [&](std::size_t done, std::size_t total) {
                                      progress.update(static_cast<double>(done),
                                                      static_cast<double>(total));
                                    });
  text = std::make_unique<TextEngine>(*engine, *tokenizer, chat ? &*chat : nullptr);
}

}  // namespace barge
