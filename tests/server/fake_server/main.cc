// barge's server with a generator that has no model, for tests with real clients.
//   fake_server DATA_DIR [PORT [SWEEP_MS [KEY]]]     prints "listening on PORT", ends with SIGTERM
// SWEEP_MS: how long five answers take (0). KEY: that clients must send (none). From the
// environment:
//   FAKE_SERVER_ASKED=FILE          gets a line for each prompt that the generator is asked for
//   FAKE_SERVER_HOUSEKEEPING_MS     how often files and batches are looked after
//   FAKE_SERVER_SHUTDOWN_S          --shutdown-timeout

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "server/server.h"
#include "server/shutdown_limit.h"
#include "tests/support/fake_generator.h"

namespace barge {
namespace {

constexpr int kPerSweep = 5, kAnswerTokens = 32;

// What an engine would count that reads a model of 300 MB from disk in each sweep, computes in six
// tenths of its time and is a tenth slower than planned.
EngineNumbers numbers_of(int answers, double sweep_seconds) {
  EngineNumbers numbers{.kv_capacity_bytes = {.host = 200'000'000, .disk = 500'000'000},
                        .capacity_bytes = {.host = 1'000'000'000, .disk = 8'000'000'000},
                        .used_bytes = {.host = 700'000'000, .disk = 1'200'000'000}};
  EngineStats& stats = numbers.stats;
  stats.sweeps = static_cast<std::size_t>(answers / kPerSweep);
  stats.generated_tokens = static_cast<std::size_t>(answers * kAnswerTokens);
  stats.prompt_tokens = stats.generated_tokens * 3;
  stats.weight_bytes = {.host = 400'000'000, .disk = 300'000'000};
  stats.kv_bytes = {.host = 100'000'000, .disk = 250'000'000};
  stats.disk.read_bytes = stats.sweeps * 300'000'000;
  const double seconds = sweep_seconds * static_cast<double>(stats.sweeps);
  stats.disk.read_seconds = 0.5 * seconds;
  stats.compute_seconds = 0.6 * seconds;
  stats.compute_waits = {{"weights", 0.25 * seconds}, {"KV", 0.1 * seconds}};
  numbers.sweep_seconds = seconds;
  numbers.predicted_sweep_seconds = seconds / 1.1;
  return numbers;
}

const char* from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

// One write each: none is lost with the process.
void log_prompts(test::FakeGenerator& generator, const char* path) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  generator.on_submit = [fd](const std::string& prompt) {
    const std::string line = prompt + '\n';
    if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  };
}

}  // namespace
}  // namespace barge

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: fake_server DATA_DIR [PORT [SWEEP_MS [KEY]]]\n");
    return 2;
  }
  try {
    barge::test::FakeGenerator generator({.per_sweep = barge::kPerSweep});
    const int sweep_ms = argc > 3 ? std::atoi(argv[3]) : 0;
    const std::chrono::microseconds work(sweep_ms * 1000 / barge::kPerSweep);
    std::atomic<int> answers{0};
    generator.before_done = [&] {
      std::this_thread::sleep_for(work);
      ++answers;
    };
    barge::ServerOptions options{
        .port = static_cast<std::uint16_t>(argc > 2 ? std::atoi(argv[2]) : 0),
        .data_dir = argv[1],
        .served_model_name = "fake/model"};
    options.housekeeping_every = std::chrono::milliseconds(
        std::atoi(barge::from_environment("FAKE_SERVER_HOUSEKEEPING_MS", "1000")));
    if (argc > 4) options.api_keys = {argv[4]};
    if (const char* asked = std::getenv("FAKE_SERVER_ASKED")) barge::log_prompts(generator, asked);
    barge::Server server(options);
    server.serve({.generator = &generator,
                  .identity = {{"model", "fake"}},
                  .lookahead = {.most = 16},
                  .numbers = [&] { return barge::numbers_of(answers, sweep_ms / 1000.); }});
    std::printf("listening on %u\n", static_cast<unsigned>(server.port()));
    std::fflush(stdout);
    server.wait();
    barge::limit_shutdown(
        std::chrono::seconds(std::atoi(barge::from_environment("FAKE_SERVER_SHUTDOWN_S", "30"))));
    server.stop();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fake_server: %s\n", error.what());
    return 1;
  }
  return 0;
}
