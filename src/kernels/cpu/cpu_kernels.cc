// The CPU's table of kernels: gives work to the compute stream, which spreads rows over the pool.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "core/errors.h"
#include "kernels/attention_batch.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/code_linear.h"
#include "kernels/cpu/dequantise.h"
#include "kernels/cpu/draw.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kv_append.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/norm.h"
#include "kernels/kernels.h"
#include "kernels/rounded_inputs.h"

namespace barge {
namespace {

// Numbers that are worth waking a thread for.
constexpr std::int64_t kNumbersATask = 16 * 1024;

// Workspace of one thread; products and attention use it by turns.
std::size_t thread_workspace_bytes(const KernelLimits& limits) {
  std::size_t bytes = Linear::workspace_bytes(limits);
  if (limits.activation_bits == 8) bytes = std::max(bytes, CodeLinear::workspace_bytes(limits));
  if (limits.heads > 0)
    bytes = std::max(bytes, attention_workspace_bytes(limits.heads, limits.head_dim));
  return round_up(bytes, 64);
}

// Of all threads together, behind theirs.
std::size_t shared_workspace_bytes(const KernelLimits& limits) {
  return limits.activation_bits == 8 ? CodeLinear::shared_bytes(limits) : 0;
}

void require_compute_type(const KernelLimits& limits) {
  if (limits.compute == DType::kF16)
    throw ConfigError(
        "the CPU has no float16 products; --dtype takes float32 or bfloat16 there (float16 needs "
        "--device cuda)");
}

class CpuKernels final : public Kernels {
 public:
  CpuKernels(CpuDevice& device, const KernelLimits& limits)
      : limits_(limits),
        stream_(device.compute()),
        pool_(device.pool()),
        thread_bytes_(thread_workspace_bytes(limits)),
        workspace_(device.allocate(Tier::kDevice, cpu_workspace_bytes(limits, pool_.threads()),
                                   "workspace")),
        linear_(limits, pool_, workspace_.data(), thread_bytes_),
        code_linear_(
            limits, pool_, workspace_.data(), thread_bytes_,
            workspace_.data() + thread_bytes_ * static_cast<std::size_t>(pool_.threads())) {}

  void decode_rows(const WeightPanel& rows, MatrixView out, Epilogue epilogue) override {
    stream_.call([=, this] {
      for_rows(rows.layout.rows, rows.layout.cols, [&](std::int64_t row) {
        decode_row(rows, row, 0, rows.layout.cols, epilogue, out.row_as<float>(row));
      });
    });
  }

  void rms_norm(MatrixView x, const float* weight, float eps, MatrixView y) override {
    stream_.call([=, this] {
      for_rows(x.rows, x.cols, [&](std::int64_t row) { rms_norm_row(x, row, weight, eps, y); });
    });
  }

  void layer_norm(MatrixView x, const float* weight, const float* bias, float eps,
                  MatrixView y) override {
    stream_.call([=, this] {
      for_rows(x.rows, x.cols,
               [&](std::int64_t row) { layer_norm_row(x, row, weight, bias, eps, y); });
    });
  }

  void linear(MatrixView x, std::span<const WeightPanel> panels, const float* bias, MatrixView y,
              Epilogue epilogue) override {
    if (x.cols > limits_.max_inputs)
      throw ConfigError(concat("a product of ", x.cols, " inputs, but the kernels' workspace was ",
                               "planned for ", limits_.max_inputs));
    stream_.call([=, this, channels = ChannelMap(panels)] {
      if (limits_.activation_bits == 8 && inputs_are_rounded(channels.panels()))
        code_linear_.run(x, channels, bias, y, epilogue);
      else
        linear_.run(x, channels, bias, y, epilogue);
    });
  }

  void rope(MatrixView x, int head_dim, std::span<const std::int32_t> positions,
            std::span<const float> inverse_frequencies) override {
    stream_.call(
        [=, this, positions = std::vector(positions.begin(), positions.end()),
         frequencies = std::vector(inverse_frequencies.begin(), inverse_frequencies.end())] {
          const std::size_t half = static_cast<std::size_t>(head_dim) / 2;
          for_rows(x.rows, x.cols, [&](std::int64_t row) {
            // Grows once a thread; the library's sine is exact for large angles too.
            thread_local std::vector<float> cosines, sines;
            cosines.resize(half);
            sines.resize(half);
            for (std::size_t i = 0; i < half; ++i) {
              const float angle = static_cast<float>(positions[row]) * frequencies[i];
              cosines[i] = std::cos(angle);
              sines[i] = std::sin(angle);
            }
            rotate_row(x.row_as<float>(row), x.cols / head_dim, static_cast<std::int64_t>(half),
                       cosines.data(), sines.data());
          });
        });
  }

  void activate(Activation activation, MatrixView gate, MatrixView up, MatrixView y) override {
    stream_.call([=, this] {
      for_rows(gate.rows, gate.cols,
               [&](std::int64_t row) { activate_row(activation, gate, up, y, row); });
    });
  }

  void append_kv(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
                 MatrixView k, MatrixView v) override {
    require_kv(format);
    stream_.call([=, this, batch = AttentionBatch(spans)] {
      std::vector<std::pair<const AttentionSpan*, std::int32_t>> rows;
      for (const AttentionSpan& span : batch.spans())
        for (std::int32_t i = 0; i < span.rows; ++i) rows.emplace_back(&span, i);
      for_rows(static_cast<std::int64_t>(rows.size()), 2 * k.cols, [&](std::int64_t at) {
        const auto& [span, i] = rows[static_cast<std::size_t>(at)];
        const int position = span->first_position + i;
        append_record(
            format, k.row_as<float>(span->first_row + i), v.row_as<float>(span->first_row + i),
            span->pages[static_cast<std::size_t>(position / page_positions)] +
                static_cast<std::size_t>(position % page_positions) * format.record_bytes());
      });
    });
  }

  void attend(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
              int heads, float scale, MatrixView q, MatrixView out) override {
    require_kv(format);
    if (attention_workspace_bytes(heads, format.head_dim) > thread_bytes_ ||
        heads % format.kv_heads != 0)
      throw ConfigError(concat("attention with ", heads, " heads of ", format.head_dim, " over ",
                               format.kv_heads,
                               " KV heads, but the kernels' workspace was planned ", "for ",
                               limits_.heads, " of ", limits_.head_dim));
    stream_.call([=, this, batch = AttentionBatch(spans)] {
      const AttentionShape shape{
          format, page_positions, heads, scale, q, out, limits_.compute == DType::kBF16};
      const auto pieces = attention_pieces(shape, batch.spans(), pool_.threads());
      pool_.run(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int thread) {
        const AttentionPiece& piece = pieces[static_cast<std::size_t>(i)];
        attend_piece(shape, batch.spans()[piece.span], piece,
                     workspace_.data() + static_cast<std::size_t>(thread) * thread_bytes_);
      });
    });
  }

  void gather_rows(MatrixView x, std::span<const std::int32_t> rows, MatrixView y) override {
    stream_.call([=, this, rows = std::vector(rows.begin(), rows.end())] {
      for_rows(static_cast<std::int64_t>(rows.size()), x.cols, [&](std::int64_t i) {
        std::memcpy(y.row(i), x.row(rows[static_cast<std::size_t>(i)]),
                    sizeof(float) * static_cast<std::size_t>(x.cols));
      });
    });
  }

  void draw(MatrixView logits, std::span<const DrawParams> params, std::int32_t* ids) override {
    stream_.call([=, this, params = std::vector(params.begin(), params.end())] {
      for_rows(logits.rows, logits.cols, [&](std::int64_t row) {
        thread_local DrawScratch scratch;  // grows once a thread
        ids[row] = draw_token({logits.row_as<float>(row), static_cast<std::size_t>(logits.cols)},
                              params[static_cast<std::size_t>(row)], scratch);
      });
    });
  }

 private:
  static void require_kv(const KvFormat& format) {
    if (format.encoding != Encoding::kF32 && format.encoding != Encoding::kF16 &&
        format.encoding != Encoding::kQ4)
      throw ConfigError(concat("the KV cache can't be stored as ",
                               to_string(WeightFormat{format.encoding, format.group}),
                               "; --kv-bits takes 32, 16 or 4"));
  }

  // Calls work(row) for each of `rows` rows of `cols` numbers; from the compute stream only.
  template <typename Work>
  void for_rows(std::int64_t rows, std::int64_t cols, const Work& work) {
    const std::int64_t chunk =
        std::max<std::int64_t>(1, kNumbersATask / std::max<std::int64_t>(cols, 1));
    pool_.run((rows + chunk - 1) / chunk, [&](std::int64_t i, int) {
      const std::int64_t end = std::min(rows, (i + 1) * chunk);
      for (std::int64_t row = i * chunk; row < end; ++row) work(row);
    });
  }

  const KernelLimits limits_;
  Stream& stream_;
  ThreadPool& pool_;
  const std::size_t thread_bytes_;
  const Buffer workspace_;
  Linear linear_;
  CodeLinear code_linear_;
};

}  // namespace

std::size_t cpu_workspace_bytes(const KernelLimits& limits, int threads) {
  require_compute_type(limits);
  return thread_workspace_bytes(limits) * static_cast<std::size_t>(threads) +
         shared_workspace_bytes(limits);
}

std::unique_ptr<Kernels> make_cpu_kernels(CpuDevice& device, const KernelLimits& limits) {
  require_compute_type(limits);
  return std::make_unique<CpuKernels>(device, limits);
}

}  // namespace barge
