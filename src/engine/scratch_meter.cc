#include "engine/scratch_meter.h"

#include "engine/buffers.h"

namespace barge {

ScratchMeter::Reading ScratchMeter::read(const Family& family, const Part& part, DType compute) {
  ScratchMeter meter(family.config(), compute);
  family.forward(part, meter);
  return meter.reading_;
}

MatrixView ScratchMeter::scratch(std::int64_t cols, DType dtype) {
  reading_.scratch_bytes += padded_row_bytes(cols, dtype);
  return empty(cols, dtype);
}

MatrixView ScratchMeter::projected(std::int64_t cols) {
  reading_.projected_bytes += padded_row_bytes(cols, DType::kF32);
  return empty(cols, DType::kF32);
}

MatrixView ScratchMeter::attended() {
  reading_.attended_bytes = padded_row_bytes(queries_, compute_);
  return empty(queries_, compute_);
}

MatrixView ScratchMeter::wanted_scratch(std::int64_t cols, DType dtype) {
  reading_.wanted_bytes += padded_row_bytes(cols, dtype);
  return empty(cols, dtype);
}

}  // namespace barge
