#include "pack/panel_encoder.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"
#include "quant/codec.h"

namespace barge {
namespace {

constexpr std::size_t kPieceNumbers = 256 << 10;  // 1 MiB of f32: stays in a core's L2 cache

bool along_outputs(const WeightFormat& format) {
  return (format.encoding == Encoding::kQ4 || format.encoding == Encoding::kQ8) &&
         format.axis == GroupAxis::kOutput;
}

// Copies what a panel of some of the rows holds to its place in the whole panel. Codes and, on
// either axis, scales of consecutive rows (whole groups of them) lie together.
void place(const PanelLayout& piece, const std::byte* from, const PanelLayout& whole,
           std::int64_t first_row, std::byte* to) {
  const auto rows = static_cast<std::size_t>(piece.rows),
             first = static_cast<std::size_t>(first_row);
  std::memcpy(to + first * whole.row_bytes, from, rows * piece.row_bytes);
  if (whole.groups == 0) return;
  const std::size_t groups = static_cast<std::size_t>(piece.groups);
  const std::size_t cols = static_cast<std::size_t>(piece.cols);
  const bool outputs = along_outputs(whole.format);
  const std::size_t bytes = 2 * (outputs ? groups * cols : rows * groups);
  const std::size_t at =
      2 * (outputs ? first / static_cast<std::size_t>(whole.format.group) * cols : first * groups);
  std::memcpy(to + whole.scales_offset + at, from + piece.scales_offset, bytes);
  if (whole.format.encoding == Encoding::kQ4)
    std::memcpy(to + whole.mins_offset + at, from + piece.mins_offset, bytes);
}

}  // namespace

// Rows [first, first + rows) of one of the panels.
struct PanelEncoder::Piece {
  std::size_t panel = 0;
  std::int64_t first = 0, rows = 0;
};

PanelEncoder::PanelEncoder(const Checkpoint& checkpoint, ThreadPool& pool)
    : checkpoint_(checkpoint), pool_(pool), workspaces_(static_cast<std::size_t>(pool.threads())) {}

void PanelEncoder::encode(const TensorSpec& tensor, std::span<const PackPanel> panels,
                          std::span<std::vector<std::byte>> to) {
  const bool stored = checkpoint_.stored_format(tensor) == panels[0].layout.format;
  std::vector<Piece> pieces;
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const PanelLayout& layout = panels[p].layout;
    to[p].assign(layout.bytes, std::byte{0});
    const auto multiple =
        static_cast<std::size_t>(along_outputs(layout.format) ? layout.format.group : 1);
    const std::size_t fit =
        kPieceNumbers / static_cast<std::size_t>(std::max<std::int64_t>(1, layout.cols));
    const auto step = static_cast<std::int64_t>(std::max(multiple, fit / multiple * multiple));
    for (std::int64_t first = 0; first < layout.rows; first += step)
      pieces.push_back({p, first, std::min(step, layout.rows - first)});
  }
  pool_.run(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int thread) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    encode_piece(tensor, panels[piece.panel], piece, stored, to[piece.panel],
                 workspaces_[static_cast<std::size_t>(thread)]);
  });
}

void PanelEncoder::encode_piece(const TensorSpec& tensor, const PackPanel& panel,
                                const Piece& piece, bool stored, std::span<std::byte> to,
                                Workspace& workspace) const {
  const PanelLayout layout = panel_layout(panel.layout.format, piece.rows, panel.layout.cols);
  const std::int64_t first = panel.first_row + piece.first;
  workspace.encoded.assign(layout.bytes, std::byte{0});
  if (stored) {
    checkpoint_.read_panel(tensor, first, layout, workspace.encoded);
  } else {
    workspace.rows.resize(static_cast<std::size_t>(piece.rows * layout.cols));
    checkpoint_.read_rows(tensor, first, piece.rows, workspace.rows);
    try {
      encode_panel(layout, workspace.rows, workspace.encoded);
    } catch (const FormatError& e) {
      throw FormatError(concat("tensor \"", tensor.name, "\", from row ", first, ": ", e.what()));
    }
  }
  place(layout, workspace.encoded.data(), panel.layout, piece.first, to.data());
}

}  // namespace barge
