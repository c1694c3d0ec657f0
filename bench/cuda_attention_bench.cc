// What attention on the GPU reaches. Decode is held against the rate of its memory: "GB/s" counts K
// and V once. Prefill is held against cuBLAS's own rate in a large product: "GFLOP/s" counts what
// the causal mask leaves.
#include <memory>
#include <string>
#include <vector>

#include "bench/cuda_timing.h"
#include "kernels/cuda/operations.h"

namespace barge::cuda {
namespace {

constexpr int kPagePositions = 16;

struct Heads {
  const char* name;
  int heads, kv_heads, head_dim;
};
constexpr Heads kHeads[] = {{"opt-6.7b", 32, 32, 128},
                            {"opt-1.3b", 32, 32, 64},
                            {"opt-2.7b", 32, 32, 80},
                            {"llama-3-8b", 32, 8, 128},
                            {"llama-3-70b", 64, 8, 128}};

// Sequences of `keys` positions each, of which the last `rows` are new.
class Batch {
 public:
  Batch(const Heads& heads, Encoding encoding, int sequences, int keys, int rows, bool prompt)
      : format_{encoding, heads.kv_heads, heads.head_dim, 64},
        heads_(heads.heads),
        rows_(std::int64_t{sequences} * rows),
        pages_a_sequence_((keys + kPagePositions - 1) / kPagePositions),
        page_bytes_(format_.record_bytes() * kPagePositions),
        records_(page_bytes_ * static_cast<std::size_t>(sequences * pages_a_sequence_)),
        q_(numbers(heads.heads)),
        k_(numbers(heads.kv_heads)),
        v_(numbers(heads.kv_heads)),
        out_(numbers(heads.heads)),
        workspace_(attention_workspace_bytes(heads.heads, heads.head_dim, rows_)) {
    // As f16: 0.05, as codes 12 and 2 with scales and mins of 0.05.
    check(cudaMemset(records_.as<void>(), 0x2a, record_bytes_of_all(sequences)), "cudaMemset");
    std::vector<std::byte*> pages(static_cast<std::size_t>(sequences * pages_a_sequence_));
    for (std::size_t i = 0; i < pages.size(); ++i)
      pages[i] = records_.as<std::byte>() + i * page_bytes_;
    std::vector<AttentionSpan> spans;
    for (int s = 0; s < sequences; ++s)
      spans.push_back(
          {.first_row = std::int64_t{s} * rows,
           .rows = rows,
           .first_position = keys - rows,
           .prompt = prompt,
           .pages = std::span(pages).subspan(static_cast<std::size_t>(s * pages_a_sequence_),
                                             static_cast<std::size_t>(pages_a_sequence_))});
    work_ = std::make_unique<AttentionWork>(spans, format_, kPagePositions, heads_);
    work_there_ = std::make_unique<DeviceBytes>(work_->bytes().size());
    check(cudaMemcpy(work_there_->as<void>(), work_->bytes().data(), work_->bytes().size(),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

  void append(cudaStream_t stream) const {
    append_kv(stream, *work_, work_there_->as<std::byte>(), view(k_, format_.kv_heads),
              view(v_, format_.kv_heads));
  }
  void attend(cudaStream_t stream) const {
    cuda::attend(
        stream, *work_, work_there_->as<std::byte>(), 0.1f, view(q_, heads_), view(out_, heads_),
        {workspace_.as<std::byte>(), attention_workspace_bytes(heads_, format_.head_dim, rows_)});
  }
  std::size_t record_bytes() const { return format_.record_bytes(); }
  std::int64_t rows() const { return rows_; }

 private:
  std::size_t record_bytes_of_all(int sequences) const {
    return page_bytes_ * static_cast<std::size_t>(sequences * pages_a_sequence_);
  }
  std::unique_ptr<DeviceBytes> numbers(int heads) const {
    const std::size_t bytes = 4 * static_cast<std::size_t>(rows_ * heads * format_.head_dim);
    auto owned = std::make_unique<DeviceBytes>(bytes);
    check(cudaMemset(owned->as<void>(), 0x3c, bytes), "cudaMemset");
    return owned;
  }
  MatrixView view(const std::unique_ptr<DeviceBytes>& owned, int heads) const {
    const std::int64_t cols = std::int64_t{heads} * format_.head_dim;
    return {owned->as<std::byte>(), DType::kF32, rows_, cols, cols};
  }

  const KvFormat format_;
  const int heads_;
  const std::int64_t rows_;
  const int pages_a_sequence_;
  const std::size_t page_bytes_;
  const DeviceBytes records_;
  const std::unique_ptr<DeviceBytes> q_, k_, v_, out_;
  const DeviceBytes workspace_;
  std::unique_ptr<AttentionWork> work_;
  std::unique_ptr<DeviceBytes> work_there_;
};

void decode(benchmark::State& state, const Heads& heads, Encoding encoding, int sequences,
            int keys) {
  const Batch batch(heads, encoding, sequences, keys, 1, false);
  measure(state,
          static_cast<double>(batch.record_bytes()) * static_cast<double>(sequences) *
              static_cast<double>(keys),
          [&](cudaStream_t stream) { batch.attend(stream); });
}

void append(benchmark::State& state, const Heads& heads, Encoding encoding, int rows) {
  const Batch batch(heads, encoding, 1, rows, rows, true);
  const std::size_t row_bytes =
      batch.record_bytes() + 8 * static_cast<std::size_t>(heads.kv_heads * heads.head_dim);
  measure(state, static_cast<double>(row_bytes) * static_cast<double>(rows),
          [&](cudaStream_t stream) { batch.append(stream); });
}

/// Multiplications and additions a second of cuBLAS, f16 with sums in f32; measured once.
double product_rate() {
  static const double rate = [] {
    constexpr std::uint64_t kSide = 8192;
    const DeviceBytes w(2 * kSide * kSide), x(2 * kSide * kSide), out(2 * kSide * kSide);
    for (const DeviceBytes* bytes : {&w, &x})
      check(cudaMemset(bytes->as<void>(), 0x2a, 2 * kSide * kSide), "cudaMemset");
    Products products;
    Timer timer;
    double best = 0;
    for (int i = 0; i < 5; ++i)
      best = std::max(best, 2.0 * kSide * kSide * kSide / timer.seconds([&](cudaStream_t stream) {
        products.run(stream, w.as<half>(), x.as<half>(), out.as<half>(), kSide, kSide, kSide);
      }));
    return best;
  }();
  return rate;
}

void prefill(benchmark::State& state, const Heads& heads, Encoding encoding, int sequences,
             int keys) {
  const Batch batch(heads, encoding, sequences, keys, keys, true);
  // Two products of head_dim for each key that a row sees.
  const double work = 4.0 * heads.heads * heads.head_dim * sequences * keys * (keys + 1) / 2;
  Timer timer;
  const auto attend = [&](cudaStream_t stream) { batch.attend(stream); };
  timer.seconds(attend);
  double total = 0;
  for (auto _ : state) {
    const double seconds = timer.seconds(attend);
    state.SetIterationTime(seconds);
    total += seconds;
  }
  const double rate = work * static_cast<double>(state.iterations()) / total;
  state.counters["GFLOP/s"] = rate * 1e-9;
  state.counters["limit"] = product_rate() * 1e-9;
  state.counters["ratio"] = rate / product_rate();
}

const char* name_of(Encoding encoding) {
  return encoding == Encoding::kQ4 ? "q4" : encoding == Encoding::kF16 ? "f16" : "f32";
}

template <typename Body, typename... Arguments>
void add(const std::string& name, Body body, Arguments... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), body, arguments...)->UseManualTime();
}

void add_all() {
  for (const Heads& heads : kHeads)
    for (const Encoding encoding : {Encoding::kF16, Encoding::kQ4, Encoding::kF32}) {
      if (encoding == Encoding::kF32 && &heads != &kHeads[0]) continue;  // slow, and rarely used
      const std::string end = std::string("/") + heads.name + "/" + name_of(encoding);
      for (const auto& [sequences, keys] :
           {std::pair{64, 520}, std::pair{256, 520}, std::pair{2, 16384}})
        add("decode" + end + "/" + std::to_string(sequences) + "x" + std::to_string(keys), decode,
            heads, encoding, sequences, keys);
      add("append" + end, append, heads, encoding, 4096);
      for (const auto& [sequences, keys] : {std::pair{8, 512}, std::pair{1, 4096}})
        add("prefill" + end + "/" + std::to_string(sequences) + "x" + std::to_string(keys), prefill,
            heads, encoding, sequences, keys);
    }
}

}  // namespace
}  // namespace barge::cuda

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  barge::cuda::add_all();
  benchmark::RunSpecifiedBenchmarks();
}
