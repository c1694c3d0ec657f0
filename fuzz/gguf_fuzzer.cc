// A GGUF file: header, model and tokenizer.
#include "core/errors.h"
#include "fuzz/fuzzer.h"
#include "model/gguf.h"
#include "model/gguf_metadata.h"
#include "model/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace barge;
  using namespace barge::fuzz;
  const MemoryFile file(text_of(data, size));
  try {
    const Gguf gguf(file.path());
    require(gguf.header_bytes() <= size, "the header lies in the file");
    for (const auto& [name, tensor] : gguf.tensors())
      require(tensor.offset <= size, "a tensor begins in the file");
    try {
      config_from_gguf(gguf);
    } catch (const FormatError&) {
    }
    const Tokenizer tokenizer(tokenizer_spec_from_gguf(gguf));
    tokenizer.decode(tokenizer.encode("Hello <s> w\xc3\xb6rld"));
  } catch (const FormatError&) {
  } catch (const IoError&) {
  }
  return 0;
}
