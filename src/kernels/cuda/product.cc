#include "kernels/cuda/product.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/bytes.h"
#include "core/errors.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_tile.h"

namespace barge::cuda {
namespace {

// Of decoded panels: the largest that a pack can have (4 MiB of 4-bit codes) in f32; in 16 bits
// several, because a GPU wants products of some thousand outputs.
constexpr std::size_t kDecodedBytes = 32_MiB;
constexpr std::int64_t kTileRows = 128;      // where a row's bits would depend on their number
constexpr std::int64_t kMostOutputs = 8192;  // of one product: bounds what a tile's results take
constexpr std::size_t kAlignment = 256;      // of parts of the workspace
constexpr std::size_t kRowAlignment = 16;    // of decoded rows, for the fast algorithms

std::int64_t aligned_stride(std::int64_t cols, DType type) {
  const std::size_t bytes = round_up(static_cast<std::size_t>(cols) * size_of(type), kRowAlignment);
  return static_cast<std::int64_t>(bytes / size_of(type));
}

std::size_t matrix_bytes(std::int64_t rows, std::int64_t cols, DType type) {
  return static_cast<std::size_t>(rows * aligned_stride(cols, type)) * size_of(type);
}

std::size_t tile_bytes(const KernelLimits& limits) {
  return round_up(matrix_bytes(kTileRows, limits.max_inputs, limits.compute), kAlignment);
}

constexpr std::size_t kResultBytes =
    static_cast<std::size_t>(kTileRows * kMostOutputs) * sizeof(float);
constexpr std::size_t kBiasBytes = static_cast<std::size_t>(kMostOutputs) * sizeof(std::uint16_t);

std::span<std::byte> cut(std::span<std::byte>& from, std::size_t bytes) {
  const auto part = from.first(bytes);
  from = from.subspan(bytes);
  return part;
}

// A tile in `memory` for rows like those of `like`.
MatrixView tile_for(std::span<std::byte> memory, const MatrixView& like) {
  return {memory.data(), like.dtype, kTileRows, like.cols, aligned_stride(like.cols, like.dtype)};
}

// The largest power of two, at most 16, that `bytes` is a multiple of.
int alignment_of(std::size_t bytes) {
  return static_cast<int>(bytes == 0
                              ? kRowAlignment
                              : std::min(kRowAlignment, std::size_t{1} << std::countr_zero(bytes)));
}

int alignment_of(const void* address) {
  return alignment_of(reinterpret_cast<std::uintptr_t>(address));
}

// The same for any of a matrix's rows that it is asked of.
int alignment_of(const MatrixView& matrix) {
  return std::min(alignment_of(matrix.data),
                  alignment_of(static_cast<std::size_t>(matrix.stride) * size_of(matrix.dtype)));
}

bool is_stored_as(DType type, const WeightPanel& panel) {
  const Encoding encoding = panel.layout.format.encoding;
  return (type == DType::kF32 && encoding == Encoding::kF32) ||
         (type == DType::kF16 && encoding == Encoding::kF16) ||
         (type == DType::kBF16 && encoding == Encoding::kBF16);
}

// How many of `panels` from the first are one aligned matrix of `type` already.
std::size_t count_in_place(std::span<const WeightPanel> panels, DType type) {
  const WeightPanel& first = panels.front();
  if (!is_stored_as(type, first) || first.layout.row_bytes % kRowAlignment != 0 ||
      alignment_of(first.data) != static_cast<int>(kRowAlignment))
    return 0;
  std::size_t count = 1;
  for (const std::byte* end = first.data; count < panels.size(); ++count) {
    end += static_cast<std::size_t>(panels[count - 1].layout.rows) * first.layout.row_bytes;
    if (panels[count].data != end || !is_stored_as(type, panels[count])) break;
  }
  return count;
}

// How many of `panels` fit the workspace when decoded.
std::size_t count_decodable(std::span<const WeightPanel> panels, DType type) {
  std::size_t count = 0;
  for (std::int64_t rows = 0; count < panels.size(); ++count) {
    rows += panels[count].layout.rows;
    if (matrix_bytes(rows, panels[count].layout.cols, type) > kDecodedBytes) break;
  }
  return count;
}

// How many of `panels` from the first have its layout and lie behind it at equal distances.
std::size_t count_alike(std::span<const WeightPanel> panels) {
  const auto alike = [&](std::size_t i) {
    const PanelLayout &a = panels[0].layout, &b = panels[i].layout;
    return a.rows == b.rows && a.cols == b.cols && a.format == b.format &&
           panels[i].data > panels[i - 1].data &&
           panels[i].data - panels[i - 1].data == panels[1].data - panels[0].data;
  };
  std::size_t count = 1;
  while (count < panels.size() && alike(count)) ++count;
  return count;
}

std::int64_t sum_of_rows(std::span<const WeightPanel> panels) {
  std::int64_t rows = 0;
  for (const WeightPanel& panel : panels) rows += panel.layout.rows;
  return rows;
}

}  // namespace

std::size_t Product::workspace_bytes(const KernelLimits& limits) {
  return Matmul::kWorkspaceBytes + kDecodedBytes + tile_bytes(limits) + 2 * kResultBytes +
         kBiasBytes + kAlignment;
}

Product::Product(Device& device, const KernelLimits& limits, std::span<std::byte> workspace)
    : compute_(limits.compute),
      decoded_(cut(workspace, kDecodedBytes)),
      rows_(cut(workspace, tile_bytes(limits))),
      result_(cut(workspace, kResultBytes)),
      other_result_(cut(workspace, kResultBytes)),
      bias_(cut(workspace, kBiasBytes)),
      differences_(cut(workspace, kAlignment)),
      differences_here_(device.allocate(Tier::kHost, sizeof(std::uint32_t), "uploads")),
      matmul_(workspace.first(Matmul::kWorkspaceBytes)) {}

void Product::run(cudaStream_t stream, MatrixView x, std::span<const WeightPanel> panels,
                  const float* bias, MatrixView y, Epilogue epilogue) {
  if (x.rows == 0) return;
  // Of an output's place, whatever panels came before in this call: all but a matrix's last have
  // the same number of rows.
  const std::size_t panel_rows = panels.empty() ? 0 : panels.front().layout.rows;
  const int y_alignment = alignment_of(panel_rows * size_of(y.dtype));
  for (std::int64_t first = 0; !panels.empty();) {
    const Decoded decoded = decode(stream, panels);
    const std::int64_t count = decoded.weights.rows;
    multiply(stream, {decoded.weights, x, y.columns(first, count), nullptr, epilogue},
             bias == nullptr ? nullptr : bias + first, y_alignment);
    panels = panels.subspan(decoded.num_panels);
    first += count;
  }
}

Product::Decoded Product::decode(cudaStream_t stream, std::span<const WeightPanel> panels) {
  const PanelLayout& layout = panels.front().layout;
  const std::size_t in_place = count_in_place(panels, compute_);
  const std::size_t decodable = count_decodable(panels, compute_);
  // Copying what could be used in place pays where that makes one large product of small ones.
  if (in_place > 0 && in_place >= decodable)
    return {{const_cast<std::byte*>(panels.front().data), compute_,
             sum_of_rows(panels.first(in_place)), layout.cols, layout.cols},
            in_place};
  if (decodable == 0)
    throw ConfigError(concat("a panel of ", layout.rows, " x ", layout.cols,
                             " weights is too large to be decoded: ",
                             format_bytes(matrix_bytes(layout.rows, layout.cols, compute_)),
                             "; the workspace for that has ", format_bytes(kDecodedBytes)));
  const MatrixView all{decoded_.data(), compute_, sum_of_rows(panels.first(decodable)), layout.cols,
                       aligned_stride(layout.cols, compute_)};
  std::int64_t row = 0;
  for (auto left = panels.first(decodable); !left.empty();) {
    const std::size_t count = count_alike(left);
    const std::int64_t rows = sum_of_rows(left.first(count));
    dequantise_alike(stream, left.front(), count,
                     count > 1 ? static_cast<std::size_t>(left[1].data - left[0].data) : 0,
                     all.row_range(row, rows));
    left = left.subspan(count);
    row += rows;
  }
  return {all, decodable};
}

void Product::multiply(cudaStream_t stream, MatmulProblem problem, const float* bias,
                       int y_alignment) {
  for (std::int64_t first = 0; first < problem.w.rows; first += kMostOutputs) {
    const std::int64_t count = std::min(kMostOutputs, problem.w.rows - first);
    MatmulProblem part = problem.output_range(first, count);
    MatmulShape shape{.inputs = part.x.cols,
                      .input = part.x.dtype,
                      .output = part.y.dtype,
                      .x_alignment = alignment_of(part.x),
                      .y_alignment = std::min(y_alignment, alignment_of(part.y))};
    if (bias != nullptr && part.y.dtype == DType::kF32) {
      part.bias = bias + first;
      shape.bias_alignment = std::min(y_alignment, alignment_of(part.bias));
    } else if (bias != nullptr) {
      const MatrixView narrow{bias_.data(), part.y.dtype, 1, count, count};
      add_bias(stream, bias + first, narrow, Epilogue::kStore);
      part.bias = bias_.data();
      shape.bias_alignment = kRowAlignment;
    }
    const Method& method = method_for(stream, shape, part);
    if (method.tiled)
      multiply_in_tiles(stream, part, method.algorithm);
    else
      matmul_.run(stream, part, method.algorithm);
    if (bias != nullptr && !method.algorithm.takes_bias)
      add_bias(stream, bias + first, part.y, Epilogue::kAdd);
  }
}

const Product::Method& Product::method_for(cudaStream_t stream, const MatmulShape& shape,
                                           const MatmulProblem& problem) {
  // Only this thread changes the map, so that it needs the lock for that alone.
  if (const auto known = methods_.find(shape); known != methods_.end()) return known->second;
  const Matmul::Algorithm algorithm = matmul_.choose(shape);
  const bool tiled = !rows_keep_their_bits(stream, problem, algorithm);
  const std::scoped_lock lock(mutex_);
  return methods_.emplace(shape, Method{algorithm, tiled}).first->second;
}

bool Product::rows_keep_their_bits(cudaStream_t stream, const MatmulProblem& problem,
                                   const Matmul::Algorithm& algorithm) {
  MatmulProblem together = problem;
  together.epilogue = Epilogue::kStore;
  together.x = tile_for(rows_, problem.x);
  together.y = tile_for(result_, problem.y);
  copy_rows(stream, problem.x, together.x);
  matmul_.run(stream, together, algorithm);

  auto* const differences = reinterpret_cast<std::uint32_t*>(differences_.data());
  check(cudaMemsetAsync(differences, 0, sizeof *differences, stream), "cudaMemsetAsync");
  const auto compare = [&](MatmulProblem some) {
    const MatrixView want = some.y;
    some.y = tile_for(other_result_, want).row_range(0, want.rows);
    matmul_.run(stream, some, algorithm);
    count_differences(stream, want, some.y, differences);
  };
  for (const auto& [first, count] : std::array<std::array<std::int64_t, 2>, 5>{
           {{0, 1}, {kTileRows - 1, 1}, {5, 33}, {64, 64}, {1, kTileRows - 1}}})
    compare(together.row_range(first, count));
  compare(together.output_range(0, (problem.w.rows + 1) / 2));

  check(cudaMemcpyAsync(differences_here_.data(), differences, sizeof *differences,
                        cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return *differences_here_.as<std::uint32_t>() == 0;
}

void Product::multiply_in_tiles(cudaStream_t stream, const MatmulProblem& problem,
                                const Matmul::Algorithm& algorithm) {
  const std::int64_t rows = problem.x.rows, whole = rows / kTileRows * kTileRows;
  for (std::int64_t first = 0; first < whole; first += kTileRows)
    matmul_.run(stream, problem.row_range(first, kTileRows), algorithm);
  if (whole == rows) return;
  const MatmulProblem rest = problem.row_range(whole, rows - whole);
  MatmulProblem tile = rest;
  tile.x = tile_for(rows_, rest.x);
  tile.y = tile_for(result_, rest.y);
  copy_rows(stream, rest.x, tile.x);
  if (rest.epilogue == Epilogue::kAdd) copy_rows(stream, rest.y, tile.y);
  matmul_.run(stream, tile, algorithm);
  copy_rows(stream, tile.y.row_range(0, rows - whole), rest.y);
}

Product::Report Product::report() const {
  const std::scoped_lock lock(mutex_);
  Report report{.shapes = methods_.size()};
  for (const auto& [shape, method] : methods_)
    if (method.tiled) report.tiled.push_back(to_string(shape));
  return report;
}

}  // namespace barge::cuda
