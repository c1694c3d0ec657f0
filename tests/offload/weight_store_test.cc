#include "offload/weight_store.h"
#include "offload/disk_queue.h"

#include <gmock/gmock.h>

#include <fstream>
#include <memory>
#include <numeric>

#include "core/bytes.h"
#include "core/errors.h"
#include "tests/offload/late_device.h"
#include "tests/offload/small_pack.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = PackTensor::Kind;
using Homes = std::vector<std::vector<Tier>>;

constexpr WeightFormat kQ4{.encoding = Encoding::kQ4, .group = 64, .axis = GroupAxis::kInput};
constexpr WeightFormat kQ8{.encoding = Encoding::kQ8, .group = 32, .axis = GroupAxis::kInput};
constexpr WeightFormat kF32{.encoding = Encoding::kF32};
constexpr WeightFormat kBF16{.encoding = Encoding::kBF16};

const std::vector<SmallTensor> kTensors{
    {"embed", Kind::kTable, 1003, 96, kQ4}, {"norm", Kind::kVector, 1, 96, kF32},
    {"q", Kind::kMatrix, 300, 96, kF32},    {"k", Kind::kMatrix, 129, 97, kQ4},
    {"v", Kind::kMatrix, 513, 128, kBF16},  {"last_norm", Kind::kVector, 1, 1031, kF32}};
const std::vector<int> kVisits{2, 3, 4, 3, 0};  // one matrix twice, and a tied output layer

struct Machine {
  double link = 0;
  DiskQueue::Io io = DiskQueue::Io::kAuto;
  unsigned late = 0;  // seed of the streams' and the disk's delays, 0: none
};

class WeightStoreTest : public testing::TestWithParam<Machine> {
 protected:
  WeightStoreTest() { open(); }

  void open() {
    disk_.reset();
    pack_.reset();
    std::filesystem::remove_all(path_);
    write_small_pack(path_, kTensors);
    pack_ = std::make_unique<Pack>(path_);
    for (const int several : {0, 2, 4}) {
      if (pack_->tensors()[static_cast<std::size_t>(several)].panels.size() < 3)
        throw Error("the tests want tensors of several panels");
    }
    const DiskQueue::Options options{.io = GetParam().io, .depth = 4, .request_bytes = 16384};
    const unsigned late = GetParam().late;
    disk_ = late > 0
                ? std::make_unique<DiskQueue>(
                      options, std::make_unique<LateDisk>(make_pread_backend(options.depth), late))
                : std::make_unique<DiskQueue>(options);
  }

  Homes all(Tier tier) const {
    Homes homes;
    for (const PackTensor& tensor : pack_->tensors())
      homes.emplace_back(tensor.panels.size(), tier);
    return homes;
  }
  // Every tier in turn, so that neighbours differ.
  Homes mixed() const {
    Homes homes = all(Tier::kDisk);
    int i = 0;
    for (auto& panels : homes)
      for (Tier& home : panels) home = kTiers[static_cast<std::size_t>(i++ / 2 % 3)];
    return homes;
  }
  WeightStore::Options smallest() const {
    const std::size_t bytes = WeightStore::smallest_ring_bytes(*pack_);
    return {.ring_bytes = bytes, .staging_bytes = device_.unified() ? 0 : bytes};
  }
  std::unique_ptr<WeightStore> store(const Homes& homes, WeightStore::Options options) {
    return std::make_unique<WeightStore>(*pack_, kVisits, homes, device_, *disk_, options);
  }

  // Takes one sweep from the store and compares every byte of every panel on the compute stream,
  // as kernels would read them.
  void expect_sweep(WeightStore& store) {
    for (const int visit : kVisits) {
      const PackTensor& tensor = pack_->tensors()[static_cast<std::size_t>(visit)];
      std::size_t p = 0;
      while (p < tensor.panels.size()) {
        WeightStore::Run run = store.next();
        ASSERT_EQ(run.tensor, visit);
        ASSERT_EQ(run.first_row, tensor.panels[p].first_row);
        ASSERT_FALSE(run.panels.empty());
        device_.compute().wait(run.ready);
        for (const WeightPanel& panel : run.panels) {
          ASSERT_EQ(panel.layout.rows, tensor.panels[p].layout.rows);
          const auto want = panel_bytes(static_cast<std::size_t>(visit), tensor.panels[p++]);
          device_.compute().call([this, data = panel.data, want] {
            if (!std::equal(want.begin(), want.end(), data)) ++wrong_;
          });
        }
        store.release(std::move(run), device_.compute().record());
      }
      ASSERT_EQ(p, tensor.panels.size());
    }
  }

  void flip_byte(std::uint64_t offset) {
    std::fstream file(path_ / "data-0.bin", std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }

  // The bytes that are resident by the homes asked for, tables and matrices only.
  PerTier<std::size_t> asked(const Homes& homes) const {
    PerTier<std::size_t> bytes;
    for (std::size_t t = 0; t < homes.size(); ++t)
      for (std::size_t p = 0; p < homes[t].size(); ++p) {
        if (pack_->tensors()[t].kind == Kind::kVector) continue;
        const Tier home =
            device_.unified() && homes[t][p] == Tier::kDevice ? Tier::kHost : homes[t][p];
        bytes[home] += pack_->tensors()[t].panels[p].stored_bytes();
      }
    return bytes;
  }

  std::size_t vector_bytes() const {
    std::size_t bytes = 0;
    for (const PackTensor& tensor : pack_->tensors())
      if (tensor.kind == Kind::kVector) bytes += tensor.panels[0].stored_bytes();
    return bytes;
  }

  Budgets budgets_{64_MiB, 64_MiB, 64_MiB};
  test::TempDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "pack";
  LateDevice device_{{.threads = 1, .emulate_link = GetParam().link}, budgets_, GetParam().late};
  std::unique_ptr<Pack> pack_;
  std::unique_ptr<DiskQueue> disk_;
  std::atomic<int> wrong_ = 0;
};

TEST_P(WeightStoreTest, BringsEverySweepWholeWhereverThePanelsAreAtHome) {
  for (const Homes& homes : {all(Tier::kDisk), all(Tier::kHost), all(Tier::kDevice), mixed()})
    for (const std::size_t ring_factor : {1, 2, 7}) {
      WeightStore::Options options = smallest();
      options.ring_bytes *= ring_factor;
      const auto store = this->store(homes, options);
      for (int sweep = 0; sweep < 5; ++sweep) expect_sweep(*store);
      device_.compute().record().wait();
      EXPECT_EQ(wrong_, 0);
    }
}

TEST_P(WeightStoreTest, ReadsAtMostARingAhead) {
  const auto store = this->store(all(Tier::kDisk), smallest());
  for (int sweep = 0; sweep < 3; ++sweep) expect_sweep(*store);
  device_.compute().record().wait();
  std::size_t sweep_bytes = 0;
  for (const int visit : kVisits)
    for (const PackPanel& panel : pack_->tensors()[static_cast<std::size_t>(visit)].panels)
      sweep_bytes += panel.stored_bytes();
  const std::size_t read = store->traffic().disk_bytes;
  EXPECT_GE(read, 3 * sweep_bytes);
  EXPECT_LE(read, 3 * sweep_bytes + vector_bytes() + smallest().ring_bytes);
  EXPECT_GT(sweep_bytes, smallest().ring_bytes);  // else it shows nothing
}

TEST_P(WeightStoreTest, TakesExactlyTheMemoryThatHomesRingAndStagingSay) {
  const Homes homes = mixed();
  const WeightStore::Options options = smallest();
  const auto store = this->store(homes, options);
  const PerTier<std::size_t> want = asked(homes), got = store->bytes_at_home();
  for (const Tier tier : kTiers) EXPECT_EQ(got[tier], want[tier]) << name_of(tier);
  const std::size_t vectors = vector_bytes();
  if (device_.unified()) {
    EXPECT_EQ(budgets_.host.used(), want.host + vectors + options.ring_bytes);
    EXPECT_EQ(budgets_.device.used(), 0u);
  } else {
    EXPECT_EQ(budgets_.device.used(), want.device + vectors + options.ring_bytes);
    EXPECT_EQ(budgets_.host.used(), want.host + options.staging_bytes);
  }
}

TEST_P(WeightStoreTest, NeedsNoRingWhenEverythingIsAtHomeOnTheDevice) {
  WeightStore::Options options = smallest();
  options.ring_bytes = 0;
  const auto store = this->store(all(Tier::kDevice), options);
  expect_sweep(*store);
  const WeightStore::Run run = store->next();
  EXPECT_TRUE(run.ready.done());
  EXPECT_EQ(run.panels.size(), pack_->tensors()[2].panels.size());  // one run
  device_.compute().record().wait();
  EXPECT_EQ(wrong_, 0);
}

TEST_P(WeightStoreTest, KeepsVectorsOnTheDevice) {
  const auto store = this->store(all(Tier::kDisk), smallest());
  for (const int tensor : {1, 5}) {
    const auto t = static_cast<std::size_t>(tensor);
    const auto want = random_rows(t, 0, 1, kTensors[t].cols);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), store->vector(tensor)));
  }
  EXPECT_THROW(store->vector(2), Error);
}

TEST_P(WeightStoreTest, LooksUpRowsAsADirectEncodingWouldStoreThem) {
  std::vector<std::int32_t> ids{0, 1002, 7, 7, 500, 1, 1001, 0};
  for (std::int32_t i = 0; i < 300; ++i) ids.push_back(i * 37 % 1003);
  const PanelLayout layout =
      panel_layout(kQ4, static_cast<std::int64_t>(ids.size()), kTensors[0].cols);
  std::vector<float> rows;
  for (const std::int32_t id : ids) {
    const auto row = random_rows(0, id, 1, kTensors[0].cols);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  std::vector<std::byte> want(layout.bytes);
  encode_panel(layout, rows, want);
  for (const Homes& homes : {all(Tier::kDisk), all(Tier::kHost), all(Tier::kDevice), mixed()}) {
    const auto store = this->store(homes, smallest());
    const Buffer to = device_.allocate(Tier::kDevice, layout.bytes, "test");
    for (int time = 0; time < 2; ++time) {
      device_.compute().wait(store->lookup(0, ids, to.data()));
      bool same = false;
      device_.compute().call([&] { same = std::equal(want.begin(), want.end(), to.data()); });
      device_.compute().record().wait();
      EXPECT_TRUE(same);
      expect_sweep(*store);  // look-ups and the ring don't get in each other's way
      device_.compute().record().wait();
    }
    EXPECT_TRUE(store->lookup(0, {}, to.data()).done());
    const std::int32_t bad[] = {1003};
    EXPECT_THAT([&] { store->lookup(0, bad, to.data()); },
                ThrowsMessage<Error>(HasSubstr("row 1003 of 'embed'")));
    EXPECT_THROW(store->lookup(2, ids, to.data()), FormatError);
  }
  EXPECT_EQ(wrong_, 0);
}

TEST_P(WeightStoreTest, FailsTheRunWhosePanelIsDamaged) {
  flip_byte(pack_->tensors()[4].panels[1].offset + 5);
  const auto store = this->store(all(Tier::kDisk), smallest());
  for (;;) {
    WeightStore::Run run = store->next();
    const std::size_t end =
        static_cast<std::size_t>(run.first_row) +
        static_cast<std::size_t>(run.panels.front().layout.rows) * run.panels.size();
    const PackPanel& bad = pack_->tensors()[4].panels[1];
    if (run.tensor == 4 && run.first_row <= bad.first_row &&
        static_cast<std::int64_t>(end) > bad.first_row) {
      EXPECT_THAT(
          [&] { run.ready.wait(); },
          ThrowsMessage<FormatError>(AllOf(HasSubstr("panel 1 of 'v'"), HasSubstr("data-0.bin"))));
      store->release(std::move(run), {});
      break;
    }
    run.ready.wait();
    store->release(std::move(run), {});
  }
}

TEST_P(WeightStoreTest, RefusesADamagedPanelAtTheStart) {
  flip_byte(pack_->tensors()[3].panels[0].offset + 1);
  for (const Tier tier : {Tier::kHost, Tier::kDevice})
    EXPECT_THAT([&] { store(all(tier), smallest()); },
                ThrowsMessage<FormatError>(HasSubstr("panel 0 of 'k'")));
}

TEST_P(WeightStoreTest, FailsTheRunThatATruncatedFileLacks) {
  const PackPanel& last = pack_->tensors()[4].panels.back();
  const auto store = this->store(all(Tier::kDisk), smallest());
  std::filesystem::resize_file(path_ / "data-0.bin", last.offset);
  // The prefetch may have read it before; a later sweep meets the end of the file.
  EXPECT_THAT(
      [&] {
        for (;;) {
          WeightStore::Run run = store->next();
          const Event ready = run.ready;
          store->release(std::move(run), {});
          ready.wait();
        }
      },
      ThrowsMessage<IoError>(AllOf(HasSubstr("data-0.bin"), HasSubstr("too early"))));
}

TEST_P(WeightStoreTest, PassesOnTheFailureOfAReader) {
  const auto store = this->store(all(Tier::kDisk), smallest());
  Completion broken;
  const Event reader = broken.event();
  broken.fail(std::make_exception_ptr(Error("a kernel failed")));
  EXPECT_THAT(
      [&] {
        for (;;) store->release(store->next(), reader);
      },
      ThrowsMessage<Error>(HasSubstr("a kernel failed")));
}

TEST_P(WeightStoreTest, SaysSoWhenTheCallerHoldsTheWholeRing) {
  const auto store = this->store(all(Tier::kDisk), smallest());
  std::vector<WeightStore::Run> held;
  EXPECT_THAT(
      [&] {
        for (;;) held.push_back(store->next());
      },
      ThrowsMessage<ConfigError>(HasSubstr("beside those in use")));
  EXPECT_GE(held.size(), 1u);
  for (WeightStore::Run& run : held) store->release(std::move(run), {});
  (void)store->next();  // goes on
}

TEST_P(WeightStoreTest, EndsInAnyState) {
  for (int runs = 0; runs < 8; ++runs) {
    const auto store = this->store(mixed(), smallest());
    for (int i = 0; i < runs; ++i) {
      WeightStore::Run run = store->next();
      device_.compute().wait(run.ready);
      store->release(std::move(run), device_.compute().record());
    }
  }
  EXPECT_EQ(budgets_.host.used(), 0u);
  EXPECT_EQ(budgets_.device.used(), 0u);
}

TEST_P(WeightStoreTest, NamesWhatIsWrongWithItsOptions) {
  WeightStore::Options options = smallest();
  options.ring_bytes -= 4096;
  EXPECT_THAT([&] { store(all(Tier::kDisk), options); },
              ThrowsMessage<ConfigError>(HasSubstr("weight ring")));
  EXPECT_THROW(store({}, smallest()), ConfigError);
  Homes homes = all(Tier::kDisk);
  homes[2].pop_back();
  EXPECT_THAT([&] { store(homes, smallest()); },
              ThrowsMessage<ConfigError>(HasSubstr("panels of 'q'")));
}

INSTANTIATE_TEST_SUITE_P(Machines, WeightStoreTest,
                         testing::Values(Machine{}, Machine{.io = DiskQueue::Io::kPread},
                                         Machine{.link = 2e9},
                                         Machine{.link = 2e9, .io = DiskQueue::Io::kPread},
                                         Machine{.link = 2e9, .late = 7}),
                         [](const auto& info) {
                           return concat(info.param.late > 0 ? "Late" : "",
                                         info.param.link > 0 ? "Discrete" : "Unified",
                                         info.param.io == DiskQueue::Io::kPread ? "Pread" : "Auto");
                         });

}  // namespace
}  // namespace barge
