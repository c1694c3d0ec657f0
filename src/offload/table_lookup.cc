#include "offload/table_lookup.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

// The stretches of bytes that make up a row of a panel: its codes, scales and mins.
struct RowPart {
  std::size_t offset = 0;  // of row 0 in the panel
  std::size_t bytes = 0;   // of each row
};
struct RowParts {
  RowPart parts[3];
  int count = 0;
};

RowParts row_parts(const PanelLayout& layout) {
  RowParts result{{{0, layout.row_bytes}}, 1};
  const std::size_t scale_bytes = 2 * static_cast<std::size_t>(layout.groups);
  if (layout.groups > 0) result.parts[result.count++] = {layout.scales_offset, scale_bytes};
  if (layout.mins_offset > layout.scales_offset)
    result.parts[result.count++] = {layout.mins_offset, scale_bytes};
  return result;
}

// Calls copy(to, from, bytes) for `rows` rows from row `from_row` of one panel to another's.
template <typename Copy>
void copy_rows(const PanelLayout& to_layout, std::byte* to, std::size_t to_row,
               const PanelLayout& from_layout, const std::byte* from, std::size_t from_row,
               std::size_t rows, const Copy& copy) {
  const RowParts into = row_parts(to_layout), out_of = row_parts(from_layout);
  for (int i = 0; i < into.count; ++i)
    copy(to + into.parts[i].offset + to_row * into.parts[i].bytes,
         from + out_of.parts[i].offset + from_row * out_of.parts[i].bytes,
         rows * into.parts[i].bytes);
}

}  // namespace

TableLookup::TableLookup(const Pack& pack, const WeightPlan& plan,
                         const std::vector<std::vector<std::byte*>>& addresses, Device& device,
                         PanelReader& reader, std::span<std::byte> buffer)
    : pack_(pack), plan_(plan), addresses_(addresses), device_(device), reader_(reader) {
  const std::size_t half = buffer.size() / 2 / kSectorBytes * kSectorBytes;
  slots_ = device.unified() ? buffer : buffer.first(half);
  gathered_ = device.unified() ? std::span<std::byte>{} : buffer.subspan(half);
}

TableLookup::~TableLookup() { wait_quietly(gathered_free_); }

void TableLookup::check(int tensor, std::span<const std::int32_t> ids) const {
  if (tensor < 0 || static_cast<std::size_t>(tensor) >= pack_.tensors().size())
    throw Error(concat("there is no tensor ", tensor, " to look rows up in"));
  const PackTensor& table = pack_.tensors()[static_cast<std::size_t>(tensor)];
  const bool grouped =
      table.format.encoding == Encoding::kQ4 || table.format.encoding == Encoding::kQ8;
  if (table.kind != PackTensor::Kind::kTable || (grouped && table.format.axis != GroupAxis::kInput))
    throw FormatError(concat("rows of '", table.name, "' (", to_string(table.format),
                             ") can't be looked up: wanted a table with groups along the input"));
  for (const std::int32_t id : ids)
    if (id < 0 || id >= table.rows)
      throw Error(concat("row ", id, " of '", table.name, "' was asked for; it has ", table.rows));
}

std::size_t TableLookup::panel_of(const PackTensor& tensor, std::int32_t id) const {
  return static_cast<std::size_t>(id / tensor.panels.front().layout.rows);
}

Event TableLookup::gather(int tensor, std::span<const std::int32_t> ids, std::byte* to) {
  check(tensor, ids);
  if (ids.empty()) return {};
  const PackTensor& table = pack_.tensors()[static_cast<std::size_t>(tensor)];
  const auto layout_of = [&](std::size_t rows) {
    return panel_layout(table.format, static_cast<std::int64_t>(rows), table.cols);
  };
  const PanelLayout layout = layout_of(ids.size());
  if (device_.unified()) {
    gather_to_host(tensor, ids, layout, to);
    return {};
  }
  // As many rows as go through the buffer at once, where sections begin at multiples of 64.
  std::size_t row_bytes = 0;
  for (const RowPart& part : row_parts(layout).parts) row_bytes += part.bytes;
  const std::size_t chunk_rows = std::max<std::size_t>(1, (gathered_.size() - 128) / row_bytes);
  Stream& load = device_.load();
  for (std::size_t first = 0; first < ids.size(); first += chunk_rows) {
    const auto some = ids.subspan(first, std::min(chunk_rows, ids.size() - first));
    const PanelLayout chunk = layout_of(some.size());
    gathered_free_.wait();
    gather_to_host(tensor, some, chunk, gathered_.data());
    copy_rows(layout, to, first, chunk, gathered_.data(), 0, some.size(),
              [&](std::byte* into, const std::byte* from, std::size_t bytes) {
                load.copy(into, Tier::kDevice, from, Tier::kHost, bytes);
              });
    gather_on_device(tensor, some, layout, first, to);
    gathered_free_ = load.record();
  }
  return gathered_free_;
}

void TableLookup::gather_to_host(int tensor, std::span<const std::int32_t> ids,
                                 const PanelLayout& layout, std::byte* to) {
  const auto t = static_cast<std::size_t>(tensor);
  const PackTensor& table = pack_.tensors()[t];
  std::vector<Missing> missing;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    const std::size_t p = panel_of(table, ids[row]);
    const PackPanel& panel = table.panels[p];
    if (plan_.homes[t][p] == Tier::kDisk) missing.push_back({p, row});
    if (plan_.homes[t][p] == Tier::kHost)
      copy_rows(layout, to, row, panel.layout, addresses_[t][p],
                static_cast<std::size_t>(ids[row] - panel.first_row), 1, std::memcpy);
  }
  if (!missing.empty()) read_missing(tensor, ids, layout, missing, to);
}

void TableLookup::read_missing(int tensor, std::span<const std::int32_t> ids,
                               const PanelLayout& layout, std::span<Missing> missing,
                               std::byte* to) {
  const PackTensor& table = pack_.tensors()[static_cast<std::size_t>(tensor)];
  // Each panel is read once, in the order of the file, as many at once as there are slots.
  std::sort(missing.begin(), missing.end(),
            [](const Missing& a, const Missing& b) { return a.panel < b.panel; });
  std::vector<std::size_t> panels;
  for (const Missing& row : missing)
    if (panels.empty() || panels.back() != row.panel) panels.push_back(row.panel);
  const std::size_t slot_bytes = table.panels.front().stored_bytes();
  const std::size_t slots = slots_.size() / slot_bytes;
  const auto slot = [&](std::size_t i) { return slots_.data() + i % slots * slot_bytes; };
  std::vector<Event> reads;
  const auto begin_read = [&](std::size_t i) {
    reads.push_back(reader_.read({.tensor = tensor, .first = panels[i], .count = 1}, slot(i),
                                 IoPriority::kUrgent));
  };
  try {
    for (std::size_t i = 0; i < std::min(slots, panels.size()); ++i) begin_read(i);
    auto row = missing.begin();
    for (std::size_t i = 0; i < panels.size(); ++i) {
      reads[i].wait();
      const PackPanel& panel = table.panels[panels[i]];
      for (; row != missing.end() && row->panel == panels[i]; ++row)
        copy_rows(layout, to, row->row, panel.layout, slot(i),
                  static_cast<std::size_t>(ids[row->row] - panel.first_row), 1, std::memcpy);
      if (i + slots < panels.size()) begin_read(i + slots);
    }
  } catch (...) {
    for (const Event& read : reads) wait_quietly(read);  // they write into our slots
    throw;
  }
}

void TableLookup::gather_on_device(int tensor, std::span<const std::int32_t> ids,
                                   const PanelLayout& layout, std::size_t first, std::byte* to) {
  const auto t = static_cast<std::size_t>(tensor);
  const PackTensor& table = pack_.tensors()[t];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t p = panel_of(table, ids[i]);
    if (plan_.homes[t][p] != Tier::kDevice) continue;
    const PackPanel& panel = table.panels[p];
    copy_rows(layout, to, first + i, panel.layout, addresses_[t][p],
              static_cast<std::size_t>(ids[i] - panel.first_row), 1,
              [&](std::byte* into, const std::byte* from, std::size_t bytes) {
                device_.load().copy(into, Tier::kDevice, from, Tier::kDevice, bytes);
              });
  }
}

}  // namespace barge
