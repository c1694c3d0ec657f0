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

MatrixView ScratchMeter::wanted_scratch(std::int64_t cols, DType dtype) {
  reading_.wanted_bytes += padded_row_bytes(cols, dtype);
  return empty(cols, dtype);
}

}  // namespace barge
