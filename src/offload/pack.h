#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offload/disk.h"
#include "quant/format.h"

namespace barge {

/// The pack: a model in barge's own read-optimised layout, a directory:
///   pack.json   format version, the model's description (opaque here), tensor table, fingerprint
///               of the source
///   data-N.bin  panels in sweep order, each at a multiple of 4096 with an XXH3-64 checksum of its
///               padded bytes
/// A pack is whole or absent: it is written under a temporary name and renamed.
inline constexpr int kPackVersion = 1;
/// Panels of matrices; those of tables are a few sectors, for look-ups of single rows.
inline constexpr std::size_t kMaxPanelBytes = 4 << 20;

struct PackPanel {
  std::int64_t first_row = 0;
  PanelLayout layout;  // rows, cols and where codes and scales are
  int file = 0;        // data-N.bin
  std::uint64_t offset = 0;
  std::uint64_t checksum = 0;
  std::size_t stored_bytes() const;  // layout.bytes rounded up to 4096
};

struct PackTensor {
  using Kind = TensorKind;
  std::string name;
  Kind kind = Kind::kMatrix;
  std::int64_t rows = 0, cols = 0;
  WeightFormat format;
  std::vector<PackPanel> panels;  // consecutive in one file
};

/// An opened pack. Immutable; thread-safe.
class Pack {
 public:
  /// Reads and checks pack.json and the sizes of the data files. Throws FormatError or IoError.
  explicit Pack(const std::filesystem::path& directory);
  /// One that there isn't, for simulations: cut like a pack of `tensors` (name, kind, rows, cols
  /// and format; in sweep order), with no bytes to check. Its one file is empty and in `directory`.
  static Pack imagined(std::vector<PackTensor> tensors, const std::filesystem::path& directory);

  const std::filesystem::path& directory() const { return directory_; }
  const std::string& model() const { return model_; }  // JSON that the packer put there
  const std::string& fingerprint() const { return fingerprint_; }
  const std::vector<PackTensor>& tensors() const { return tensors_; }  // in sweep order
  /// Index of a tensor; throws FormatError if there is none.
  int find(const std::string& name) const;
  const DiskFile& file(int index) const { return files_[static_cast<std::size_t>(index)]; }
  std::size_t bytes() const;  // of all data files

  /// Throws FormatError, naming tensor, panel and file, unless the checksum is the panel's.
  void check(const PackTensor& tensor, const PackPanel& panel,
             std::span<const std::byte> stored) const;

 private:
  Pack() = default;

  bool imagined_ = false;
  std::filesystem::path directory_;
  std::string model_, fingerprint_;
  std::vector<PackTensor> tensors_;
  std::vector<DiskFile> files_;
  std::map<std::string, int> index_;  // tensors by name
};

/// Whether `path` is a directory with a pack.json.
bool is_pack(const std::filesystem::path& path);

/// Writes a pack panel by panel. One thread. Destroyed before `finish`: nothing is left.
class PackWriter {
 public:
  /// `directory` must not exist yet; it appears when `finish` returns.
  explicit PackWriter(std::filesystem::path directory);
  ~PackWriter();

  /// Begins a tensor and says how its rows are cut into panels (layout and first_row are set).
  /// Tensors must come in sweep order.
  const std::vector<PackPanel>& begin(const std::string& name, PackTensor::Kind kind,
                                      std::int64_t rows, std::int64_t cols, WeightFormat format);
  /// The next panel of the tensor: layout.bytes bytes. Throws IoError (disk full: wanted, free).
  void write(std::span<const std::byte> panel);
  void finish(const std::string& model, const std::string& fingerprint);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace barge
