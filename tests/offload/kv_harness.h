#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/disk_backend.h"
#include "offload/disk_queue.h"
#include "offload/kv_store.h"
#include "tests/offload/late_device.h"
#include "tests/support/temp_directory.h"

namespace barge {

/// A record's bytes follow from its key: what should be there can be said without keeping it.
inline void fill_record(std::uint64_t key, std::span<std::byte> record) {
  for (std::size_t i = 0; i < record.size(); ++i) {
    if (i % 8 == 0) key = key * 6364136223846793005u + 1442695040888963407u;
    record[i] = static_cast<std::byte>(key >> (8 * (i % 8)));
  }
}

/// A KV store beside a plain model of it: for each sequence, layer and position the record that was
/// written last. The "kernel" of a lease runs on the compute stream of who attends, compares what
/// the pages show with the model and writes the new records.
class KvHarness {
 public:
  struct Config {
    double link = 0;  // bytes per second, 0: unified
    DiskQueue::Io io = DiskQueue::Io::kPread;
    KvStore::Options store;
    bool host_attends = false;  // to generated positions
    unsigned late = 0;          // seed of the streams' and the disk's delays, 0: none
  };
  struct Sequence {
    int max_positions = 0;
    bool out = false;
    KvStore::Placement placement;
    std::vector<std::vector<std::uint64_t>> keys;  // [layers][positions]
    int positions() const { return static_cast<int>(keys[0].size()); }
  };
  using Id = KvStore::SequenceId;

  explicit KvHarness(Config given, std::unique_ptr<DiskBackend> backend = nullptr)
      : config(std::move(given)),
        budgets(1_GiB, 1_GiB, 1_GiB),
        device({.threads = 1, .emulate_link = config.link}, budgets, config.late),
        host({.threads = 1}, budgets, config.late > 0 ? config.late + 100 : 0) {
    const DiskQueue::Options options{.io = config.io};
    if (config.late > 0)
      backend = std::make_unique<LateDisk>(make_pread_backend(options.depth), config.late + 200);
    disk = backend ? std::make_unique<DiskQueue>(options, std::move(backend))
                   : std::make_unique<DiskQueue>(options);
    config.store.disk_directory = directory.path();
    if (config.host_attends) config.store.attending_host = &host;
    store = std::make_unique<KvStore>(config.store, device, *disk, budgets.disk);
  }

  ~KvHarness() {
    try {
      finish();
    } catch (...) {  // the test has seen it, or fails by its own expectations
    }
  }

  Id add(int max_positions) {
    const auto placement = store->place(max_positions);
    const Id id = store->add(placement, max_positions);
    live[id] = {max_positions, false, placement, {}};
    live[id].keys.resize(static_cast<std::size_t>(config.store.layers));
    return id;
  }

  Id fork(Id of, int positions, int max_positions) {
    const Id id = store->fork(of, positions, max_positions);
    Sequence child = live.at(of);
    child.max_positions = max_positions;
    for (auto& layer : child.keys) layer.resize(static_cast<std::size_t>(positions));
    live[id] = std::move(child);
    return id;
  }

  void remove(Id id) {
    store->remove(id);
    live.erase(id);
  }

  KvStore::Span span(Id id, int rows) const { return {id, live.at(id).positions(), rows}; }

  /// One sweep over all layers; `ahead` leases are open beside the one that computes.
  void sweep(const std::vector<std::vector<KvStore::Span>>& micro_batches, std::size_t ahead) {
    std::deque<std::pair<KvStore::Lease, Event>> open;
    const auto close_oldest = [&] {
      store->close(std::move(open.front().first), open.front().second);
      open.pop_front();
    };
    for (int layer = 0; layer < config.store.layers; ++layer)
      for (const auto& batch : micro_batches)
        for (const bool by_host : {true, false}) {
          std::vector<KvStore::Span> spans;
          for (const KvStore::Span& span : batch)
            if ((span.generated && store->attends_on_host(layer)) == by_host) spans.push_back(span);
          if (spans.empty() && by_host) continue;
          while (open.size() > ahead) close_oldest();
          KvStore::Lease lease = store->open(layer, spans);
          Event computed = compute(lease, layer, spans);
          open.emplace_back(std::move(lease), std::move(computed));
        }
    while (!open.empty()) close_oldest();
  }

  /// One layer, one micro-batch.
  void step(int layer, const std::vector<KvStore::Span>& spans) {
    KvStore::Lease lease = store->open(layer, spans);
    const Event computed = compute(lease, layer, spans);
    store->close(std::move(lease), computed);
  }

  Event compute(const KvStore::Lease& lease, int layer, const std::vector<KvStore::Span>& spans) {
    struct Work {
      std::vector<std::byte*> pages;
      std::vector<std::uint64_t> keys;
      int first_new;
      std::string name;
    };
    auto work = std::make_shared<std::vector<Work>>();  // closures want to be copied
    for (std::size_t i = 0; i < spans.size(); ++i) {
      auto& keys = live.at(spans[i].sequence).keys[static_cast<std::size_t>(layer)];
      const int first = spans[i].first_position;
      for (int row = 0; row < spans[i].rows; ++row) keys.push_back(++last_key_);
      const auto pages = lease.pages(i);
      work->push_back({{pages.begin(), pages.end()},
                       keys,
                       first,
                       concat("sequence ", spans[i].sequence, " layer ", layer)});
    }
    const bool by_host = !spans.empty() && spans.front().generated && store->attends_on_host(layer);
    Stream& stream = by_host ? host.compute() : device.compute();
    stream.wait(lease.ready);
    stream.call([this, work] {
      const std::size_t bytes = config.store.format.record_bytes();
      const auto per_page = static_cast<std::size_t>(config.store.page_positions);
      std::vector<std::byte> expected(bytes);
      for (const Work& one : *work)
        for (std::size_t position = 0; position < one.keys.size(); ++position) {
          std::byte* const at = one.pages.at(position / per_page) + position % per_page * bytes;
          if (position >= static_cast<std::size_t>(one.first_new)) {
            fill_record(one.keys[position], {at, bytes});
            continue;
          }
          fill_record(one.keys[position], expected);
          const std::scoped_lock lock(mutex_);
          ++compared;
          if (std::memcmp(at, expected.data(), bytes) == 0) continue;
          if (wrong++ == 0) first_wrong = concat(one.name, " position ", position);
        }
    });
    return stream.record();
  }

  /// Waits for all that was given to the streams.
  void finish() {
    device.compute().record().wait();
    host.compute().record().wait();
    device.load().record().wait();
    device.store().record().wait();
  }

  /// Waits until the disk has counted that many writes (its events may end a moment later).
  void await_writes(std::size_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (disk->traffic().writes < count) {
      if (std::chrono::steady_clock::now() > deadline)
        throw Error(concat("wanted ", count, " writes, got ", disk->traffic().writes));
      std::this_thread::yield();
    }
  }

  Config config;
  test::TempDirectory directory;
  Budgets budgets;
  LateDevice device, host;
  std::unique_ptr<DiskQueue> disk;
  std::unique_ptr<KvStore> store;
  std::map<Id, Sequence> live;
  // Of the kernels; read them after `finish`.
  std::size_t compared = 0, wrong = 0;
  std::string first_wrong;

 private:
  std::uint64_t last_key_ = 0;
  std::mutex mutex_;  // guards what the kernels count, two at once where the host attends
};

}  // namespace barge
