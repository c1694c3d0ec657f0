// The GPU's table of kernels: what the launchers of operations.h need beside views, on the compute
// stream.
#include "kernels/cuda/cuda_kernels.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/log.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/upload_ring.h"

namespace barge::cuda {
namespace {

constexpr std::size_t kAlignment = 256;  // of parts of the workspace

// Products and attention take turns on the stream, and so use the same memory.
std::size_t shared_bytes(const KernelLimits& limits) {
  std::size_t bytes = Product::workspace_bytes(limits);
  if (limits.heads > 0)
    bytes =
        std::max(bytes, attention_workspace_bytes(limits.heads, limits.head_dim, limits.max_rows));
  return round_up(bytes, kAlignment);
}

// What `numbers` are in memory, behind what is there, at a multiple of 16. Returns where.
template <typename T>
std::size_t append(std::vector<std::byte>& bytes, std::span<const T> numbers) {
  const std::size_t at = round_up(bytes.size(), 16);
  bytes.resize(at + numbers.size_bytes());
  if (!numbers.empty()) std::memcpy(bytes.data() + at, numbers.data(), numbers.size_bytes());
  return at;
}

class CudaKernels final : public Kernels {
 public:
  CudaKernels(CudaDevice& device, const KernelLimits& limits)
      : limits_(limits),
        stream_(device.compute()),
        memory_(device.allocate(Tier::kDevice, cuda_workspace_bytes(limits).device, "workspace")),
        workspace_(memory_.data(), shared_bytes(limits)),
        uploads_(device, device.events(), {memory_.data() + workspace_.size(), kUploadBytes}),
        product_(device, limits, workspace_) {}

  ~CudaKernels() override {
    const Product::Report report = product_.report();
    log::debug(concat("matrix products: ", report.shapes, " shapes, ", report.tiled.size(),
                      " of them in tiles of rows"));
    for (const std::string& shape : report.tiled)
      log::info(concat("cuBLASLt gave rows of ", shape,
                       " other bits with other numbers of rows, so that they went in fixed tiles"));
  }

  void decode_rows(const WeightPanel& rows, MatrixView out, Epilogue epilogue) override {
    stream_.submit([=](cudaStream_t s) { cuda::decode_rows(s, rows, out, epilogue); });
  }

  void rms_norm(MatrixView x, const float* weight, float eps, MatrixView y) override {
    stream_.submit([=](cudaStream_t s) { cuda::rms_norm(s, x, weight, eps, y); });
  }

  void layer_norm(MatrixView x, const float* weight, const float* bias, float eps,
                  MatrixView y) override {
    stream_.submit([=](cudaStream_t s) { cuda::layer_norm(s, x, weight, bias, eps, y); });
  }

  void linear(MatrixView x, std::span<const WeightPanel> panels, const float* bias, MatrixView y,
              Epilogue epilogue) override {
    if (x.cols > limits_.max_inputs)
      throw ConfigError(concat("a product of ", x.cols, " inputs, but the kernels' workspace was ",
                               "planned for ", limits_.max_inputs));
    stream_.submit([=, this, list = std::vector(panels.begin(), panels.end())](cudaStream_t s) {
      product_.run(s, x, list, bias, y, epilogue);
    });
  }

  void rope(MatrixView x, int head_dim, std::span<const std::int32_t> positions,
            std::span<const float> inverse_frequencies) override {
    std::vector<std::byte> lists;
    const std::size_t positions_at = append(lists, positions);
    const std::size_t frequencies_at = append(lists, inverse_frequencies);
    stream_.submit([=, this, lists = std::move(lists)](cudaStream_t s) {
      const std::byte* there = uploads_.upload(s, lists);
      cuda::rope(s, x, head_dim, reinterpret_cast<const std::int32_t*>(there + positions_at),
                 reinterpret_cast<const float*>(there + frequencies_at));
    });
  }

  void activate(Activation activation, MatrixView gate, MatrixView up, MatrixView y) override {
    stream_.submit([=](cudaStream_t s) { cuda::activate(s, activation, gate, up, y); });
  }

  void append_kv(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
                 MatrixView k, MatrixView v) override {
    require_kv(format);
    // With attend's heads, so that the two calls have one work to copy.
    const int heads =
        limits_.heads > 0 && limits_.heads % format.kv_heads == 0 ? limits_.heads : format.kv_heads;
    const auto work = std::make_shared<const AttentionWork>(spans, format, page_positions, heads);
    if (work->empty()) return;
    stream_.submit([=, this](cudaStream_t s) {
      cuda::append_kv(s, *work, uploads_.upload(s, work->bytes()), k, v);
    });
  }

  void attend(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
              int heads, float scale, MatrixView q, MatrixView out) override {
    require_kv(format);
    require_heads(format, heads);
    const auto work = std::make_shared<const AttentionWork>(spans, format, page_positions, heads);
    if (work->empty()) return;
    stream_.submit([=, this](cudaStream_t s) {
      cuda::attend(s, *work, uploads_.upload(s, work->bytes()), scale, q, out, workspace_);
    });
  }

  void gather_rows(MatrixView x, std::span<const std::int32_t> rows, MatrixView y) override {
    std::vector<std::byte> list;
    append(list, rows);
    stream_.submit([=, this, list = std::move(list)](cudaStream_t s) {
      cuda::gather_rows(s, x, reinterpret_cast<const std::int32_t*>(uploads_.upload(s, list)), y);
    });
  }

  void draw(MatrixView logits, std::span<const DrawParams> params, std::int32_t* ids) override {
    std::vector<std::byte> list;
    append(list, params);
    stream_.submit([=, this, list = std::move(list)](cudaStream_t s) {
      cuda::draw(s, logits, reinterpret_cast<const DrawParams*>(uploads_.upload(s, list)), ids);
    });
  }

 private:
  static void require_kv(const KvFormat& format) {
    if (format.encoding == Encoding::kBF16 || format.encoding == Encoding::kQ8)
      throw ConfigError("the KV cache is stored in 32, 16 or 4 bits");
  }

  void require_heads(const KvFormat& format, int heads) const {
    if (heads > limits_.heads || format.head_dim > limits_.head_dim || heads % format.kv_heads != 0)
      throw ConfigError(concat("attention with ", heads, " heads of ", format.head_dim, " over ",
                               format.kv_heads,
                               " KV heads, but the kernels' workspace was planned ", "for ",
                               limits_.heads, " of ", limits_.head_dim));
  }

  const KernelLimits limits_;
  CudaStream& stream_;
  const Buffer memory_;
  const std::span<std::byte> workspace_;
  UploadRing uploads_;  // the stream's thread's, as is the next
  Product product_;
};

}  // namespace

PerTier<std::size_t> cuda_workspace_bytes(const KernelLimits& limits) {
  return {.device = round_up(shared_bytes(limits) + kUploadBytes, kSectorBytes),
          .host = kUploadBytes + kSectorBytes};  // a page for the check of products
}

std::unique_ptr<Kernels> make_cuda_kernels(CudaDevice& device, const KernelLimits& limits) {
  return std::make_unique<CudaKernels>(device, limits);
}

}  // namespace barge::cuda
