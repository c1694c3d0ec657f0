// The header of a safetensors file.
#include "core/errors.h"
#include "fuzz/fuzzer.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace barge;
  using namespace barge::fuzz;
  const MemoryFile file(text_of(data, size));
  try {
    const SafeTensors tensors(file.path());
    require(tensors.header_bytes() <= size, "the header lies in the file");
    for (const auto& [name, tensor] : tensors.tensors())
      require(tensor.offset <= size && tensor.bytes <= size - tensor.offset,
              "a tensor lies in the file");
  } catch (const FormatError&) {
  } catch (const IoError&) {
  }
  return 0;
}
