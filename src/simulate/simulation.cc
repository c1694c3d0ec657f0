#include "simulate/simulation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/errors.h"

namespace barge {
namespace {

std::vector<PackTensor> tensors_of(const Family& family,
                                   const std::function<WeightFormat(const TensorSpec&)>& format) {
  std::vector<PackTensor> tensors;
  std::set<std::string> known;  // a tied output layer names the table again
  for (const Part& part : family.parts())
    for (const TensorSpec& tensor : part.tensors)
      if (known.insert(tensor.name).second)
        tensors.push_back({.name = tensor.name,
                           .kind = tensor.kind,
                           .rows = tensor.rows,
                           .cols = tensor.cols,
                           .format = format(tensor),
                           .panels = {}});
  return tensors;
}

SimDevice::Options device_options(const Profile& profile, Trace* trace) {
  return {.name = concat("simulated ", profile.machine),
          .unified = profile.unified,
          .link_down = profile.link_down,
          .link_up = profile.link_up,
          .copy = profile.host_copy,
          .trace = trace};
}

// The host's processor, as far as attention wants it.
Profile processor_of(const Profile& machine) {
  Profile processor = machine;
  processor.unified = true;
  if (machine.host_attention.empty()) return processor;
  processor.decode_attention = machine.host_attention;
  // KV is encoded about as fast as it is decoded, a byte or so a number.
  processor.elementwise = machine.host_attention.begin()->second.bytes;
  return processor;
}

Engine::Options simulated(Engine::Options options, const Profile& profile, Backend& attention,
                          const std::filesystem::path& directory, Trace* trace) {
  if (attends_on_host(options.policy, profile.unified) && profile.host_attention.empty())
    throw ConfigError(concat("a simulation of ", profile.machine,
                             " can't have the CPU attend: its profile doesn't say how fast that is "
                             "(\"host_attention\"); --cpu-attention off"));
  options.attention = &attention;
  options.disk_directory = directory;
  options.trace = trace;
  return options;
}

}  // namespace

Simulation::Simulation(const Profile& profile, const Family& family, const Options& options)
    : profile_(profile),
      processor_(processor_of(profile)),
      cost_(profile),
      vocab_(family.config().vocab),
      trace_(options.trace ? std::optional<Trace>(std::in_place, time_) : std::nullopt),
      budgets_(options.limits.device, options.limits.host, options.limits.disk),
      pack_(Pack::imagined(tensors_of(family, options.format_of), options.directory)),
      backend_(make_sim_backend(time_, profile, device_options(profile, trace()),
                                options.engine.compute, options.workspace, budgets_)),
      attention_(make_sim_backend(time_, processor_, device_options(processor_, nullptr),
                                  DType::kF32, {.device = options.attention_workspace}, budgets_)),
      disk_(time_, profile, pack_.file(0).descriptor(), trace()),
      waiting_([this] { time_.step(); }),
      engine_options_(simulated(options.engine, profile, *attention_, options.directory, trace())),
      stores_(pack_, family, *backend_, disk_, budgets_, engine_options_, {}),
      scheduler_(stores_, backend_->device(), budgets_, engine_options_, vocab_) {}

void Simulation::add(GenerationRequest request) {
  auto sequence = std::make_unique<Sequence>();
  request.ignore_eos = true;
  // On a unified machine the host draws, and its time counts.
  if (profile_.unified)
    request.on_logits = [this](const float*, int) { time_.spend(Seconds(cost_.draw(vocab_))); };
  request.on_done = [this](FinishReason reason, const std::string& error) {
    if (reason != FinishReason::kLength && failure_.empty()) failure_ = error;
  };
  sequence->request = std::move(request);
  sequence->id = ++last_id_;
  scheduler_.add(std::move(sequence));
}

void Simulation::run(std::vector<GenerationRequest> requests, std::size_t lookahead,
                     const std::function<void(std::size_t)>& progress) {
  auto next = requests.begin();
  while (next != requests.end() || !scheduler_.idle()) {
    while (next != requests.end() && scheduler_.waiting() < lookahead) add(std::move(*next++));
    scheduler_.step();
    scheduler_.tell_ends();
    if (progress) progress(scheduler_.counts().generated_tokens);
  }
  if (!failure_.empty()) throw Error(failure_);
}

EngineStats Simulation::stats() {
  EngineStats stats = counted(scheduler_, stores_);
  add_measured(stats, stores_, backend_->device(), disk_);
  return stats;
}

}  // namespace barge
