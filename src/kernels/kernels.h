#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/matrix_view.h"
#include "quant/format.h"

namespace barge {

class CpuDevice;
class Device;

/// The new tokens of one sequence in a micro-batch.
struct AttentionSpan {
  std::int64_t first_row = 0;  // of q, k, v and out
  std::int32_t rows = 0;       // new tokens
  std::int32_t first_position =
      0;                // of the first new token; row i sees keys [0, first_position + i]
  bool prompt = false;  // positions of the prompt (prefill) or a generated one (decode)
  /// Device addresses of the pages that hold positions [0, first_position + rows), each
  /// `page_positions` records long.
  std::span<std::byte* const> pages;
};

/// Below this temperature the likeliest token is drawn (vLLM's bound).
inline constexpr float kGreedyTemperature = 1e-5f;

/// How a token is drawn from one row of logits. Each token weighs exp((x - largest) / temperature),
/// the exponent in f32; of the top_k likeliest, the likeliest whose weights reach top_p of all
/// these's are kept, at least one. The first kept token is drawn at which the sum of the weights
/// passes `uniform` of them all: by index where all are kept, else by falling logits and then by
/// index.
struct DrawParams {
  float temperature = 1;   // below kGreedyTemperature: the likeliest, of equal ones the first
  std::int32_t top_k = 0;  // 0: all
  float top_p = 1;
  double uniform = 0;  // in [0, 1), from the counter-based generator
};
/// Most tokens that every device draws from.
inline constexpr std::int64_t kMostDrawnTokens = 1 << 19;

enum class Epilogue : std::uint8_t { kStore, kAdd };  // y = ..., y += ...

/// The operations of a device on its compute stream. A call gives work to the stream and returns;
/// views must stay valid until an event recorded afterwards is done, spans and what they list only
/// until the call returns. Every result row is computed by itself: its bits depend on its own
/// input only, never on the other rows of the call (design §7).
class Kernels {
 public:
  virtual ~Kernels() = default;

  /// out[r] = decoded row r of `rows` (encoded as one panel would be, axis kInput), added to what
  /// is there if kAdd. out [layout.rows, layout.cols] f32.
  virtual void decode_rows(const WeightPanel& rows, MatrixView out, Epilogue epilogue) = 0;

  /// y = x / sqrt(mean(x^2) + eps) * weight. x [rows, cols] f32; weight [cols] f32 in device
  /// memory; y [rows, cols] any type.
  virtual void rms_norm(MatrixView x, const float* weight, float eps, MatrixView y) = 0;
  /// y = (x - mean) / sqrt(variance + eps) * weight + bias; otherwise as above.
  virtual void layer_norm(MatrixView x, const float* weight, const float* bias, float eps,
                          MatrixView y) = 0;

  /// y (+)= x W^T + bias, W the rows of all `panels` in order: [n, cols].
  /// x [rows, cols] in the compute type, rounded further where KernelLimits::activation_bits wants
  /// it; bias null or [n] f32 in device memory; y [rows, n], f32 (or the compute type if kStore).
  /// Products accumulate in f32. Throws ConfigError if x is wider than the limits that the table
  /// was made with.
  virtual void linear(MatrixView x, std::span<const WeightPanel> panels, const float* bias,
                      MatrixView y, Epilogue epilogue) = 0;

  /// Rotary embedding in place: x [rows, heads * head_dim] f32, positions [rows], inverse
  /// frequencies [head_dim / 2]; dimension i is rotated with i + head_dim / 2.
  virtual void rope(MatrixView x, int head_dim, std::span<const std::int32_t> positions,
                    std::span<const float> inverse_frequencies) = 0;

  enum class Activation : std::uint8_t { kSilu, kRelu, kGeluTanh, kGeluErf };
  /// y = act(gate) * up (up.data null: y = act(gate)). gate, up, y [rows, cols], any types.
  virtual void activate(Activation activation, MatrixView gate, MatrixView up, MatrixView y) = 0;

  /// Encodes k, v [rows, kv_heads * head_dim] f32 into the records of each span's new positions.
  virtual void append_kv(const KvFormat& format, int page_positions,
                         std::span<const AttentionSpan> spans, MatrixView k, MatrixView v) = 0;

  /// out = softmax(scale * q K^T) V for each row and head, after append_kv of the same spans.
  /// q [rows, heads * head_dim] f32; out likewise, f32 or the compute type. Softmax runs over key
  /// blocks of a fixed size from position 0. Throws ConfigError for heads that the limits don't
  /// cover, or an encoding that the KV cache doesn't have.
  virtual void attend(const KvFormat& format, int page_positions,
                      std::span<const AttentionSpan> spans, int heads, float scale, MatrixView q,
                      MatrixView out) = 0;

  /// y[i] = x[rows[i]]: both f32 [.., cols].
  virtual void gather_rows(MatrixView x, std::span<const std::int32_t> rows, MatrixView y) = 0;

  /// ids[i] = a token drawn from logits row i; -1 if the largest logit isn't finite or any is no
  /// number. logits [params, vocab] f32, vocab at most kMostDrawnTokens; ids [params] in device
  /// memory. Sums are rounded as the device likes: near the border of two tokens devices differ.
  virtual void draw(MatrixView logits, std::span<const DrawParams> params, std::int32_t* ids) = 0;
};

/// Bounds from which a kernel table takes its workspace, so that it can be planned for.
struct KernelLimits {
  DType compute = DType::kF32;  // type of the products' input
  std::int64_t max_rows = 0;    // in one call
  std::int64_t max_inputs = 0;  // widest x of `linear`
  int heads = 0, head_dim = 0;
  /// 8: on the CPU `linear` rounds each group of a row's inputs to 8 bits where the weights' groups
  /// of 4 or 8 bits lie along them (kernels/rounded_inputs.h); 16: it never does. Other devices
  /// take no notice.
  int activation_bits = 16;
};

/// kBF16 where this processor multiplies it faster than f32, else kF32.
DType preferred_compute_type();
/// 8 where this processor multiplies 8-bit codes faster than preferred_compute_type(): with AVX-512
/// VNNI, and no AMX, in which bf16 is as fast; else 16.
int preferred_activation_bits();
/// The version of the library that multiplies on the CPU, as it runs here: "oneDNN 2.6.3".
std::string cpu_library();

/// Bytes that make_cpu_kernels allocates for its workspace (tag "workspace").
std::size_t cpu_workspace_bytes(const KernelLimits& limits, int threads);
/// Throws ConfigError for float16, which the CPU can't multiply. bf16 works on every processor, and
/// fast where preferred_compute_type() says so. The table must not outlive `device`, nor be
/// destroyed before its work is done.
std::unique_ptr<Kernels> make_cpu_kernels(CpuDevice& device, const KernelLimits& limits);

/// The same operations, plain, slow and obviously right, on the device's compute stream.
/// Products round x and the weights to the compute type as the fast ones do.
std::unique_ptr<Kernels> make_reference_kernels(Device& device, const KernelLimits& limits);

}  // namespace barge
