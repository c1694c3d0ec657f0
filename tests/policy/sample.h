#pragma once

#include "core/bytes.h"
#include "core/errors.h"
#include "policy/model_shape.h"
#include "policy/profile.h"

namespace barge {

// 22 layers of seven matrices in panels of 1 MiB: some 640 MiB.
inline ModelShape model() {
  ModelShape shape;
  shape.layers = 22;
  shape.hidden = 2048;
  shape.heads = 32;
  shape.kv_heads = 4;
  shape.head_dim = 64;
  shape.vocab = 49152;
  for (int layer = 0; layer < shape.layers; ++layer)
    for (int part = 0; part < 2; ++part)
      for (const std::size_t panels : {3, 5, 6}) {
        ModelShape::Matrix m{concat("layers.", layer, ".", panels), 2 * layer + part, 2048,
                             static_cast<std::int64_t>(panels) * 1024};
        m.panel_bytes.assign(panels, 1_MiB);
        m.panel_bytes.back() = 512_KiB;
        shape.matrices.push_back(m);
      }
  shape.vector_bytes = 400_KiB;
  shape.kv_record_bytes = 1024;
  shape.scratch_bytes_per_row = 60000;
  shape.attention_bytes_per_row = 50000;
  shape.projected_bytes_per_row = 10240;  // of f32: q, k, v
  shape.attended_bytes_per_row = 4096;
  shape.attention_workspace_bytes = 1_MiB;
  shape.wanted_bytes_per_row = 210000;
  shape.table_row_bytes = 1152;
  shape.workspace_bytes.device = 8_MiB;
  shape.tokenizer_bytes = 4_MiB;
  return shape;
}

inline Profile machine() {
  Profile p;
  p.host_bytes = 20e9;
  p.disk_bytes = 100e9;
  p.disk_read = Curve({{65536, 1.6e9}});
  p.disk_write = Curve({{65536, 1e9}});
  p.host_copy = 10e9;
  for (const int bits : {4, 16}) {
    p.products[bits] = Curve({{1, 5e9}, {64, 4e11}, {1024, 6e11}});
    p.decode_attention[bits] = {5e10, 1e11};
  }
  p.prefill_attention = 2e11;
  p.elementwise = 1e10;
  p.draw = 1e9;
  p.call_seconds = 1e-6;
  return p;
}

}  // namespace barge
