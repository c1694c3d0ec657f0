#include "engine/buffers.h"

#include "core/errors.h"

namespace barge {

std::byte* Arena::bytes(std::size_t bytes) {
  const std::size_t first = round_up(used_, 64);
  if (first + bytes > buffer_.bytes())
    throw Error(concat("a buffer of ", buffer_.bytes(), " bytes was planned too small: ", bytes,
                       " more are wanted after ", first, "; this is a bug of barge"));
  used_ = first + bytes;
  return buffer_.data() + first;
}

MatrixView Arena::matrix(std::int64_t rows, std::int64_t cols, DType dtype) {
  const std::size_t row_bytes = padded_row_bytes(cols, dtype);
  return {.data = bytes(static_cast<std::size_t>(rows) * row_bytes),
          .dtype = dtype,
          .rows = rows,
          .cols = cols,
          .stride = static_cast<std::int64_t>(row_bytes / size_of(dtype))};
}

SweepBuffers::SweepBuffers(Device& device, const Footprint& footprint)
    : hidden(device, footprint.hidden, "hidden states"),
      scratch(device, footprint.scratch, "scratch"),
      attended(device, footprint.attended, "scratch"),
      wanted(device, footprint.wanted, "logits"),
      lookup(device, footprint.lookup, "lookup") {
  if (!device.unified()) {
    ids = device.allocate(Tier::kDevice, footprint.ids, "logits");
    host_ids = device.allocate(Tier::kHost, footprint.ids, "logits");
    host_logits = device.allocate(Tier::kHost, footprint.logits_host, "logits");
  }
  if (footprint.projected > 0) projected.emplace(device, footprint.projected, "scratch");
}

}  // namespace barge
