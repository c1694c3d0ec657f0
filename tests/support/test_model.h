#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cpu_device.h"
#include "core/memory_budget.h"
#include "engine/engine.h"
#include "model/config.h"
#include "model/description.h"
#include "model/family.h"
#include "offload/disk_backend.h"
#include "offload/disk_queue.h"
#include "offload/pack.h"
#include "policy/policy.h"
#include "tests/support/temp_directory.h"

namespace barge {

class Checkpoint;

/// A Llama of two layers with grouped queries and odd sizes, 300 tokens: what most tests run.
ModelConfig tiny_llama_config();
/// One whose inputs are whole groups of quantised weights, so that 8 bits are enough for them.
ModelConfig tiny_grouped_config();

/// A small model as a pack in a directory of its own. `weight_bits` as convert() takes them: 32
/// keeps every checkpoint's numbers.
class TestModel {
 public:
  /// MODEL as on the command line: a Hugging Face directory, a .gguf, dummy:NAME@LAYERS.
  explicit TestModel(const std::string& model, int weight_bits = 32);
  /// Random weights of this shape.
  explicit TestModel(const ModelConfig& config, int weight_bits = 32);

  const std::filesystem::path& directory() const { return directory_; }  // of the pack
  const Pack& pack() const { return *pack_; }
  const Family& family() const { return *family_; }
  const ModelDescription& description() const { return description_; }
  int weight_bits() const { return weight_bits_; }

 private:
  TestModel(const Checkpoint& checkpoint, int weight_bits);

  const int weight_bits_;
  test::TempDirectory temporary_;
  std::filesystem::path directory_;
  ModelDescription description_;
  std::unique_ptr<Pack> pack_;
  std::unique_ptr<Family> family_;
};

/// A policy that tiny models run under: two micro-batches of three sequences, all in host memory.
Policy tiny_policy();

/// ThreadSanitizer can't look into oneDNN: there the reference computes.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kReferenceKernels = true;
#else
inline constexpr bool kReferenceKernels = false;
#endif

/// Whether engines of tests compute on CUDA (BARGE_TEST_DEVICE=cuda): on a GPU, or on the emulation
/// that BARGE_CUDA_PLUGIN names.
bool tests_on_cuda();

/// What an engine is built on in a test.
struct TestSetup {
  Policy policy = tiny_policy();  // but for weight_bits, which are the model's
  DType compute = DType::kF32;
  int activation_bits = 16;
  double emulate_link = 0;  // bytes per second; not on CUDA
  DiskQueue::Io io = DiskQueue::Io::kAuto;
  /// What takes the place of the disk, such as one with faults before it.
  std::function<std::unique_ptr<DiskBackend>(std::unique_ptr<DiskBackend>)> change_disk = {};
  int threads = 1;
  bool reference_kernels = kReferenceKernels;  // not on CUDA
  Backend* device = nullptr;                   // somebody's own; null: as the above say
  Backend* attention = nullptr;  // of the policy's CPU attention; null: the same kernels
  std::vector<TokenId> eos = {};
  std::filesystem::path disk_directory = {};  // empty: beside the pack
  bool hash_logits = true;                    // and so draw on the host
  int reserved_sequences = 0;

  bool unified() const { return emulate_link == 0 && !tests_on_cuda(); }
};

/// An engine with everything below it. `model` must outlive it.
class TestEngine {
 public:
  TestEngine(const TestModel& model, const TestSetup& setup = {});

  Budgets budgets;
  std::unique_ptr<Backend> backend, attention;
  DiskQueue disk;
  std::optional<Engine> engine;  // so that a test can end it and ask the others
};

/// What came of a request.
struct TestAnswer {
  std::vector<SampledToken> tokens, prompt;
  std::vector<std::vector<float>> logits;  // of each generated position, if kept
  FinishReason reason = FinishReason::kError;
  std::string error;

  std::vector<TokenId> ids() const;
  std::uint64_t hash() const;  // over all positions' logits, the prompt's wanted ones first
};

/// Gives all requests to the engine at once and waits for their ends. The requests' callbacks are
/// replaced. What the engine refuses is an answer with an error.
std::vector<TestAnswer> run_all(Engine& engine, std::vector<GenerationRequest> requests,
                                bool keep_logits = false);

}  // namespace barge
