#include "pack/convert.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "core/errors.h"
#include "core/thread_pool.h"
#include "model/description.h"
#include "model/family.h"
#include "offload/free_space.h"
#include "offload/pack.h"
#include "pack/panel_encoder.h"

namespace barge {
namespace {

constexpr int kDefaultGroup = 64;
constexpr int kMostGroup = 1 << 16;
constexpr int kConverter = 1;  // raise it when the same options give other bytes

bool is_16_bit(Encoding encoding) {
  return encoding == Encoding::kF16 || encoding == Encoding::kBF16;
}

// All tensors in sweep order, each once: a tied output layer names the table again.
std::vector<TensorSpec> tensors_of(const Checkpoint& checkpoint) {
  std::vector<TensorSpec> tensors;
  std::set<std::string> names;
  for (const Part& part : make_family(checkpoint.config())->parts())
    for (const TensorSpec& tensor : part.tensors)
      if (names.insert(tensor.name).second) tensors.push_back(tensor);
  return tensors;
}

void require_free_space(std::size_t bytes, const std::filesystem::path& directory) {
  const std::size_t free = free_space(directory);
  if (free > 0 && free < bytes)  // 0: the system won't say; the write will
    throw IoError(concat("cannot write the pack ", directory.string(), ": wanted ",
                         format_bytes(bytes), " of disk, got ", format_bytes(free),
                         "; free some, choose another place, or fewer bits with --weight-bits"));
}

// Panels from `first` on that together have no more bytes than the largest panel may have.
std::size_t batch_size(std::span<const PackPanel> panels) {
  std::size_t count = 1, bytes = panels[0].layout.bytes;
  while (count < panels.size() && (bytes += panels[count].layout.bytes) <= kMaxPanelBytes) ++count;
  return count;
}

}  // namespace

int parse_weight_bits(const std::string& text) {
  if (text.empty()) return 0;
  if (text == "auto")
    throw ConfigError(
        "--weight-bits auto wants a job to plan for, as `barge run`, `serve`, `bench` and `plan` "
        "have one; give 4, 8, 16 or 32");
  for (const int bits : {4, 8, 16, 32})
    if (text == std::to_string(bits)) return bits;
  throw ConfigError(concat("--weight-bits: wanted 4, 8, 16, 32 or auto, got \"", text, "\""));
}

void validate(const ConvertOptions& options) {
  const int bits = options.weight_bits;
  if (bits != 0 && bits != 4 && bits != 8 && bits != 16 && bits != 32)
    throw ConfigError(concat("--weight-bits: wanted 4, 8, 16 or 32, got ", bits));
  if (options.group < 0 || options.group > kMostGroup || options.group % 2 != 0)
    throw ConfigError(
        concat("--group-size: wanted an even number up to ", kMostGroup, ", got ", options.group));
}

WeightFormat packed_format(const Checkpoint& checkpoint, const TensorSpec& tensor,
                           const ConvertOptions& options) {
  if (tensor.kind == TensorSpec::Kind::kVector) return {.encoding = Encoding::kF32};
  const WeightFormat stored = checkpoint.stored_format(tensor);
  const bool as_stored = options.weight_bits == 0 && !is_16_bit(stored.encoding);
  Encoding wanted = stored.encoding;
  switch (as_stored ? 0 : std::max(options.weight_bits, 4)) {
    case 4:
      wanted = Encoding::kQ4;
      break;
    case 8:
      wanted = Encoding::kQ8;
      break;
    case 16:  // f32 and quantised numbers: bf16 has their range
      wanted = is_16_bit(stored.encoding) ? stored.encoding : Encoding::kBF16;
      break;
    case 32:
      wanted = Encoding::kF32;
      break;
    default:
      break;
  }
  const bool grouped = wanted == Encoding::kQ4 || wanted == Encoding::kQ8;
  if (!grouped) return {.encoding = wanted};
  const GroupAxis axis = tensor.kind == TensorSpec::Kind::kTable ? GroupAxis::kInput : options.axis;
  if (wanted == stored.encoding && options.group == 0 && axis == stored.axis) return stored;
  return {wanted, options.group == 0 ? kDefaultGroup : options.group, axis};
}

std::size_t packed_bytes(const Checkpoint& checkpoint, const ConvertOptions& options) {
  std::size_t bytes = 0;
  for (const TensorSpec& t : tensors_of(checkpoint))
    bytes += panel_layout(packed_format(checkpoint, t, options), t.rows, t.cols).bytes;
  return bytes;
}

std::string pack_fingerprint(const Checkpoint& checkpoint, const ConvertOptions& options) {
  return concat(checkpoint.fingerprint(), "/bits=", options.weight_bits, "/group=", options.group,
                "/axis=", options.axis == GroupAxis::kInput ? "input" : "output",
                "/pack=", kPackVersion, ".", kConverter);
}

void convert(const Checkpoint& checkpoint, const ConvertOptions& options,
             const std::filesystem::path& directory, const PackProgress& progress) {
  validate(options);
  const std::size_t total = packed_bytes(checkpoint, options);  // every tensor is there, too
  require_free_space(total, directory);
  PackWriter writer(directory);
  ThreadPool pool(options.threads > 0 ? options.threads : usable_processors());
  PanelEncoder encoder(checkpoint, pool);
  std::vector<std::vector<std::byte>> buffers;
  std::size_t done = 0;
  for (const TensorSpec& tensor : tensors_of(checkpoint)) {
    std::span<const PackPanel> left =
        writer.begin(tensor.name, tensor.kind, tensor.rows, tensor.cols,
                     packed_format(checkpoint, tensor, options));
    while (!left.empty()) {
      const std::size_t count = batch_size(left);
      if (buffers.size() < count) buffers.resize(count);
      encoder.encode(tensor, left.first(count), buffers);
      for (std::size_t i = 0; i < count; ++i) {
        writer.write(buffers[i]);
        done += buffers[i].size();
      }
      left = left.subspan(count);
      if (progress) progress(std::min(done, total), total);
    }
  }
  buffers = {};
  writer.finish(description_to_json({checkpoint.config(), checkpoint.tokenizer()}),
                pack_fingerprint(checkpoint, options));
  if (progress) progress(total, total);
}

}  // namespace barge
