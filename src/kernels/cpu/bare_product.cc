#include "kernels/cpu/bare_product.h"

#include <omp.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/errors.h"
#include "kernels/cpu/product.h"

namespace barge {
namespace {

using dnnl::memory;
using Clock = std::chrono::steady_clock;

struct Types {
  memory::data_type x, weights, sums;
};

Types types_of(DType compute, int activation_bits) {
  using Type = memory::data_type;
  if (activation_bits == 8) return {Type::u8, Type::s8, Type::s32};
  const Type type = product_dtype(compute) == DType::kBF16 ? Type::bf16 : Type::f32;
  return {type, type, Type::f32};
}

// A product by one thread, on memory of its own.
class BareProduct {
 public:
  BareProduct(const Types& types, std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
    const dnnl::matmul::desc description(
        memory::desc({rows, inputs}, types.x, memory::format_tag::ab),
        memory::desc({inputs, outputs}, types.weights, memory::format_tag::any),
        memory::desc({rows, outputs}, types.sums, memory::format_tag::ab));
    const dnnl::matmul::primitive_desc described(description, engine_);
    product_ = dnnl::matmul(described);
    arguments_ = {{DNNL_ARG_SRC, filled(described.src_desc())},
                  {DNNL_ARG_WEIGHTS, filled(described.weights_desc())},
                  {DNNL_ARG_DST, filled(described.dst_desc())}};
  }

  void run() { product_.execute(stream_, arguments_); }

 private:
  // Pages that nobody wrote to would all be one, and in the cache.
  memory filled(const memory::desc& desc) const {
    memory filled(desc, engine_);
    auto* const bytes = static_cast<std::byte*>(filled.get_data_handle());
    std::fill_n(bytes, desc.get_size(), std::byte{0x3c});  // small numbers in all types
    return filled;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul product_;
  std::unordered_map<int, memory> arguments_;
};

}  // namespace

double bare_product_rate(DType compute, int activation_bits, int threads, std::int64_t rows,
                         std::int64_t inputs, std::int64_t outputs, double seconds) {
  const double operations = 2.0 * static_cast<double>(rows * inputs * outputs);
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::barrier start(threads);
  const auto work = [&](int thread) {
    omp_set_num_threads(1);  // else oneDNN starts threads of its own
    BareProduct product(types_of(compute, activation_bits), rows, inputs, outputs);
    product.run();
    start.arrive_and_wait();
    const auto begin = Clock::now();
    std::chrono::duration<double> took{};
    double done = 0;
    do {
      product.run();
      done += operations;
      took = Clock::now() - begin;
    } while (took.count() < seconds);
    rates[static_cast<std::size_t>(thread)] = done / took.count();
  };
  {
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t) all.emplace_back(work, t);
  }
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

double best_product_rate(DType compute, int activation_bits, int threads, std::int64_t inputs,
                         double seconds) {
  constexpr std::int64_t kLarge = 256;  // wider ones are no faster, and want more memory
  const auto rate = [&](std::int64_t rows, std::int64_t outputs) {
    return bare_product_rate(compute, activation_bits, threads, rows, inputs, outputs, seconds / 2);
  };
  return std::max(rate(kRowTile, kTileChannels), rate(kLarge, kLarge));
}

}  // namespace barge
