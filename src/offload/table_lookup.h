#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device.h"
#include "offload/pack.h"
#include "offload/panel_reader.h"
#include "offload/weight_plan.h"

namespace barge {

/// Gathers single rows of tables, wherever their panels are at home. One thread calls.
class TableLookup {
 public:
  /// `addresses` [tensors][panels]: where a panel is in memory; null on disk. `buffer` is pinned
  /// memory: panels on disk come there (unified: all of it; discrete: half, and the gathered rows
  /// go through the other half); each share holds at least one panel of any table.
  TableLookup(const Pack& pack, const WeightPlan& plan,
              const std::vector<std::vector<std::byte*>>& addresses, Device& device,
              PanelReader& reader, std::span<std::byte> buffer);
  /// Waits until the buffer is out of use.
  ~TableLookup();

  /// As WeightStore::lookup.
  Event gather(int tensor, std::span<const std::int32_t> ids, std::byte* to);

 private:
  struct Missing {  // a row whose panel is on disk
    std::size_t panel = 0, row = 0;
  };

  void check(int tensor, std::span<const std::int32_t> ids) const;
  std::size_t panel_of(const PackTensor& tensor, std::int32_t id) const;
  // Rows at home in host memory or on disk, into host memory `to`.
  void gather_to_host(int tensor, std::span<const std::int32_t> ids, const PanelLayout& layout,
                      std::byte* to);
  void read_missing(int tensor, std::span<const std::int32_t> ids, const PanelLayout& layout,
                    std::span<Missing> missing, std::byte* to);
  // Rows at home on a discrete device; row i of `ids` becomes row first + i of `to`.
  void gather_on_device(int tensor, std::span<const std::int32_t> ids, const PanelLayout& layout,
                        std::size_t first, std::byte* to);

  const Pack& pack_;
  const WeightPlan& plan_;
  const std::vector<std::vector<std::byte*>>& addresses_;
  Device& device_;
  PanelReader& reader_;
  std::span<std::byte> slots_, gathered_;
  Event gathered_free_;  // the last copy out of gathered_
};

}  // namespace barge
