// barge's server with a generator that has no model, for tests with real clients.
//   fake_server DATA_DIR [PORT]      prints "listening on PORT", ends with SIGTERM

#include <cstdio>
#include <cstdlib>

#include "server/server.h"
#include "tests/support/fake_generator.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: fake_server DATA_DIR [PORT]\n");
    return 2;
  }
  try {
    barge::test::FakeGenerator generator({.per_sweep = 5});
    barge::Server server({.port = static_cast<std::uint16_t>(argc > 2 ? std::atoi(argv[2]) : 0),
                          .data_dir = argv[1],
                          .served_model_name = "fake/model"});
    server.serve({.generator = &generator, .identity = {{"model", "fake"}}, .window = 16});
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
