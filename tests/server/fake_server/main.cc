// barge's server with a generator that has no model, for tests with real clients.
//   fake_server DATA_DIR [PORT [SWEEP_MS]]     prints "listening on PORT", ends with SIGTERM
// SWEEP_MS: how long five answers take (0).

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "server/server.h"
#include "tests/support/fake_generator.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: fake_server DATA_DIR [PORT [SWEEP_MS]]\n");
    return 2;
  }
  try {
    barge::test::FakeGenerator generator({.per_sweep = 5});
    const std::chrono::microseconds work(argc > 3 ? std::atoi(argv[3]) * 1000 / 5 : 0);
    generator.before_done = [work] { std::this_thread::sleep_for(work); };
    barge::Server server({.port = static_cast<std::uint16_t>(argc > 2 ? std::atoi(argv[2]) : 0),
                          .data_dir = argv[1],
                          .served_model_name = "fake/model"});
    server.serve(
        {.generator = &generator, .identity = {{"model", "fake"}}, .lookahead = {.most = 16}});
    std::printf("listening on %u\n", static_cast<unsigned>(server.port()));
    std::fflush(stdout);
    server.wait();
    server.stop();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fake_server: %s\n", error.what());
    return 1;
  }
  return 0;
}
