#include "offload/pack_layout.h"

#include <algorithm>
#include <numeric>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

constexpr std::int64_t kMaxSide = std::int64_t{1} << 30;  // 4 * kMaxSide^2 fits into 64 bits
constexpr std::int64_t kTileRows = 64;                    // of matrix products
constexpr std::int64_t kTableTileRows = 16;
constexpr std::int64_t kPanelsPerMatrix = 4;
constexpr std::size_t kMaxTablePanelBytes = 64 * 1024;
constexpr double kMaxPadding = 0.03;  // of the bytes read

double padding(const PanelLayout& layout) {
  const std::size_t stored = round_up(layout.bytes, kSectorBytes);
  return static_cast<double>(stored - layout.bytes) / static_cast<double>(stored);
}

// Rows of a panel must be a multiple of this (unless it is the only or the last one).
std::int64_t row_unit(const WeightFormat& format) {
  const bool grouped = format.encoding == Encoding::kQ8 || format.encoding == Encoding::kQ4;
  return grouped && format.axis == GroupAxis::kOutput ? format.group : 1;
}

// The most rows, a multiple of `unit`, that fit into `bytes`; 0 if not even `unit` do.
std::int64_t fitting_rows(const WeightFormat& format, std::int64_t cols, std::int64_t unit,
                          std::size_t bytes) {
  std::int64_t low = 0, high = kMaxSide / unit;  // low units fit
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (panel_layout(format, middle * unit, cols).bytes <= bytes)
      low = middle;
    else
      high = middle - 1;
  }
  return low * unit;
}

[[noreturn]] void refuse_panel(const WeightFormat& format, std::int64_t cols) {
  throw FormatError(concat("rows of ", cols, " numbers in ", to_string(format),
                           " can't be cut into panels of ", format_bytes(kMaxPanelBytes), ": ",
                           row_unit(format), " of them take ",
                           format_bytes(panel_layout(format, row_unit(format), cols).bytes)));
}

std::int64_t matrix_panel_rows(std::int64_t rows, std::int64_t cols, const WeightFormat& format) {
  std::int64_t unit = std::lcm(kTileRows, row_unit(format));
  std::int64_t most = fitting_rows(format, cols, unit, kMaxPanelBytes);
  if (most == 0) {
    unit = row_unit(format);
    most = fitting_rows(format, cols, unit, kMaxPanelBytes);
  }
  if (most == 0) refuse_panel(format, cols);

  std::int64_t best = 0;
  double least = 1;
  for (std::int64_t count = kPanelsPerMatrix; count >= 1; --count) {
    const std::int64_t want = (rows + count - 1) / count;
    const std::int64_t units = std::min((want + unit - 1) / unit, most / unit);
    const double waste = padding(panel_layout(format, std::min(units * unit, rows), cols));
    if (waste < least) {
      least = waste;
      best = units * unit;
    }
    if (waste <= kMaxPadding) break;
  }
  // Equal panels where 4 MiB cut the matrix into many: no small rest at its end.
  const std::int64_t count = (rows + best - 1) / best;
  const std::int64_t even = (rows + count - 1) / count;
  return std::min(rows, (even + unit - 1) / unit * unit);
}

std::int64_t table_panel_rows(std::int64_t rows, std::int64_t cols, const WeightFormat& format) {
  for (const std::int64_t tile : {kTableTileRows, std::int64_t{1}}) {
    const std::int64_t unit = std::lcm(tile, row_unit(format));
    for (std::size_t bytes = kSectorBytes; bytes <= kMaxTablePanelBytes; bytes += kSectorBytes) {
      const std::int64_t fits = std::min(fitting_rows(format, cols, unit, bytes), rows);
      if (fits > 0 && padding(panel_layout(format, fits, cols)) <= kMaxPadding) return fits;
    }
  }
  // Rows too long or too few for little padding: a single unit, or the whole small table.
  const std::int64_t unit = row_unit(format);
  const std::int64_t fits = fitting_rows(format, cols, unit, kMaxTablePanelBytes);
  if (panel_layout(format, unit, cols).bytes > kMaxPanelBytes) refuse_panel(format, cols);
  return std::min(rows, std::max(fits, unit));
}

}  // namespace

std::int64_t panel_rows(PackTensor::Kind kind, std::int64_t rows, std::int64_t cols,
                        const WeightFormat& format) {
  if (rows < 1 || cols < 1 || rows > kMaxSide || cols > kMaxSide)
    throw FormatError(
        concat("a tensor of ", rows, " x ", cols, " can't be stored: sides are 1 to ", kMaxSide));
  switch (kind) {
    case PackTensor::Kind::kMatrix:
      return matrix_panel_rows(rows, cols, format);
    case PackTensor::Kind::kTable:
      return table_panel_rows(rows, cols, format);
    case PackTensor::Kind::kVector:
      return rows;
  }
  throw FormatError(concat("tensor kind number ", static_cast<int>(kind), " is not known"));
}

std::vector<PackPanel> cut_panels(const PackTensor& tensor, std::int64_t rows_per_panel) {
  const auto refuse = [&](const auto&... why) {
    throw FormatError(concat("tensor '", tensor.name, "' of ", tensor.rows, " x ", tensor.cols,
                             " in ", to_string(tensor.format), ": ", why...));
  };
  if (tensor.rows < 1 || tensor.cols < 1 || tensor.rows > kMaxSide || tensor.cols > kMaxSide)
    refuse("sides must be 1 to ", kMaxSide);
  if (rows_per_panel < 1 || rows_per_panel > tensor.rows)
    refuse("panels of ", rows_per_panel, " rows; wanted 1 to ", tensor.rows);
  if (rows_per_panel != tensor.rows && rows_per_panel % row_unit(tensor.format) != 0)
    refuse("panels of ", rows_per_panel, " rows don't begin at groups of ", tensor.format.group);
  if (tensor.kind == PackTensor::Kind::kVector &&
      (tensor.rows != 1 || tensor.format.encoding != Encoding::kF32))
    refuse("vectors are one row of f32");
  const std::size_t largest = panel_layout(tensor.format, rows_per_panel, tensor.cols).bytes;
  if (largest > kMaxPanelBytes)
    refuse("panels of ", format_bytes(largest), "; at most ", format_bytes(kMaxPanelBytes));
  std::vector<PackPanel> panels;
  panels.reserve(static_cast<std::size_t>((tensor.rows + rows_per_panel - 1) / rows_per_panel));
  for (std::int64_t first = 0; first < tensor.rows; first += rows_per_panel) {
    const std::int64_t count = std::min(rows_per_panel, tensor.rows - first);
    panels.push_back(
        {.first_row = first, .layout = panel_layout(tensor.format, count, tensor.cols)});
  }
  return panels;
}

}  // namespace barge
