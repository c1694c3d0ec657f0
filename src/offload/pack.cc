#include "offload/pack.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/checksum.h"
#include "offload/pack_json.h"
#include "offload/pack_layout.h"

namespace barge {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxJsonBytes = 512_MiB;
const char* const kRemedy = "; remove the pack and run `barge pack` again";

// Wanted where `what` is missing or of another type; names the file.
template <typename T>
T take(const json& from, const char* key, const std::string& source) {
  const auto found = from.find(key);
  try {
    if (found != from.end()) {
      if constexpr (std::is_integral_v<T>) {
        if (!found->is_number_integer()) throw FormatError("not an integer");
        // get<T> wraps silently; a negative or huge number must not become a small one.
        if (found->is_number_unsigned() ? found->get<std::uint64_t>() > INT64_MAX
                                        : found->get<std::int64_t>() < 0)
          throw FormatError("out of range");
      }
      return found->get<T>();
    }
  } catch (const std::exception&) {
  }
  throw FormatError(
      concat(source, ": '", key, "' is missing or not what it should be",
             found == from.end() ? "" : concat(" (", found->dump(), ")").substr(0, 80), kRemedy));
}

std::string read_text(const std::filesystem::path& path) {
  std::error_code failure;
  const std::uintmax_t bytes = std::filesystem::file_size(path, failure);
  if (failure) throw IoError(concat("cannot open ", path.string(), ": ", failure.message()));
  if (bytes > kMaxJsonBytes)
    throw FormatError(concat(path.string(), " has ", format_bytes(bytes), "; at most ",
                             format_bytes(kMaxJsonBytes), kRemedy));
  std::string text(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(text.data(), static_cast<std::streamsize>(bytes)))
    throw IoError(concat("cannot read ", bytes, " bytes of ", path.string()));
  return text;
}

std::uint64_t parse_checksum(const json& value, const std::string& source) {
  std::uint64_t checksum = 0;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const char* end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, checksum, 16);
    if (status == std::errc{} && rest == end && text.size() == 16) return checksum;
  }
  throw FormatError(concat(source, ": a checksum is not 16 hexadecimal digits (",
                           value.dump().substr(0, 40), ")", kRemedy));
}

// The result of `work`; its FormatError says where the fault was.
template <typename Work>
auto named(const std::string& where, const Work& work) {
  try {
    return work();
  } catch (const FormatError& failure) {
    throw FormatError(concat(where, ": ", failure.what(), kRemedy));
  }
}

PackTensor parse_tensor(const json& from, const std::string& source,
                        std::span<const std::uint64_t> file_bytes) {
  PackTensor tensor;
  tensor.name = take<std::string>(from, "name", source);
  const std::string where = concat(source, ", tensor '", tensor.name, "'");
  tensor.kind = parse_tensor_kind(take<std::string>(from, "kind", where), where);
  tensor.rows = take<std::int64_t>(from, "rows", where);
  tensor.cols = take<std::int64_t>(from, "cols", where);
  tensor.format =
      named(where, [&] { return parse_weight_format(take<std::string>(from, "format", where)); });
  const auto rows_per_panel = take<std::int64_t>(from, "panel_rows", where);
  const auto file = take<std::int64_t>(from, "file", where);
  auto offset = static_cast<std::uint64_t>(take<std::int64_t>(from, "offset", where));
  const auto& checksums = from.find("checksums");
  if (checksums == from.end() || !checksums->is_array())
    throw FormatError(concat(where, ": 'checksums' is missing or not a list", kRemedy));
  if (rows_per_panel < 1 || tensor.rows < 1 ||
      (tensor.rows - 1) / rows_per_panel + 1 != static_cast<std::int64_t>(checksums->size()))
    throw FormatError(concat(where, ": ", checksums->size(), " checksums for ", tensor.rows,
                             " rows in panels of ", rows_per_panel, kRemedy));
  if (file >= static_cast<std::int64_t>(file_bytes.size()) || offset % kSectorBytes != 0)
    throw FormatError(concat(where, ": file ", file, ", offset ", offset, "; there are ",
                             file_bytes.size(), " files, and panels begin at multiples of ",
                             kSectorBytes, kRemedy));
  tensor.panels = named(source, [&] { return cut_panels(tensor, rows_per_panel); });
  const std::uint64_t size = file_bytes[static_cast<std::size_t>(file)];
  for (std::size_t i = 0; i < tensor.panels.size(); ++i) {
    PackPanel& panel = tensor.panels[i];
    panel.file = static_cast<int>(file);
    panel.offset = offset;
    panel.checksum = parse_checksum((*checksums)[i], where);
    if (offset > size || panel.stored_bytes() > size - offset)
      throw FormatError(concat(where, ": panel ", i, " ends at ", offset, " + ",
                               panel.stored_bytes(), ", but ", data_file_name(panel.file), " has ",
                               size, " bytes", kRemedy));
    offset += panel.stored_bytes();
  }
  return tensor;
}

}  // namespace

std::size_t PackPanel::stored_bytes() const { return round_up(layout.bytes, kSectorBytes); }

Pack::Pack(const std::filesystem::path& directory) : directory_(directory) {
  const std::string source = (directory / kPackJson).string();
  json root = json::parse(read_text(source), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object())
    throw FormatError(concat(source, " is not a JSON object; it is no pack, or damaged", kRemedy));
  const auto version = take<std::int64_t>(root, "version", source);
  if (version != kPackVersion)
    throw FormatError(concat(source, " has format version ", version, "; this barge reads version ",
                             kPackVersion, kRemedy));
  model_ = take<std::string>(root, "model", source);
  fingerprint_ = take<std::string>(root, "fingerprint", source);

  const auto wanted = take<std::vector<std::uint64_t>>(root, "file_bytes", source);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    files_.push_back(DiskFile::open(directory / data_file_name(static_cast<int>(i))));
    if (const std::uint64_t got = files_.back().bytes(); got != wanted[i])
      throw FormatError(concat(files_.back().path(), " has ", got, " bytes, but ", source, " says ",
                               wanted[i], kRemedy));
  }

  const auto tensors = root.find("tensors");
  if (tensors == root.end() || !tensors->is_array())
    throw FormatError(concat(source, ": 'tensors' is missing or not a list", kRemedy));
  for (const json& tensor : *tensors) {
    if (!tensor.is_object())
      throw FormatError(concat(source, ": a tensor is not an object", kRemedy));
    tensors_.push_back(parse_tensor(tensor, source, wanted));
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (!index_.emplace(tensors_[i].name, static_cast<int>(i)).second)
      throw FormatError(
          concat(source, ": tensor '", tensors_[i].name, "' is there twice", kRemedy));
}

Pack Pack::imagined(std::vector<PackTensor> tensors, const std::filesystem::path& directory) {
  Pack pack;
  pack.imagined_ = true;
  pack.directory_ = directory;
  pack.files_.push_back(DiskFile::scratch(directory));
  pack.tensors_ = std::move(tensors);
  std::uint64_t offset = 0;
  for (PackTensor& tensor : pack.tensors_) {
    tensor.panels =
        cut_panels(tensor, panel_rows(tensor.kind, tensor.rows, tensor.cols, tensor.format));
    for (PackPanel& panel : tensor.panels) {
      panel.offset = offset;
      offset += panel.stored_bytes();
    }
    pack.index_.emplace(tensor.name, static_cast<int>(pack.index_.size()));
  }
  return pack;
}

int Pack::find(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end())
    throw FormatError(concat("the pack ", directory_.string(), " has no tensor '", name,
                             "'; it was made for another model"));
  return found->second;
}

std::size_t Pack::bytes() const {
  std::size_t sum = 0;
  for (const DiskFile& file : files_) sum += file.bytes();
  return sum;
}

void Pack::check(const PackTensor& tensor, const PackPanel& panel,
                 std::span<const std::byte> stored) const {
  if (imagined_) return;
  const std::uint64_t got = checksum(stored);
  if (got == panel.checksum) return;
  throw FormatError(concat("panel ", &panel - tensor.panels.data(), " of '", tensor.name, "' in ",
                           file(panel.file).path(), " at offset ", panel.offset, " (",
                           stored.size(), " bytes) is damaged: checksum ", checksum_text(got),
                           ", wanted ", checksum_text(panel.checksum), kRemedy));
}

bool is_pack(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path / kPackJson, ignored);
}

}  // namespace barge
