#include "probe/probe.h"

#include <gmock/gmock.h>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/memory_budget.h"
#include "offload/disk_queue.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using test::TempDirectory;
using testing::HasSubstr;

TEST(Probe, MeasuresTheProcessorThatWouldAttendBesideTheDevice) {
  const TempDirectory directory;
  Budgets budgets(512_MiB, 512_MiB, 1_GiB);
  const auto device = make_cpu_backend({.threads = 1, .emulate_link = 8e9}, budgets);
  const auto processor = make_cpu_backend({.threads = 1}, budgets);
  DiskQueue disk({});
  ProbeOptions options{.disk_directory = directory.path(), .device_bytes = 512_MiB, .seconds = 0.1};
  EXPECT_TRUE(probe(*device, disk, options).host_attention.empty());
  options.attention = processor.get();
  const Profile profile = probe(*device, disk, options);
  for (const int bits : {4, 16}) {
    EXPECT_GT(profile.host_attention.at(bits).bytes, 1e7) << bits;
    EXPECT_GT(profile.host_attention.at(bits).ops, 1e8) << bits;
  }
  EXPECT_EQ(budgets.device.used(), 0u);
}

// What a profile is said to be of, with one thing changed.
TEST(MachineOfAProfile, ChangesWithEverythingThatSpeedHangsOn) {
  const TempDirectory directory, other;
  Budgets budgets(64_MiB, 64_MiB, 1_GiB);
  const auto one = make_cpu_backend({.threads = 1}, budgets);
  const auto two = make_cpu_backend({.threads = 2}, budgets);
  const ProbeOptions options{.disk_directory = directory.path(), .software = "oneDNN 1.2.3"};
  const std::string machine = machine_of(one->device(), options);
  EXPECT_EQ(machine_of(one->device(), options), machine);
  EXPECT_THAT(machine, HasSubstr("oneDNN 1.2.3"));
  EXPECT_THAT(machine, HasSubstr(concat("profile version ", Profile::kVersion)));
  EXPECT_THAT(machine, HasSubstr(", file system "));
  EXPECT_NE(machine_of(two->device(), options), machine);
  const auto expect_other = [&](const auto& change) {
    ProbeOptions changed = options;
    change(changed);
    EXPECT_NE(machine_of(one->device(), changed), machine);
  };
  expect_other([](ProbeOptions& o) { o.software = "oneDNN 1.2.4"; });
  expect_other([](ProbeOptions& o) { o.threads = 99; });
  expect_other([](ProbeOptions& o) { o.compute = DType::kBF16; });
  expect_other([&](ProbeOptions& o) { o.disk_directory = other.path(); });
  expect_other([&](ProbeOptions& o) { o.disk_directory = "/proc"; });
}

TEST(ProfileCache, HasNoProfileOfAMachineThatChangedAndSaysWhy) {
  const TempDirectory cache;
  EXPECT_EQ(why_stale(cache.path(), "a processor; oneDNN 1"), "");
  EXPECT_EQ(why_stale(cache / "none", "a processor; oneDNN 1"), "");
  Profile profile;
  profile.machine = "a processor; oneDNN 1; a directory";
  profile.host_bytes = profile.disk_bytes = profile.host_copy = 1;
  profile.disk_read = profile.disk_write = Curve({{1, 1}});
  profile.products[16] = Curve({{1, 1}});
  profile.decode_attention[16] = {1, 1};
  profile.prefill_attention = profile.elementwise = profile.draw = profile.call_seconds = 1;
  save_profile(cache.path(), profile);
  EXPECT_TRUE(load_profile(cache.path(), profile.machine));
  const std::string now = "a processor; oneDNN 2; a directory";
  EXPECT_FALSE(load_profile(cache.path(), now));
  EXPECT_EQ(why_stale(cache.path(), now), "the last profile is of oneDNN 1; this is oneDNN 2");
}

}  // namespace
}  // namespace barge
