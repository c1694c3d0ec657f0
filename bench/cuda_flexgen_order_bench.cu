// FlexGen's order of work, as favourable to it as can be, to compare `barge bench` with on the same
// GPU: the weights of a part (attention, MLP) come from pinned memory, then each micro-batch
// dequantises every matrix as a whole (unpack, divide, add: as PyTorch does) and multiplies with
// cuBLAS, with a barrier after each step. Attention, KV cache, embeddings, norms and hidden states'
// moves are left out, so the real FlexGen is slower. Prints one JSON object:
//   cuda_flexgen_order_bench HIDDEN FFN LAYERS BITS PROMPT_LEN GEN_LEN GPU_BATCH NUM_GPU_BATCHES
#include <cuda_fp16.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/cuda_products.h"
#include "core/errors.h"
#include "kernels/cuda/launch.h"

namespace barge::cuda {
namespace {

constexpr std::size_t kGroup = 64;  // along the output channels
constexpr std::size_t kPinnedBytes = 1u
                                     << 30;  // all layers' weights in turn: far more than a cache
constexpr unsigned kThreads = 256;

// packed [rows / 2, cols]: of rows 2p (high nibble) and 2p + 1. Two columns a thread.
__global__ void unpack_kernel(const uchar2* packed, half2* out, int col_pairs, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::size_t row = i / col_pairs, col = i % col_pairs;
  const uchar2 two = packed[i];
  out[2 * row * col_pairs + col] = __floats2half2_rn(two.x >> 4, two.y >> 4);
  out[(2 * row + 1) * col_pairs + col] = __floats2half2_rn(two.x & 15, two.y & 15);
}

// meta [rows / kGroup, 2, cols]: scale, then min.
__global__ void divide_kernel(half2* w, const half2* meta, int col_pairs, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float2 x = __half22float2(w[i]);
  const float2 s = __half22float2(meta[i / col_pairs / kGroup * 2 * col_pairs + i % col_pairs]);
  w[i] = __floats2half2_rn(x.x / s.x, x.y / s.y);
}

__global__ void add_kernel(half2* w, const half2* meta, int col_pairs, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float2 x = __half22float2(w[i]);
  const float2 m =
      __half22float2(meta[(i / col_pairs / kGroup * 2 + 1) * col_pairs + i % col_pairs]);
  w[i] = __floats2half2_rn(x.x + m.x, x.y + m.y);
}

struct Job {
  std::size_t hidden, ffn, layers, bits, prompt_len, gen_len, gpu_batch, num_gpu_batches;
};

struct MatrixShape {
  std::size_t n, k;
  std::size_t packed_bytes(std::size_t bits) const { return bits == 4 ? n * k / 2 : 2 * n * k; }
  std::size_t meta_bytes(std::size_t bits) const { return bits == 4 ? n * k / kGroup * 4 : 0; }
};

using Matrices = std::vector<MatrixShape>;

class FlexGenOrder {
 public:
  explicit FlexGenOrder(const Job& job)
      : job_(job),
        parts_{Matrices(4, MatrixShape{job.hidden, job.hidden}),
               Matrices{{job.ffn, job.hidden}, {job.hidden, job.ffn}}},
        weights_{DeviceBytes(part_bytes()), DeviceBytes(part_bytes())},
        dequantised_(2 * job.hidden * job.ffn),
        x_(2 * job.gpu_batch * job.prompt_len * job.ffn),
        y_(2 * job.gpu_batch * job.prompt_len * job.ffn) {
    cuda::check(cudaHostAlloc(&pinned_, kPinnedBytes, cudaHostAllocDefault), "cudaHostAlloc");
    auto* words = static_cast<std::uint64_t*>(pinned_);
    // Halves between 0.5 and 1 of either sign: zeros would save the GPU power.
    for (std::uint64_t i = 0, r = 1; i < kPinnedBytes / 8; ++i) {
      r = r * 6364136223846793005u + 1442695040888963407u;
      words[i] = (r & 0x83ff83ff83ff83ffu) | 0x3800380038003800u;
    }
    for (const DeviceBytes* to : {&x_, &y_})
      cuda::check(cudaMemcpy(to->as<void>(), pinned_,
                             std::min(kPinnedBytes, 2 * job.gpu_batch * job.prompt_len * job.ffn),
                             cudaMemcpyHostToDevice),
                  "cudaMemcpy");
    for (cudaStream_t* stream : {&load_, &compute_})
      cuda::check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  FlexGenOrder(const FlexGenOrder&) = delete;
  ~FlexGenOrder() {
    cudaStreamDestroy(load_);
    cudaStreamDestroy(compute_);
    cudaFreeHost(pinned_);
  }

  /// Seconds of a sweep. `overlapped`: a part loads beside the first micro-batch of the one before
  /// it; else nothing does.
  double sweep(std::size_t rows, bool overlapped) {
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t count = 2 * job_.layers;
    if (overlapped) load(0);
    for (std::size_t part = 0; part < count; ++part) {
      if (!overlapped) load(part);
      cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      for (std::size_t k = 0; k < job_.num_gpu_batches; ++k) {
        if (overlapped && k == 0 && part + 1 < count) load(part + 1);
        compute(part, rows);
        cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      }
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// Tera-operations a second of the products alone, in these shapes.
  double product_rate(std::size_t rows) {
    constexpr int kTimes = 4;
    double operations = 0;
    multiply(0, rows), multiply(1, rows);  // chooses the algorithms
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i)
      for (std::size_t part : {0, 1}) {
        multiply(part, rows);
        for (const MatrixShape& m : parts_[part])
          operations += 2.0 * static_cast<double>(rows * m.n * m.k);
      }
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return operations / 1e12 /
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  std::size_t part_bytes() const {
    std::size_t largest = 0;
    for (const auto& part : parts_) {
      std::size_t bytes = 0;
      for (const MatrixShape& m : part)
        bytes += m.packed_bytes(job_.bits) + m.meta_bytes(job_.bits);
      largest = std::max(largest, bytes);
    }
    return largest;
  }

 private:
  void load(std::size_t part) {
    auto* to = weights_[part % 2].as<std::byte>();
    for (const MatrixShape& m : parts_[part % 2])
      for (const std::size_t bytes : {m.packed_bytes(job_.bits), m.meta_bytes(job_.bits)}) {
        if (bytes == 0) continue;
        if (bytes > kPinnedBytes) throw ConfigError("a matrix is larger than the pinned memory");
        if (next_ + bytes > kPinnedBytes) next_ = 0;
        cuda::check(cudaMemcpyAsync(to, static_cast<std::byte*>(pinned_) + next_, bytes,
                                    cudaMemcpyHostToDevice, load_),
                    "cudaMemcpyAsync");
        next_ += bytes;
        to += bytes;
      }
  }

  void compute(std::size_t part, std::size_t rows) {
    const auto* from = weights_[part % 2].as<std::byte>();
    for (const MatrixShape& m : parts_[part % 2]) {
      const auto* w = reinterpret_cast<const half*>(from);
      if (job_.bits == 4) {
        dequantise(m, from);
        w = dequantised_.as<half>();
      }
      products_.run(compute_, w, x_.as<half>(), y_.as<half>(), rows, m.n, m.k);
      from += m.packed_bytes(job_.bits) + m.meta_bytes(job_.bits);
    }
  }

  void multiply(std::size_t part, std::size_t rows) {
    for (const MatrixShape& m : parts_[part])
      products_.run(compute_, dequantised_.as<half>(), x_.as<half>(), y_.as<half>(), rows, m.n,
                    m.k);
  }

  void dequantise(const MatrixShape& m, const std::byte* from) {
    const int col_pairs = static_cast<int>(m.k / 2);
    const std::size_t pairs = m.n * m.k / 2;
    auto* w = dequantised_.as<half2>();
    const auto* meta = reinterpret_cast<const half2*>(from + m.packed_bytes(4));
    launch({blocks_for(pairs / 2, kThreads), kThreads, compute_}, unpack_kernel,
           reinterpret_cast<const uchar2*>(from), w, col_pairs, pairs / 2);
    launch({blocks_for(pairs, kThreads), kThreads, compute_}, divide_kernel, w, meta, col_pairs,
           pairs);
    launch({blocks_for(pairs, kThreads), kThreads, compute_}, add_kernel, w, meta, col_pairs,
           pairs);
  }

  const Job job_;
  const std::array<Matrices, 2> parts_;  // attention, MLP
  const std::array<DeviceBytes, 2> weights_;
  const DeviceBytes dequantised_, x_, y_;
  Products products_;
  void* pinned_ = nullptr;
  std::size_t next_ = 0;  // where in the pinned memory
  cudaStream_t load_ = nullptr, compute_ = nullptr;
};

int run(const Job& job) {
  if (job.hidden % kGroup != 0 || job.ffn % kGroup != 0 || (job.bits != 4 && job.bits != 16))
    throw ConfigError("wanted: HIDDEN and FFN in multiples of 64, BITS 4 or 16");
  FlexGenOrder order(job);
  const std::size_t prompt_rows = job.gpu_batch * job.prompt_len;
  const double prefill_rate = order.product_rate(prompt_rows);
  const double decode_rate = order.product_rate(job.gpu_batch);
  const auto tokens_per_s = [&](bool overlapped) {
    const double decode = order.sweep(job.gpu_batch, overlapped);
    const double seconds =
        order.sweep(prompt_rows, overlapped) + static_cast<double>(job.gen_len - 1) * decode;
    return static_cast<double>(job.gpu_batch * job.num_gpu_batches * job.gen_len) / seconds;
  };
  tokens_per_s(true);  // warms up
  const double serial = tokens_per_s(false), overlapped = tokens_per_s(true);
  std::printf(
      "{\"serial_tokens_per_s\": %.6g, \"overlapped_tokens_per_s\": %.6g, "
      "\"cublas_prefill_tflops\": %.6g, \"cublas_decode_tflops\": %.6g}\n",
      serial, overlapped, prefill_rate, decode_rate);
  return 0;
}

}  // namespace
}  // namespace barge::cuda

int main(int argc, char** argv) {
  if (argc != 9) {
    std::fprintf(stderr,
                 "usage: %s HIDDEN FFN LAYERS BITS PROMPT_LEN GEN_LEN GPU_BATCH NUM_GPU_BATCHES\n",
                 argv[0]);
    return 2;
  }
  std::array<std::size_t, 8> n{};
  for (std::size_t i = 0; i < n.size(); ++i) n[i] = std::strtoull(argv[i + 1], nullptr, 10);
  try {
    return barge::cuda::run({n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]});
  } catch (const barge::Error& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}
