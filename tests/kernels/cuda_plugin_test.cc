#include "kernels/cuda_plugin.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "core/errors.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CudaPluginTest : public testing::Test {
 protected:
  ~CudaPluginTest() override { unsetenv("BARGE_CUDA_PLUGIN"); }
  static void choose(const std::string& path) { setenv("BARGE_CUDA_PLUGIN", path.c_str(), 1); }
};

TEST_F(CudaPluginTest, SaysWhereItLookedWhenThereIsNone) {
  unsetenv("BARGE_CUDA_PLUGIN");
  const std::string beside =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libbarge_cuda.so";
  if (std::filesystem::exists(beside)) GTEST_SKIP() << beside << " has been built";
  EXPECT_THAT([] { load_cuda_plugin(); }, ThrowsMessage<ConfigError>(AllOf(
                                              HasSubstr(beside), HasSubstr("/lib/libbarge_cuda.so"),
                                              HasSubstr("BARGE_CUDA_PLUGIN"))));
}

TEST_F(CudaPluginTest, RepeatsWhatTheLoaderSaysOfAFileThatIsNoLibrary) {
  const test::TempDirectory directory;
  const std::string path = directory.path() / "text.so";
  std::ofstream(path) << "not a library";
  choose(path);
  EXPECT_THAT([] { load_cuda_plugin(); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr(path), HasSubstr("file too short"))));
  choose(directory.path() / "absent.so");
  EXPECT_THAT([] { load_cuda_plugin(); },
              ThrowsMessage<ConfigError>(HasSubstr("cannot open shared object file")));
}

TEST_F(CudaPluginTest, RefusesAnotherLibrary) {
  choose("libm.so.6");
  EXPECT_THAT([] { load_cuda_plugin(); },
              ThrowsMessage<ConfigError>(HasSubstr("has no barge_cuda_plugin")));
}

}  // namespace
}  // namespace barge
