#include "model/file_checkpoint.h"

#include <charconv>

#include "core/errors.h"

namespace barge {

StoredTensor FileCheckpoint::checked(const TensorSpec& tensor) const {
  const StoredTensor stored = locate(tensor);
  const std::string where = concat(stored.file->path().string(), ": tensor \"", tensor.name, "\"");
  if (stored.rows != tensor.rows || stored.cols != tensor.cols)
    throw FormatError(concat(where, ": wanted ", tensor.rows, " x ", tensor.cols, " numbers, got ",
                             stored.rows, " x ", stored.cols));
  const StoredBlock block = block_of(stored.type);
  if (stored.cols % block.numbers != 0)
    throw FormatError(concat(where, ": wanted rows of a multiple of ", block.numbers,
                             " numbers, as ", name_of(stored.type), " stores them, got ",
                             stored.cols));
  const std::int64_t heads_rows = stored.rows == 1 ? stored.cols : stored.rows;
  if (stored.interleaved_head > 0 && heads_rows % stored.interleaved_head != 0)
    throw FormatError(concat(where, ": wanted heads of ", stored.interleaved_head, " rows, got ",
                             heads_rows, " rows"));
  // The shape is a config's, whose sizes are bounded: the product can't overflow.
  const std::uint64_t bytes = static_cast<std::uint64_t>(stored.rows) * stored.row_bytes();
  if (stored.offset > stored.file->size() || bytes > stored.file->size() - stored.offset)
    throw FormatError(concat(where, ": wanted ", bytes, " bytes at offset ", stored.offset,
                             ", got a file of ", stored.file->size(), " bytes; fetch it again"));
  return stored;
}

WeightFormat FileCheckpoint::stored_format(const TensorSpec& tensor) const {
  return lossless_format(checked(tensor).type);
}

void FileCheckpoint::read_rows(const TensorSpec& tensor, std::int64_t first, std::int64_t count,
                               std::span<float> out) const {
  read_stored_rows(checked(tensor), first, count, out);
}

void FileCheckpoint::read_panel(const TensorSpec& tensor, std::int64_t first,
                                const PanelLayout& layout, std::span<std::byte> panel) const {
  read_stored_panel(checked(tensor), first, layout, panel);
}

CanonicalName split_canonical_name(const std::string& name) {
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return {-1, name};
  CanonicalName result;
  const char* end = name.data() + name.size();
  const auto [rest, status] = std::from_chars(name.data() + kPrefix.size(), end, result.layer);
  if (status != std::errc{} || rest == end || *rest != '.')
    throw FormatError(concat("\"", name, "\" is not a tensor's name; wanted layers.N.NAME"));
  result.tensor.assign(rest + 1, end);
  return result;
}

}  // namespace barge
