// What the table of kernels (cuda_kernels.cc) gives to a stream. Each function launches and
// returns; formulas, shapes and types are those of Kernels (kernels.h). All pointers are to device
// memory that stays valid until the stream has passed. Matrices may have any stride; rows and cols
// may be 0 (then nothing is launched). Errors: DeviceError. No function allocates or synchronises.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/matrix_view.h"
#include "kernels/cuda/attention_work.h"
#include "kernels/kernels.h"
#include "quant/format.h"

namespace barge::cuda {

// norms.cu
void rms_norm(cudaStream_t stream, MatrixView x, const float* weight, float eps, MatrixView y);
void layer_norm(cudaStream_t stream, MatrixView x, const float* weight, const float* bias,
                float eps, MatrixView y);

// elementwise.cu
/// positions [x.rows], inverse_frequencies [head_dim / 2].
void rope(cudaStream_t stream, MatrixView x, int head_dim, const std::int32_t* positions,
          const float* inverse_frequencies);
void activate(cudaStream_t stream, Kernels::Activation activation, MatrixView gate, MatrixView up,
              MatrixView y);
/// y[i] = x[rows[i]], rows [y.rows].
void gather_rows(cudaStream_t stream, MatrixView x, const std::int32_t* rows, MatrixView y);
/// y = bias, or y += bias, in each row; bias [y.cols] f32, y f32 or 16-bit.
void add_bias(cudaStream_t stream, const float* bias, MatrixView y, Epilogue epilogue);

// dequantise.cu
/// All numbers of a panel as [layout.rows, layout.cols] in `to`'s type (rows `to.stride` apart),
/// rounded once. Any encoding, either group axis.
void dequantise(cudaStream_t stream, const WeightPanel& panel, MatrixView to);
/// The same for `count` panels of one layout, `spacing` bytes apart, as consecutive rows: tables
/// have thousands of small panels, which would be as many launches.
void dequantise_alike(cudaStream_t stream, const WeightPanel& first, std::size_t count,
                      std::size_t spacing, MatrixView to);
/// The same into f32, added to what is there if kAdd: embeddings.
void decode_rows(cudaStream_t stream, const WeightPanel& rows, MatrixView out, Epilogue epilogue);

// quantise.cu
/// The other way, bit for bit as encode_panel (quant/codec.h): from [layout.rows, layout.cols] f32.
void quantise(cudaStream_t stream, const PanelLayout& layout, MatrixView from, std::byte* panel);

// kv_append.cu
/// `work_there`: where the work's bytes are on the device.
void append_kv(cudaStream_t stream, const AttentionWork& work, const std::byte* work_there,
               MatrixView k, MatrixView v);

// attention.cu, on attention_decode.cu and attention_prefill.cu
/// Bytes of device workspace that `attend` wants for at most `max_rows` rows.
std::size_t attention_workspace_bytes(int heads, int head_dim, std::int64_t max_rows);
void attend(cudaStream_t stream, const AttentionWork& work, const std::byte* work_there,
            float scale, MatrixView q, MatrixView out, std::span<std::byte> workspace);

// sample.cu
/// params [logits.rows] and ids [logits.rows] on the device.
void draw(cudaStream_t stream, MatrixView logits, const DrawParams* params, std::int32_t* ids);

}  // namespace barge::cuda
