#pragma once

#include <cstddef>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "offload/pack.h"
#include "quant/codec.h"

namespace barge {

struct SmallTensor {
  std::string name;
  PackTensor::Kind kind = PackTensor::Kind::kMatrix;
  std::int64_t rows = 0, cols = 0;
  WeightFormat format;
};

/// Random rows [count, cols], a function of tensor number and row only.
inline std::vector<float> random_rows(std::size_t tensor, std::int64_t first, std::int64_t count,
                                      std::int64_t cols) {
  std::vector<float> rows;
  rows.reserve(static_cast<std::size_t>(count * cols));
  for (std::int64_t r = first; r < first + count; ++r) {
    std::minstd_rand generator(
        static_cast<unsigned>(1 + r * 131 + static_cast<int>(tensor) * 7919));
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::int64_t c = 0; c < cols; ++c) rows.push_back(uniform(generator));
  }
  return rows;
}

inline std::vector<std::byte> panel_bytes(std::size_t tensor, const PackPanel& panel) {
  const PanelLayout& layout = panel.layout;
  std::vector<std::byte> bytes(layout.bytes);
  encode_panel(layout, random_rows(tensor, panel.first_row, layout.rows, layout.cols), bytes);
  return bytes;
}

/// Writes a pack of these tensors, filled by random_rows.
inline void write_small_pack(const std::filesystem::path& directory,
                             const std::vector<SmallTensor>& tensors) {
  PackWriter writer(directory);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const SmallTensor& tensor = tensors[t];
    const auto& panels =
        writer.begin(tensor.name, tensor.kind, tensor.rows, tensor.cols, tensor.format);
    for (const PackPanel& panel : panels) writer.write(panel_bytes(t, panel));
  }
  writer.finish(R"({"name": "small"})", "fingerprint of a small pack");
}

}  // namespace barge
