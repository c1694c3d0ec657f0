#include "tests/support/test_model.h"
#include "offload/disk_queue.h"

#include <cstdlib>
#include <future>
#include <string_view>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"
#include "engine/logits_hash.h"
#include "kernels/cuda_plugin.h"
#include "model/checkpoint.h"
#include "model/dummy_checkpoint.h"
#include "pack/convert.h"

namespace barge {
namespace {

constexpr std::size_t kBudget = std::size_t{1} << 30;

}  // namespace

ModelConfig tiny_llama_config() {
  ModelConfig config;
  config.name = "tiny";
  config.family = "llama";
  config.hidden = 48;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 12;
  config.ffn = 88;
  config.vocab = 300;
  config.context = 128;
  return config;
}

ModelConfig tiny_grouped_config() {
  ModelConfig config = tiny_llama_config();
  config.hidden = 64;
  config.head_dim = 16;
  config.ffn = 192;
  return config;
}

TestModel::TestModel(const std::string& model, int weight_bits)
    : TestModel(*open_checkpoint(model), weight_bits) {}

TestModel::TestModel(const ModelConfig& config, int weight_bits)
    : TestModel(*make_dummy_checkpoint(config), weight_bits) {}

TestModel::TestModel(const Checkpoint& checkpoint, int weight_bits)
    : weight_bits_(weight_bits),
      directory_(temporary_.path() / "pack"),
      description_{.config = checkpoint.config(), .tokenizer = checkpoint.tokenizer()},
      family_(make_family(checkpoint.config())) {
  convert(checkpoint, {.weight_bits = weight_bits, .threads = 1}, directory_);
  pack_ = std::make_unique<Pack>(directory_);
}

Policy tiny_policy() {
  Policy policy;
  policy.gpu_batch_size = 3;
  policy.num_gpu_batches = 2;
  policy.kv_bits = 32;
  policy.page_positions = 8;
  policy.sweep_tokens = 40;
  policy.max_positions = 128;
  return policy;
}

namespace {

// Large enough for the workspace of CUDA's kernels, and quickly filled.
constexpr std::size_t kCudaMemory = 256_MiB;

std::unique_ptr<Backend> make_backend(const TestSetup& setup, Budgets& budgets) {
  if (tests_on_cuda()) return load_cuda_plugin().make_backend(budgets);
  const CpuDevice::Options options{.threads = setup.threads, .emulate_link = setup.emulate_link};
  return setup.reference_kernels ? make_reference_backend(options, budgets)
                                 : make_cpu_backend(options, budgets);
}

std::unique_ptr<Backend> make_attention(const TestSetup& setup, Budgets& budgets) {
  if (!setup.policy.cpu_attention || setup.attention != nullptr) return nullptr;
  return setup.reference_kernels ? make_reference_backend({.threads = setup.threads}, budgets)
                                 : make_cpu_backend({.threads = setup.threads}, budgets);
}

DiskQueue make_disk(const TestSetup& setup) {
  const DiskQueue::Options options{.io = setup.io};
  if (!setup.change_disk) return DiskQueue(options);
  const bool uring = DiskQueue(options).backend() == "io_uring";
  return DiskQueue(options, setup.change_disk(uring ? make_uring_backend(options.depth)
                                                    : make_pread_backend(options.depth)));
}

}  // namespace

bool tests_on_cuda() {
  const char* const device = std::getenv("BARGE_TEST_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda";
}

TestEngine::TestEngine(const TestModel& model, const TestSetup& setup)
    : budgets(tests_on_cuda() ? kCudaMemory : kBudget, kBudget, kBudget),
      backend(make_backend(setup, budgets)),
      attention(make_attention(setup, budgets)),
      disk(make_disk(setup)) {
  Policy policy = setup.policy;
  policy.weight_bits = model.weight_bits();
  engine.emplace(model.pack(), model.family(), setup.device ? *setup.device : *backend, disk,
                 budgets,
                 Engine::Options{.policy = policy,
                                 .compute = setup.compute,
                                 .activation_bits = setup.activation_bits,
                                 .disk_directory = setup.disk_directory.empty()
                                                       ? model.directory().parent_path()
                                                       : setup.disk_directory,
                                 .eos = setup.eos,
                                 .hash_logits = setup.hash_logits,
                                 .reserved_sequences = setup.reserved_sequences,
                                 .attention = attention ? attention.get() : setup.attention});
}

std::vector<TokenId> TestAnswer::ids() const {
  std::vector<TokenId> ids;
  for (const SampledToken& token : tokens) ids.push_back(token.id);
  return ids;
}

std::uint64_t TestAnswer::hash() const {
  std::uint64_t hash = 0;
  for (const auto* list : {&prompt, &tokens})
    for (const SampledToken& token : *list) hash = combine_hash(hash, token.logits_hash);
  return hash;
}

std::vector<TestAnswer> run_all(Engine& engine, std::vector<GenerationRequest> requests,
                                bool keep_logits) {
  std::vector<TestAnswer> answers(requests.size());
  std::vector<std::promise<void>> ends(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    TestAnswer& answer = answers[i];
    requests[i].on_token = [&answer](const SampledToken& token) {
      answer.tokens.push_back(token);
      return true;
    };
    requests[i].on_prompt = [&answer](std::vector<SampledToken> tokens) {
      answer.prompt = std::move(tokens);
    };
    if (keep_logits)
      requests[i].on_logits = [&answer](const float* logits, int vocab) {
        answer.logits.emplace_back(logits, logits + vocab);
      };
    requests[i].on_done = [&answer, &end = ends[i]](FinishReason reason, std::string error) {
      answer.reason = reason;
      answer.error = std::move(error);
      end.set_value();
    };
    try {
      engine.submit(std::move(requests[i]));
    } catch (const RequestError& refused) {  // the others refer to what is ours: go on
      answer.error = refused.what();
      ends[i].set_value();
    }
  }
  for (std::promise<void>& end : ends) end.get_future().wait();
  return answers;
}

}  // namespace barge
