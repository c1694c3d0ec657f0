// nvcuda::wmma. Lanes hold a fragment's elements in an order that no GPU has, so that code which
// relies on one fails. Loads and stores don't make the warp's lanes wait for each other: a missing
// __syncwarp shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace emulated {

using Where = std::source_location;

template <typename Use, int m, int n, int k>
inline constexpr int kRows = std::is_same_v<Use, matrix_b> ? k : m;
template <typename Use, int m, int n, int k>
inline constexpr int kCols = std::is_same_v<Use, matrix_a> ? k : n;

/// Which element of a matrix of `count` (a power of two) a lane's x[index] is.
constexpr int element(int lane, int index, int count) {
  return ((lane * (count / 32) + index) * 85 + 19) & (count - 1);
}

}  // namespace emulated

template <typename Use, int m, int n, int k, typename T, typename Layout = void>
class fragment {
 public:
  static constexpr int kRows = emulated::kRows<Use, m, n, k>;
  static constexpr int kCols = emulated::kCols<Use, m, n, k>;
  static constexpr int num_elements = kRows * kCols / 32;
  static constexpr int num_storage_elements = num_elements;
  using element_type = T;

  T x[num_elements];
};

namespace emulated {

template <typename Fragment>
std::size_t offset_of(int lane, int index, unsigned stride, bool by_rows) {
  const int at = element(lane, index, Fragment::kRows * Fragment::kCols);
  const int row = at / Fragment::kCols, col = at % Fragment::kCols;
  return by_rows ? std::size_t(row) * stride + col : std::size_t(col) * stride + row;
}

template <typename T>
void check_place(const T* at, unsigned stride, const Where& where) {
  if (reinterpret_cast<std::uintptr_t>(at) % 32 != 0)
    cuda_emulation::fail("wmma: the matrix isn't aligned to 32 bytes", where);
  if (stride * sizeof(T) % 16 != 0)
    cuda_emulation::fail("wmma: the stride isn't a multiple of 16 bytes", where);
}

template <typename Fragment, typename T>
void load(Fragment& to, const T* from, unsigned stride, bool by_rows, const Where& where) {
  check_place(from, stride, where);
  const int lane = cuda_emulation::lane();
  for (int i = 0; i < Fragment::num_elements; ++i)
    to.x[i] = from[offset_of<Fragment>(lane, i, stride, by_rows)];
}

/// What a lane brings to a product.
template <typename D, typename A, typename B>
struct Operands {
  D* d;
  const A* a;
  const B* b;
  const D* c;
};

template <typename D, typename A, typename B>
void multiply(std::uint32_t lanes, const std::uint64_t* values, const int*, std::uint64_t*) {
  constexpr int m = A::kRows, k = A::kCols, n = B::kCols;
  if (lanes != 0xffffffffu)
    cuda_emulation::fail("mma_sync: the warp isn't whole", Where::current());
  const auto operands = [&](int lane) {
    return *reinterpret_cast<const Operands<D, A, B>*>(values[lane]);
  };
  float a[m * k] = {}, b[k * n] = {}, c[m * n] = {};
  for (int lane = 0; lane < 32; ++lane) {
    const auto of = operands(lane);
    for (int i = 0; i < A::num_elements; ++i) a[element(lane, i, m * k)] = float(of.a->x[i]);
    for (int i = 0; i < B::num_elements; ++i) b[element(lane, i, k * n)] = float(of.b->x[i]);
    for (int i = 0; i < D::num_elements; ++i) c[element(lane, i, m * n)] = float(of.c->x[i]);
  }
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
  for (int lane = 0; lane < 32; ++lane) {
    const auto of = operands(lane);
    for (int i = 0; i < D::num_elements; ++i)
      of.d->x[i] = typename D::element_type(c[element(lane, i, m * n)]);
  }
}

}  // namespace emulated

template <typename Use, int m, int n, int k, typename T, typename Layout>
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& to, const T* from, unsigned stride,
                      emulated::Where where = emulated::Where::current()) {
  emulated::load(to, from, stride, std::is_same_v<Layout, row_major>, where);
}
template <int m, int n, int k, typename T>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& to, const T* from, unsigned stride,
                      layout_t layout, emulated::Where where = emulated::Where::current()) {
  emulated::load(to, from, stride, layout == mem_row_major, where);
}
template <int m, int n, int k, typename T>
void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& from, unsigned stride,
                       layout_t layout, emulated::Where where = emulated::Where::current()) {
  emulated::check_place(to, stride, where);
  using Fragment = fragment<accumulator, m, n, k, T>;
  const int lane = cuda_emulation::lane();
  for (int i = 0; i < Fragment::num_elements; ++i)
    to[emulated::offset_of<Fragment>(lane, i, stride, layout == mem_row_major)] = from.x[i];
}
template <typename Use, int m, int n, int k, typename T, typename Layout>
void fill_fragment(fragment<Use, m, n, k, T, Layout>& to, const std::type_identity_t<T>& value) {
  for (T& x : to.x) x = value;
}

template <int m, int n, int k, typename T, typename LayoutA, typename LayoutB, typename Sum>
void mma_sync(fragment<accumulator, m, n, k, Sum>& d,
              const fragment<matrix_a, m, n, k, T, LayoutA>& a,
              const fragment<matrix_b, m, n, k, T, LayoutB>& b,
              const fragment<accumulator, m, n, k, Sum>& c,
              emulated::Where where = emulated::Where::current()) {
  using D = fragment<accumulator, m, n, k, Sum>;
  using A = fragment<matrix_a, m, n, k, T, LayoutA>;
  using B = fragment<matrix_b, m, n, k, T, LayoutB>;
  const emulated::Operands<D, A, B> operands{&d, &a, &b, &c};
  cuda_emulation::meet_lanes("mma_sync", emulated::multiply<D, A, B>, 0xffffffffu,
                             reinterpret_cast<std::uintptr_t>(&operands), 0, where);
}

}  // namespace nvcuda::wmma
