#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/errors.h"
#include "kernels/cpu/code_product.h"
#include "kernels/cpu/product.h"
#include "kernels/kernels.h"

namespace barge {
namespace {

using dnnl::memory;

bool has(dnnl::cpu_isa isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

bool multiplies_bf16() { return has(dnnl::cpu_isa::avx512_core_bf16); }

// Debian's oneDNN starts OpenMP threads of its own unless each of ours asks for one.
void use_one_thread() {
  thread_local bool asked = false;
  if (!asked) omp_set_num_threads(1);
  asked = true;
}

// Where element (k, n) of a blocked [inputs, channels] matrix is.
std::int64_t offset_of(const dnnl_memory_desc_t& md, std::int64_t k, std::int64_t n) {
  const auto& blocking = md.format_desc.blocking;
  std::int64_t at[2] = {k, n}, offset = 0, inside = 1;
  for (int i = blocking.inner_nblks - 1; i >= 0; --i) {
    const std::int64_t size = blocking.inner_blks[i];
    std::int64_t& position = at[blocking.inner_idxs[i]];
    offset += position % size * inside;
    position /= size;
    inside *= size;
  }
  return offset + at[0] * blocking.strides[0] + at[1] * blocking.strides[1];
}

// The layout that oneDNN chose, if it is one that TileLayout can describe.
std::optional<TileLayout> describe(const memory::desc& desc, DType dtype) {
  const dnnl_memory_desc_t& md = desc.data;
  if (md.format_kind != dnnl_blocked || md.offset0 != 0 || md.extra.flags != 0 ||
      md.padded_dims[1] != kTileChannels)
    return std::nullopt;
  TileLayout layout{.dtype = dtype, .inputs = md.dims[0], .padded_inputs = md.padded_dims[0]};
  layout.bytes = desc.get_size();
  layout.pack = dtype == DType::kBF16 && offset_of(md, 1, 0) == 1 ? 2 : 1;
  layout.block = 1;
  while (layout.block < kTileChannels &&
         offset_of(md, 0, layout.block) == layout.block * layout.pack)
    ++layout.block;
  layout.block_stride = layout.block < kTileChannels ? offset_of(md, 0, layout.block) : 0;
  // Blocks hold whole vectors of channels, of at most 16 lanes.
  if (layout.block % 16 != 0 || layout.padded_inputs % layout.pack != 0) return std::nullopt;
  for (std::int64_t k = 0; k < layout.padded_inputs; ++k)
    for (std::int64_t n = 0; n < kTileChannels; ++n)
      if (offset_of(md, k, n) != n / layout.block * layout.block_stride +
                                     k / layout.pack * layout.block * layout.pack +
                                     n % layout.block * layout.pack + k % layout.pack)
        return std::nullopt;
  return layout;
}

class OneDnnProduct final : public Product {
 public:
  OneDnnProduct(std::int64_t inputs, DType compute, int threads) {
    use_one_thread();
    const DType dtype = product_dtype(compute);
    round_ = compute == DType::kBF16 && dtype == DType::kF32;
    auto described = dnnl::matmul::primitive_desc();
    if (!plan(inputs, dtype, memory::format_tag::any, described))
      plan(inputs, dtype, memory::format_tag::ab, described);
    scratch_bytes_ = described.scratchpad_desc().get_size();
    primitive_ = dnnl::matmul(described);
    for (int i = 0; i < threads; ++i) {
      auto make = [&](const memory::desc& desc) { return memory(desc, engine_, nullptr); };
      states_.push_back({make(described.src_desc()),
                         make(described.weights_desc()),
                         make(described.dst_desc()),
                         make(described.scratchpad_desc()),
                         {}});
      State& s = states_.back();
      s.arguments = {{DNNL_ARG_SRC, s.x},
                     {DNNL_ARG_WEIGHTS, s.tile},
                     {DNNL_ARG_DST, s.sums},
                     {DNNL_ARG_SCRATCHPAD, s.scratch}};
    }
  }

  void multiply(int thread, const std::byte* x, const std::byte* tile, std::byte* scratch,
                float* sums) override {
    use_one_thread();
    State& s = states_[static_cast<std::size_t>(thread)];
    s.x.set_data_handle(const_cast<std::byte*>(x));  // oneDNN has no read-only memory
    s.tile.set_data_handle(const_cast<std::byte*>(tile));
    s.sums.set_data_handle(sums);
    s.scratch.set_data_handle(scratch);
    primitive_.execute(stream_, s.arguments);
  }

 private:
  struct State {
    memory x, tile, sums, scratch;
    std::unordered_map<int, memory> arguments;
  };

  bool plan(std::int64_t inputs, DType dtype, memory::format_tag weights,
            dnnl::matmul::primitive_desc& described) {
    const auto type = dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::desc description(
        memory::desc({kRowTile, inputs}, type, memory::format_tag::ab),
        memory::desc({inputs, kTileChannels}, type, weights),
        memory::desc({kRowTile, kTileChannels}, memory::data_type::f32, memory::format_tag::ab));
    described = dnnl::matmul::primitive_desc(description, attributes, engine_);
    const auto layout = describe(described.weights_desc(), dtype);
    if (layout) layout_ = *layout;
    return layout.has_value();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul primitive_;
  std::vector<State> states_;
};

}  // namespace

DType product_dtype(DType compute) {
  return compute == DType::kBF16 && multiplies_bf16() ? DType::kBF16 : DType::kF32;
}

std::string cpu_library() {
  const dnnl_version_t* const version = dnnl_version();
  return concat("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

DType preferred_compute_type() { return multiplies_bf16() ? DType::kBF16 : DType::kF32; }

int preferred_activation_bits() {
  return multiplies_codes_fast() && !has(dnnl::cpu_isa::avx512_core_amx) ? 8 : 16;
}

std::unique_ptr<Product> make_onednn_product(std::int64_t inputs, DType compute, int threads) {
  try {
    return std::make_unique<OneDnnProduct>(inputs, compute, threads);
  } catch (const dnnl::error& error) {
    throw Error(concat("oneDNN can't make a product of ", kRowTile, " x ", inputs, " by ",
                       kTileChannels, " numbers of ", name_of(product_dtype(compute)), ": ",
                       error.what(), "; try --dtype float32"));
  }
}

}  // namespace barge
