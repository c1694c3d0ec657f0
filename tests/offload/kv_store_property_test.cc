// Random schedules against a plain model: whatever the homes, the link and the disk, a lease shows
// what was written last.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "offload/disk_queue.h"
#include "tests/offload/kv_harness.h"

namespace barge {
namespace {

struct Schedule {
  std::string name;
  KvHarness::Config config;
  int seed;
};

KvHarness::Config config(double link, DiskQueue::Io io, KvFormat format, int page_positions,
                         PerTier<double> share, std::optional<int> device_layers = {}) {
  return {link,
          io,
          {.format = format,
           .layers = 4,
           .page_positions = page_positions,
           .share = share,
           .device_layers = device_layers.value_or(0)},
          device_layers.has_value()};
}

Schedule late(std::string name, KvHarness::Config config, int seed) {
  config.late = static_cast<unsigned>(seed);
  return {std::move(name), std::move(config), seed};
}

std::vector<Schedule> schedules() {
  using Io = DiskQueue::Io;
  const KvFormat f16{Encoding::kF16, 2, 16};    // 128-byte records
  const KvFormat f32{Encoding::kF32, 4, 64};    // 2 KiB
  const KvFormat q4{Encoding::kQ4, 1, 80, 64};  // odd groups, pages with a gap at the end
  const double slow = 1.5e9;
  return {
      {"UnifiedHost", config(0, Io::kPread, f16, 8, {0, 1, 0}), 1},
      {"UnifiedDisk", config(0, Io::kUring, f16, 8, {0, 0, 1}), 2},
      {"UnifiedMixed", config(0, Io::kPread, f16, 5, {0.2, 0.3, 0.5}), 3},
      {"UnifiedMixedUring", config(0, Io::kUring, q4, 7, {0, 0.4, 0.6}), 4},
      {"UnifiedLargePages", config(0, Io::kUring, f32, 16, {0, 0.25, 0.75}), 5},
      {"UnifiedPagesOfOnePosition", config(0, Io::kPread, f16, 1, {0, 0.5, 0.5}), 6},
      {"LinkDevice", config(slow, Io::kPread, f16, 8, {1, 0, 0}), 7},
      {"LinkHost", config(slow, Io::kPread, f16, 8, {0, 1, 0}), 8},
      {"LinkDisk", config(slow, Io::kUring, f16, 8, {0, 0, 1}), 9},
      {"LinkMixed", config(slow, Io::kPread, f16, 5, {0.3, 0.3, 0.4}), 10},
      {"LinkMixedUring", config(slow, Io::kUring, q4, 7, {0.3, 0.3, 0.4}), 11},
      {"LinkLargePages", config(slow, Io::kPread, f32, 16, {0.25, 0.25, 0.5}), 12},
      {"LinkPagesOfOnePosition", config(slow, Io::kUring, f16, 1, {0.3, 0.3, 0.4}), 13},
      {"HostAttendsInMemory", config(slow, Io::kPread, f16, 8, {0, 1, 0}, 0), 14},
      {"HostAttendsOnDisk", config(slow, Io::kUring, f16, 5, {0, 0, 1}, 0), 15},
      {"HostAttendsInThreeLayers", config(slow, Io::kPread, q4, 7, {0.25, 0.35, 0.4}, 1), 16},
      {"HostAttendsPagesOfOnePosition", config(slow, Io::kPread, f16, 1, {0.5, 0.2, 0.3}, 2), 17},
      late("LateHost", config(slow, Io::kPread, f16, 8, {0, 1, 0}), 18),
      late("LateDisk", config(slow, Io::kPread, f16, 8, {0, 0, 1}), 19),
      late("LateMixed", config(slow, Io::kPread, f32, 7, {0.3, 0.3, 0.4}), 20),
      late("LateUnified", config(0, Io::kPread, f16, 5, {0, 0.4, 0.6}), 21),
      late("LateHostAttends", config(slow, Io::kPread, f32, 5, {0.2, 0.3, 0.5}, 0), 22),
  };
}

void PrintTo(const Schedule& schedule, std::ostream* out) { *out << schedule.name; }

class KvStoreProperty : public testing::TestWithParam<Schedule> {
 protected:
  static constexpr int kMaxPositions = 60, kLive = 7, kSweeps = 60;

  // Every --gtest_repeat tries other schedules.
  KvStoreProperty() {
    static std::map<int, unsigned> runs;
    const unsigned run = runs[GetParam().seed]++;
    random_.seed(static_cast<unsigned>(GetParam().seed) + 100 * run);
  }

  int below(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  KvHarness::Id any(const KvHarness& kv) {
    return std::next(kv.live.begin(), below(static_cast<int>(kv.live.size())))->first;
  }

  // What sequences may come to hold: in the cache by tier, and on disk while they are out.
  struct Promise {
    PerTier<std::size_t> in;
    std::size_t out = 0;

    void add(const KvHarness& kv, const KvStore::Placement& placement, int positions, bool is_out) {
      const auto bytes = kv.store->bytes(placement, positions);
      if (is_out) out += bytes.device + bytes.host + bytes.disk;
      for (Tier tier : kTiers)
        if (!is_out) in[tier] += bytes[tier];
    }
  };
  static Promise promise(const KvHarness& kv, const KvStore::Placement& placement, int positions,
                         bool out) {
    Promise one;
    one.add(kv, placement, positions, out);
    return one;
  }

  // Admission: whether all live sequences could run to their ends beside one more.
  static bool fits(const KvHarness& kv, Promise more) {
    for (const auto& [id, sequence] : kv.live)
      more.add(kv, sequence.placement, sequence.max_positions, sequence.out);
    return more.out <= kv.config.store.swap_bytes &&
           std::all_of(kTiers.begin(), kTiers.end(),
                       [&](Tier tier) { return more.in[tier] <= kv.store->capacity()[tier]; });
  }

  // Between sweeps: some leave, some enter, by themselves or as forks, some go out and come back.
  void shuffle(KvHarness& kv) {
    if (!kv.live.empty() && chance(0.3)) kv.remove(any(kv));
    if (const int most = 1 + below(kMaxPositions);
        kv.live.size() < kLive && chance(0.7) &&
        fits(kv, promise(kv, kv.store->place(most), most, false)))
      kv.add(most);
    if (!kv.live.empty() && kv.live.size() < kLive && chance(0.4)) {
      const auto of = any(kv);
      const auto& parent = kv.live.at(of);
      const int positions = below(parent.positions() + 1);
      const int most = std::min(kMaxPositions, positions + 1 + below(20));
      if (!parent.out && fits(kv, promise(kv, parent.placement, most, false)))
        kv.fork(of, positions, most);
    }
    for (auto& [id, sequence] : kv.live) {
      if (!chance(sequence.out ? 0.4 : 0.1)) continue;
      const auto there = promise(kv, sequence.placement, sequence.max_positions, !sequence.out);
      if (!fits(kv, there)) continue;
      sequence.out ? kv.store->swap_in(id) : kv.store->swap_out(id);
      sequence.out = !sequence.out;
    }
  }

  // Prompts in chunks, then one by one; some read only, some rest; in up to three micro-batches.
  std::vector<std::vector<KvStore::Span>> block(const KvHarness& kv) {
    std::vector<std::vector<KvStore::Span>> batches(1 + static_cast<std::size_t>(below(3)));
    for (const auto& [id, sequence] : kv.live) {
      if (sequence.out || chance(0.1)) continue;
      const int room = sequence.max_positions - sequence.positions();
      const int rows = std::min(room, chance(0.3) ? below(25) : 1);
      const auto batch = static_cast<std::size_t>(below(static_cast<int>(batches.size())));
      batches[batch].push_back(kv.span(id, rows));
      if (kv.config.host_attends && rows <= 1) batches[batch].back().generated = chance(0.8);
    }
    return batches;
  }

  // Room for so many sequences of full length in each tier, and as many again on disk when out.
  static void give_capacity(KvStore::Options& options, int sequences) {
    const auto pages_of = [&](int count) {
      return static_cast<std::size_t>(count) *
             divide_up(kMaxPositions, static_cast<std::size_t>(options.page_positions));
    };
    const std::size_t pages = pages_of(sequences) * static_cast<std::size_t>(options.layers);
    const std::size_t page_bytes = round_up(
        static_cast<std::size_t>(options.page_positions) * options.format.record_bytes(), 4096);
    const auto of_share = [&](double share) {
      return static_cast<std::size_t>(std::ceil(share * static_cast<double>(pages))) * page_bytes;
    };
    const auto tails = static_cast<std::size_t>(sequences * options.layers) * page_bytes;
    options.capacity_bytes = {of_share(options.share.device), of_share(options.share.host) + tails,
                              of_share(options.share.disk)};
    options.swap_bytes = pages * page_bytes;
    // Two micro-batches of all that there can be: what follows must wait for their regions.
    options.staging_bytes = options.host_staging_bytes = 2 * pages_of(kLive) * page_bytes;
  }

  void run(int sequences);

  std::mt19937 random_;
};

void KvStoreProperty::run(int sequences) {
  auto config = GetParam().config;
  give_capacity(config.store, sequences);
  KvHarness kv(config);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    shuffle(kv);
    const auto batches = block(kv);
    for (const auto& spans : batches)
      ASSERT_LE(kv.store->staging_needed(spans), config.store.staging_bytes);
    kv.sweep(batches, static_cast<std::size_t>(below(2)));
    Promise promised;
    for (const auto& [id, sequence] : kv.live)
      promised.add(kv, sequence.placement, sequence.positions(), sequence.out);
    promised.in.disk += promised.out;
    const auto held = kv.store->bytes_held();
    for (Tier tier : kTiers) ASSERT_LE(held[tier], promised.in[tier]) << name_of(tier);
  }
  kv.finish();
  EXPECT_EQ(kv.wrong, 0u) << kv.first_wrong;
  EXPECT_GT(kv.compared, 1000u);

  while (!kv.live.empty()) kv.remove(kv.live.begin()->first);
  for (Tier tier : kTiers) EXPECT_EQ(kv.store->bytes_held()[tier], 0u) << name_of(tier);
  const auto traffic = kv.store->traffic();
  kv.store.reset();  // waits for what is under way
  EXPECT_EQ(kv.disk->traffic().read_bytes, traffic.disk_read_bytes);
  EXPECT_EQ(kv.disk->traffic().written_bytes, traffic.disk_written_bytes);
  EXPECT_EQ(kv.device.link_traffic().down_bytes, traffic.link_down_bytes);
  EXPECT_EQ(kv.device.link_traffic().up_bytes, traffic.link_up_bytes);
}

TEST_P(KvStoreProperty, ALeaseShowsWhatWasWrittenLast) { run(2 * kLive); }

// Admission lets in only what fits at its longest; then nothing may ever be short.
TEST_P(KvStoreProperty, TheAccountThatAdmissionKeepsIsEnough) { run(2); }

INSTANTIATE_TEST_SUITE_P(All, KvStoreProperty, testing::ValuesIn(schedules()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace barge
