// Every operation in the plainest way, in double where that costs nothing: what the fast kernels
// are held against. Speed doesn't matter here.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "core/device.h"
#include "core/errors.h"
#include "kernels/attention_batch.h"
#include "kernels/kernels.h"
#include "kernels/reference/rounded_inputs.h"
#include "kernels/rounded_inputs.h"
#include "quant/codec.h"

namespace barge {
namespace {

float get(const MatrixView& x, std::int64_t r, std::int64_t c) {
  switch (x.dtype) {
    case DType::kF32:
      return x.row_as<float>(r)[c];
    case DType::kF16:
      return to_f32(x.row_as<F16>(r)[c]);
    case DType::kBF16:
      return to_f32(x.row_as<BF16>(r)[c]);
  }
  return 0;
}

void set(const MatrixView& y, std::int64_t r, std::int64_t c, float value) {
  switch (y.dtype) {
    case DType::kF32:
      y.row_as<float>(r)[c] = value;
      break;
    case DType::kF16:
      y.row_as<F16>(r)[c] = to_f16(value);
      break;
    case DType::kBF16:
      y.row_as<BF16>(r)[c] = to_bf16(value);
      break;
  }
}

// `start` and the products, in order. ThreadSanitizer need not watch: both are the caller's own.
[[gnu::no_sanitize("thread")]] double dot(double start, const float* a, const float* b,
                                          std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) start += static_cast<double>(a[i]) * b[i];
  return start;
}

std::span<const std::byte> bytes_of(const WeightPanel& panel) {
  return {panel.data, panel.layout.bytes};
}

float activated(Kernels::Activation activation, float x) {
  switch (activation) {
    case Kernels::Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Kernels::Activation::kRelu:
      return std::max(x, 0.0f);
    case Kernels::Activation::kGeluTanh:
      return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    case Kernels::Activation::kGeluErf:
      return 0.5f * x * (1 + std::erf(x * 0.7071067812f));
  }
  return x;
}

// Where position `position` of a span's sequence is.
std::byte* record(const AttentionSpan& span, const KvFormat& format, int page_positions,
                  std::int64_t position) {
  return span.pages[static_cast<std::size_t>(position / page_positions)] +
         static_cast<std::size_t>(position % page_positions) * format.record_bytes();
}

class ReferenceKernels final : public Kernels {
 public:
  ReferenceKernels(Device& device, const KernelLimits& limits)
      : stream_(device.compute()),
        compute_(limits.compute),
        activation_bits_(limits.activation_bits) {}

  void decode_rows(const WeightPanel& rows, MatrixView out, Epilogue epilogue) override {
    stream_.call([=] {
      std::vector<float> row(static_cast<std::size_t>(rows.layout.cols));
      for (std::int64_t r = 0; r < rows.layout.rows; ++r) {
        decode_panel_row(rows.layout, bytes_of(rows), r, row);
        for (std::int64_t c = 0; c < rows.layout.cols; ++c)
          set(out, r, c, row[c] + (epilogue == Epilogue::kAdd ? get(out, r, c) : 0.0f));
      }
    });
  }

  void rms_norm(MatrixView x, const float* weight, float eps, MatrixView y) override {
    stream_.call([=] {
      for (std::int64_t r = 0; r < x.rows; ++r) {
        double squares = 0;
        for (std::int64_t c = 0; c < x.cols; ++c) squares += std::pow(get(x, r, c), 2.0);
        const double factor = 1 / std::sqrt(squares / static_cast<double>(x.cols) + eps);
        for (std::int64_t c = 0; c < x.cols; ++c)
          set(y, r, c, static_cast<float>(get(x, r, c) * factor * weight[c]));
      }
    });
  }

  void layer_norm(MatrixView x, const float* weight, const float* bias, float eps,
                  MatrixView y) override {
    stream_.call([=] {
      const auto n = static_cast<double>(x.cols);
      for (std::int64_t r = 0; r < x.rows; ++r) {
        double mean = 0, variance = 0;
        for (std::int64_t c = 0; c < x.cols; ++c) mean += get(x, r, c) / n;
        for (std::int64_t c = 0; c < x.cols; ++c)
          variance += std::pow(get(x, r, c) - mean, 2.0) / n;
        for (std::int64_t c = 0; c < x.cols; ++c)
          set(y, r, c,
              static_cast<float>((get(x, r, c) - mean) / std::sqrt(variance + eps) * weight[c] +
                                 bias[c]));
      }
    });
  }

  void linear(MatrixView x, std::span<const WeightPanel> panels, const float* bias, MatrixView y,
              Epilogue epilogue) override {
    stream_.call([=, this, panels = std::vector(panels.begin(), panels.end())] {
      const bool codes = activation_bits_ == 8 && inputs_are_rounded(panels);
      const DType type = codes ? DType::kF32 : compute_;
      std::vector<float> input;
      for (std::int64_t r = 0; r < x.rows; ++r) {
        for (std::int64_t c = 0; c < x.cols; ++c) input.push_back(rounded_to(type, get(x, r, c)));
        if (codes)
          round_inputs(std::span(input).last(static_cast<std::size_t>(x.cols)),
                       panels.front().layout.format.group);
      }
      std::vector<float> w(static_cast<std::size_t>(x.cols));
      std::int64_t n = 0;
      for (const WeightPanel& panel : panels)
        for (std::int64_t channel = 0; channel < panel.layout.rows; ++channel, ++n) {
          decode_panel_row(panel.layout, bytes_of(panel), channel, w);
          for (float& value : w) value = rounded_to(type, value);
          for (std::int64_t r = 0; r < x.rows; ++r) {
            double sum = dot(bias != nullptr ? bias[n] : 0, &input[r * x.cols], w.data(), x.cols);
            if (epilogue == Epilogue::kAdd) sum += get(y, r, n);
            set(y, r, n, static_cast<float>(sum));
          }
        }
    });
  }

  void rope(MatrixView x, int head_dim, std::span<const std::int32_t> positions,
            std::span<const float> inverse_frequencies) override {
    stream_.call(
        [=, positions = std::vector(positions.begin(), positions.end()),
         frequencies = std::vector(inverse_frequencies.begin(), inverse_frequencies.end())] {
          const int half = head_dim / 2;
          for (std::int64_t r = 0; r < x.rows; ++r)
            for (std::int64_t first = 0; first < x.cols; first += head_dim)
              for (int i = 0; i < half; ++i) {
                // The angle in f32, as the models were trained with.
                const float angle = static_cast<float>(positions[r]) * frequencies[i];
                const float a = get(x, r, first + i), b = get(x, r, first + i + half);
                set(x, r, first + i, a * std::cos(angle) - b * std::sin(angle));
                set(x, r, first + i + half, b * std::cos(angle) + a * std::sin(angle));
              }
        });
  }

  void activate(Activation activation, MatrixView gate, MatrixView up, MatrixView y) override {
    stream_.call([=] {
      for (std::int64_t r = 0; r < gate.rows; ++r)
        for (std::int64_t c = 0; c < gate.cols; ++c)
          set(y, r, c,
              activated(activation, get(gate, r, c)) * (up.data != nullptr ? get(up, r, c) : 1.0f));
    });
  }

  void append_kv(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
                 MatrixView k, MatrixView v) override {
    stream_.call([=, batch = AttentionBatch(spans)] {
      for (const AttentionSpan& span : batch.spans())
        for (std::int32_t i = 0; i < span.rows; ++i) {
          std::vector<float> k_row, v_row;
          for (std::int64_t c = 0; c < k.cols; ++c) {
            k_row.push_back(get(k, span.first_row + i, c));
            v_row.push_back(get(v, span.first_row + i, c));
          }
          encode_kv(format, k_row, v_row,
                    {record(span, format, page_positions, span.first_position + i),
                     format.record_bytes()});
        }
    });
  }

  void attend(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
              int heads, float scale, MatrixView q, MatrixView out) override {
    stream_.call([=, batch = AttentionBatch(spans)] {
      for (const AttentionSpan& span : batch.spans()) {
        const DecodedKv kv = decoded(format, page_positions, span);
        for (std::int32_t i = 0; i < span.rows; ++i)
          attend_row(format, span, i, kv, heads, scale, q, out);
      }
    });
  }

  void gather_rows(MatrixView x, std::span<const std::int32_t> rows, MatrixView y) override {
    stream_.call([=, rows = std::vector(rows.begin(), rows.end())] {
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::int64_t c = 0; c < x.cols; ++c)
          set(y, static_cast<std::int64_t>(i), c, get(x, rows[i], c));
    });
  }

  void draw(MatrixView logits, std::span<const DrawParams> params, std::int32_t* ids) override {
    stream_.call([=, params = std::vector(params.begin(), params.end())] {
      for (std::size_t r = 0; r < params.size(); ++r)
        ids[r] = draw_from({logits.row_as<float>(static_cast<std::int64_t>(r)),
                            static_cast<std::size_t>(logits.cols)},
                           params[r]);
    });
  }

 private:
  static std::int32_t draw_from(std::span<const float> logits, const DrawParams& params) {
    const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) return -1;
    const std::int32_t likeliest = *std::ranges::max_element(order, {}, logit);
    if (!std::isfinite(logit(likeliest))) return -1;
    if (params.temperature < kGreedyTemperature) return likeliest;

    if (params.top_k > 0 || params.top_p < 1)
      std::ranges::stable_sort(order, std::ranges::greater(), logit);
    if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < order.size())
      order.resize(static_cast<std::size_t>(params.top_k));
    double sum = 0;
    std::vector<double> through;  // the sum of the weights up to each token of the order
    for (const std::int32_t id : order) {
      const double exponent = (logit(id) - logit(likeliest)) / params.temperature;  // f32, as given
      through.push_back(sum += std::exp(exponent));
    }
    if (params.top_p < 1) sum = *std::ranges::lower_bound(through, params.top_p * sum);
    return order[static_cast<std::size_t>(std::ranges::upper_bound(through, params.uniform * sum) -
                                          through.begin())];
  }

  struct DecodedKv {
    std::vector<std::vector<float>> k, v;  // [positions of a span][kv_heads * head_dim]
  };
  static DecodedKv decoded(const KvFormat& format, int page_positions, const AttentionSpan& span) {
    const auto positions = static_cast<std::size_t>(span.first_position + span.rows);
    const std::vector<float> none(static_cast<std::size_t>(format.kv_heads * format.head_dim));
    DecodedKv kv{.k = std::vector(positions, none), .v = std::vector(positions, none)};
    for (std::size_t p = 0; p < positions; ++p)
      decode_kv(format,
                {record(span, format, page_positions, static_cast<std::int64_t>(p)),
                 format.record_bytes()},
                kv.k[p], kv.v[p]);
    return kv;
  }

  static void attend_row(const KvFormat& format, const AttentionSpan& span, std::int32_t i,
                         const DecodedKv& kv, int heads, float scale, const MatrixView& q,
                         const MatrixView& out) {
    const std::int64_t row = span.first_row + i, keys = span.first_position + i + 1;
    const int dim = format.head_dim, heads_per_kv = heads / format.kv_heads;
    for (int head = 0; head < heads; ++head) {
      const int first = head / heads_per_kv * dim;
      std::vector<double> weight(keys);
      for (std::int64_t p = 0; p < keys; ++p)
        for (int d = 0; d < dim; ++d)
          weight[p] +=
              static_cast<double>(scale) * get(q, row, head * dim + d) * kv.k[p][first + d];
      const double most = *std::max_element(weight.begin(), weight.end());
      double sum = 0;
      for (double& w : weight) sum += w = std::exp(w - most);
      for (int d = 0; d < dim; ++d) {
        double value = 0;
        for (std::int64_t p = 0; p < keys; ++p) value += weight[p] / sum * kv.v[p][first + d];
        set(out, row, head * dim + d, static_cast<float>(value));
      }
    }
  }

  Stream& stream_;
  const DType compute_;
  const int activation_bits_;
};

}  // namespace

std::unique_ptr<Kernels> make_reference_kernels(Device& device, const KernelLimits& limits) {
  return std::make_unique<ReferenceKernels>(device, limits);
}

}  // namespace barge
