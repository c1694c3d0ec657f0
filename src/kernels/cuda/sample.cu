// Draws tokens: a block a row, and nothing is sorted.
//
// Weights exp((x - largest) / temperature) are integers, in units of 2^-44: their sums are exact in
// whatever order they are made, so that a token depends on its row alone. That is finer than the
// rounding of the f32 weights which they are made from, and of what the CPU adds up.
//
// "The first token, in the order of falling logits, at which the sum passes a bound" is found digit
// by digit: the sums of all logits with the same leading bits show in which of those the bound is
// passed. top_k (every token counts 1), top_p and the draw itself are all this one question.
#include "core/errors.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"

namespace barge::cuda {
namespace {

using Sum = unsigned long long;

constexpr int kThreads = 512, kWarps = kThreads / kWarp;
constexpr int kBins = 2048;  // of 11 bits: about a quarter of a power of two
static_assert(kMostDrawnTokens <= 1 << 19, "of weights below 2^45: sums stay below 2^64");

struct Scratch {
  Sum of_warps[2][kWarps];  // used in turn
  unsigned low[kBins], high[kBins];
};

// What a thread knows of its block.
struct Team {
  Scratch& scratch;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int turn = 0;

  /// What all warps share, each a number. The numbers stay until the next call but one: whoever
  /// makes that has passed the barrier of the next one, which all threads reached with these read.
  __device__ const Sum* share(Sum of_warp) {
    Sum* all = scratch.of_warps[turn];
    turn = 1 - turn;
    if (lane == 0) all[warp] = of_warp;
    __syncthreads();
    return all;
  }
};

struct Row {
  const float* logits;
  std::int64_t vocab;
  float largest, temperature;

  __device__ Sum weight(float x) const {
    return static_cast<Sum>(expf((x - largest) / temperature) * 0x1p44f);
  }
};

// Falls as logits rise; 0 and -0 are equal; what is no number comes before all.
__device__ unsigned key_of(float x) {
  if (isnan(x)) return 0;
  const unsigned bits = __float_as_uint(x + 0.0f);
  return bits >> 31 != 0 ? bits : ~(bits | 0x80000000u);
}
__device__ float logit_of(unsigned key) {
  return __uint_as_float(key >> 31 != 0 ? key : ~key & 0x7fffffffu);
}

// Calls body(index, logit) for this thread's share of the row. Several loads are on their way at
// once: memory's latency would take most of the time otherwise.
template <typename Body>
__device__ void for_each_logit(const Row& row, const Body& body) {
  constexpr int kAtOnce = 4;
  for (std::int64_t first = threadIdx.x; first < row.vocab; first += kAtOnce * kThreads) {
    float x[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      x[k] = first + k * kThreads < row.vocab ? row.logits[first + k * kThreads] : 0.0f;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (first + k * kThreads < row.vocab) body(first + k * kThreads, x[k]);
  }
}

// The sum of value(logit) over the row.
template <typename Value>
__device__ Sum total(Team& team, const Row& row, const Value& value) {
  Sum mine = 0, all = 0;
  for_each_logit(row, [&](std::int64_t, float x) { mine += value(x); });
  const Sum* sums = team.share(warp_sum(mine));
  for (int warp = 0; warp < kWarps; ++warp) all += sums[warp];
  return all;
}

struct Crossing {
  std::int64_t index;
  Sum before;  // of all values in front of it
};

// The first index at which the sum of the values passes `bound`, which the sum of all does. Warps
// add up a part each; the part in which it happens is divided again.
template <typename Value>
__device__ Crossing find_crossing(Team& team, std::int64_t count, Sum bound, const Value& value) {
  std::int64_t first = 0;
  Sum before = 0;
  while (count > kWarp) {
    const std::int64_t part = (count + kWarps - 1) / kWarps;
    const std::int64_t begin = first + team.warp * part;
    const std::int64_t end = begin + part < first + count ? begin + part : first + count;
    Sum sum = 0;
    for (std::int64_t i = begin + team.lane; i < end; i += kWarp) sum += value(i);
    const Sum* sums = team.share(warp_sum(sum));
    int passed = 0;  // parts in front of the one wanted
    while (passed < kWarps - 1 && before + sums[passed] <= bound) before += sums[passed++];
    const std::int64_t left = count - passed * part;
    first += passed * part;
    count = left < part ? left : part;
  }
  for (std::int64_t i = 0; i < count - 1; ++i) {
    const Sum next = before + value(first + i);
    if (next > bound) return {first + i, before};
    before = next;
  }
  return {first + count - 1, before};
}

// Additions of 32 bits run in hardware, those of 64 bits as loops of compare-and-swap. Whoever
// makes the low half overflow carries.
__device__ void add_to_bin(Scratch& scratch, unsigned bin, Sum amount) {
  const auto low = static_cast<unsigned>(amount);
  const unsigned sum = atomicAdd(&scratch.low[bin], low) + low;
  const unsigned high = static_cast<unsigned>(amount >> 32) + (sum < low ? 1u : 0u);
  if (high != 0) atomicAdd(&scratch.high[bin], high);
}

struct Place {
  unsigned key;
  Sum rank;     // among the tokens with that key, by index
  Sum through;  // the measures of all tokens in front, and of those with that key up to this one
};

// The first token, by falling logits and then by index, at which the sum of `measure(logit)`
// passes `bound`.
template <typename Measure>
__device__ Place find_place(Team& team, const Row& row, Sum bound, const Measure& measure) {
  constexpr int kShifts[] = {21, 10, 0};
  constexpr unsigned kDigitMasks[] = {0x7ffu, 0x7ffu, 0x3ffu};
  unsigned key = 0, known = 0;  // the bits in `known` are settled
  Sum before = 0;
#pragma unroll
  for (int digit = 0; digit < 3; ++digit) {
    const int shift = kShifts[digit];
    const unsigned mask = kDigitMasks[digit];
    __syncthreads();  // the bins of the digit before are still read
    for (int bin = threadIdx.x; bin < kBins; bin += kThreads)
      team.scratch.low[bin] = team.scratch.high[bin] = 0;
    __syncthreads();
    for_each_logit(row, [&](std::int64_t, float x) {
      const unsigned other = key_of(x);
      if ((other & known) == key) add_to_bin(team.scratch, (other >> shift) & mask, measure(x));
    });
    __syncthreads();
    const Crossing at = find_crossing(team, mask + 1, bound - before, [&](std::int64_t bin) {
      return static_cast<Sum>(team.scratch.high[bin]) << 32 | team.scratch.low[bin];
    });
    before += at.before;
    key |= static_cast<unsigned>(at.index) << shift;
    known |= mask << shift;
  }
  const Sum each = measure(logit_of(key)), rank = (bound - before) / each;
  return {key, rank, before + (rank + 1) * each};
}

// `fraction` of a sum, rounded down, less than all of it.
__device__ Sum part_of(double fraction, Sum sum) {
  const auto part = static_cast<Sum>(fraction * static_cast<double>(sum));
  return part < sum ? part : sum - 1;
}

__device__ std::int64_t draw_in_order_of_logits(Team& team, const Row& row,
                                                const DrawParams& params) {
  const auto weight = [&](float x) { return row.weight(x); };
  const auto one = [](float) { return Sum{1}; };
  Sum kept;
  if (params.top_k > 0 && params.top_k < row.vocab) {
    const Place last = find_place(team, row, static_cast<Sum>(params.top_k) - 1, one);
    kept = total(team, row, [&](float x) { return key_of(x) < last.key ? row.weight(x) : 0; });
    kept += (last.rank + 1) * row.weight(logit_of(last.key));
  } else {
    kept = total(team, row, weight);
  }
  if (params.top_p < 1) {  // the likeliest whose weights reach that part of the sum; at least one
    const double wanted = ceil(static_cast<double>(params.top_p) * static_cast<double>(kept));
    const Sum bound = wanted < 1 ? 0 : static_cast<Sum>(wanted) - 1;
    kept = find_place(team, row, bound < kept ? bound : kept - 1, weight).through;
  }
  const Place place = find_place(team, row, part_of(params.uniform, kept), weight);
  const auto has_its_key = [&](std::int64_t i) -> Sum {
    return key_of(row.logits[i]) == place.key ? 1 : 0;
  };
  return find_crossing(team, row.vocab, place.rank, has_its_key).index;
}

// The likeliest token, of equal ones the first, and its key: as key * 2^32 + index.
__device__ Sum likeliest(Team& team, const Row& row) {
  Sum best = ~Sum{0};
  for_each_logit(row, [&](std::int64_t i, float x) {
    const Sum other = static_cast<Sum>(key_of(x)) << 32 | static_cast<Sum>(i);
    best = other < best ? other : best;
  });
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Sum other = __shfl_xor_sync(kAllLanes, best, step);
    best = other < best ? other : best;
  }
  const Sum* bests = team.share(best);
  for (int warp = 0; warp < kWarps; ++warp) best = bests[warp] < best ? bests[warp] : best;
  return best;
}

__global__ void __launch_bounds__(kThreads)
    draw_kernel(MatrixView logits, const DrawParams* all, std::int32_t* ids) {
  __shared__ Scratch scratch;
  Team team{scratch};
  const DrawParams& params = all[blockIdx.x];
  Row row{reinterpret_cast<const float*>(logits.data) + blockIdx.x * logits.stride, logits.cols, 0,
          params.temperature};
  const Sum best = likeliest(team, row);
  row.largest = logit_of(static_cast<unsigned>(best >> 32));
  std::int64_t id;
  if (best >> 32 == 0 || !isfinite(row.largest)) {
    id = -1;
  } else if (params.temperature < kGreedyTemperature) {
    id = static_cast<std::int64_t>(best & 0xffffffffu);
  } else if (params.top_k > 0 || params.top_p < 1) {
    id = draw_in_order_of_logits(team, row, params);
  } else {
    const Sum sum = total(team, row, [&](float x) { return row.weight(x); });
    const auto weight = [&](std::int64_t i) { return row.weight(row.logits[i]); };
    id = find_crossing(team, row.vocab, part_of(params.uniform, sum), weight).index;
  }
  if (threadIdx.x == 0) ids[blockIdx.x] = static_cast<std::int32_t>(id);
}

}  // namespace

void draw(cudaStream_t stream, MatrixView logits, const DrawParams* params, std::int32_t* ids) {
  if (logits.rows == 0 || logits.cols == 0) return;
  if (logits.cols > kMostDrawnTokens)
    throw DeviceError(concat("drawing from ", logits.cols, " tokens: at most ", kMostDrawnTokens,
                             " are supported"));
  launch({dim3(static_cast<unsigned>(logits.rows)), dim3(kThreads), stream}, draw_kernel, logits,
         params, ids);
}

}  // namespace barge::cuda
