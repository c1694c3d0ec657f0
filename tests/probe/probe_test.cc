#include "probe/probe.h"

#include <gmock/gmock.h>

#include "core/bytes.h"
#include "core/memory_budget.h"
#include "offload/disk_queue.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using test::TempDirectory;

TEST(Probe, MeasuresTheProcessorThatWouldAttendBesideTheDevice) {
  const TempDirectory directory;
  Budgets budgets(512_MiB, 512_MiB, 1_GiB);
  const auto device = make_cpu_backend({.threads = 1, .emulate_link = 8e9}, budgets);
  const auto processor = make_cpu_backend({.threads = 1}, budgets);
  DiskQueue disk({});
  ProbeOptions options{directory.path(), 512_MiB, /*seconds=*/0.1, DType::kF32};
  EXPECT_TRUE(probe(*device, disk, options).host_attention.empty());
  options.attention = processor.get();
  const Profile profile = probe(*device, disk, options);
  for (const int bits : {4, 16}) {
    EXPECT_GT(profile.host_attention.at(bits).bytes, 1e7) << bits;
    EXPECT_GT(profile.host_attention.at(bits).ops, 1e8) << bits;
  }
  EXPECT_EQ(budgets.device.used(), 0u);
}

}  // namespace
}  // namespace barge
