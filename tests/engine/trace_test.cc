// What `barge bench --trace` is made of: a backend and a disk queue that tell what they do.
#include "core/trace.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/traced_backend.h"
#include "offload/disk_queue.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

std::vector<GenerationRequest> job() {
  std::vector<GenerationRequest> requests(3);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (std::size_t t = 0; t < 9 + i; ++t)
      requests[i].prompt.push_back(static_cast<TokenId>(7 * i + t));
    requests[i].max_tokens = 4;
    requests[i].ignore_eos = true;
  }
  return requests;
}

TEST(TracedEngine, ShowsEveryLaneAndChangesNoBit) {
  const TestModel model(tiny_llama_config(), 4);
  TestSetup setup;
  setup.policy.weights = setup.policy.kv = {.device = 0.2, .host = 0.3, .disk = 0.5};
  setup.policy.page_positions = 4;
  setup.emulate_link = 1e9;
  TestEngine plain(model, setup);
  const auto expected = run_all(*plain.engine, job());

  const SteadyClock clock;
  Trace trace(clock);
  std::size_t sweeps = 0;
  {
    Budgets budgets(1 << 28, 1 << 28, 1 << 28);
    const auto make = setup.reference_kernels ? make_reference_backend : make_cpu_backend;
    const auto backend = make_traced_backend(
        make({.threads = 1, .emulate_link = setup.emulate_link}, budgets), trace);
    DiskQueue disk({.trace = &trace});
    Engine engine(model.pack(), model.family(), *backend, disk, budgets,
                  {.policy = setup.policy,
                   .compute = setup.compute,
                   .disk_directory = model.directory().parent_path(),
                   .hash_logits = true,
                   .trace = &trace});
    const auto answers = run_all(engine, job());
    for (std::size_t i = 0; i < answers.size(); ++i)
      EXPECT_EQ(answers[i].hash(), expected[i].hash()) << answers[i].error;
    sweeps = engine.stats().sweeps;
  }

  const auto file = model.directory().parent_path() / "trace.json";
  trace.write(file);
  std::map<int, std::string> lanes;
  std::map<std::string, std::size_t> spans;
  std::map<std::string, double> ends;  // of the lane's last span so far
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(file));
  for (const auto& event : json.at("traceEvents")) {
    if (event["name"] == "thread_name") lanes[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "M") continue;
    const std::string& lane = lanes.at(event["tid"]);
    ++spans[lane];
    EXPECT_GE(event["dur"], 0);
    EXPECT_GE(event["ts"], ends[lane]) << lane << ": " << event;  // spans of a lane don't overlap
    ends[lane] = event["ts"].get<double>() + event["dur"].get<double>() - 1e-3;
  }
  EXPECT_EQ(spans["sweep"], sweeps);
  for (const char* lane :
       {"engine", "compute", "load", "store", "disk read: weights", "disk read: KV", "disk write"})
    EXPECT_GT(spans[lane], 0u) << lane;
}

}  // namespace
}  // namespace barge
