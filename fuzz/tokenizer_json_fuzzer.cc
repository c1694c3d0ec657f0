// tokenizer.json; what can be read of it reads text, too.
#include <fstream>

#include "core/errors.h"
#include "fuzz/fuzzer.h"
#include "model/tokenizer.h"
#include "model/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace barge;
  using namespace barge::fuzz;
  const auto directory = scratch_directory();
  std::ofstream(directory / "tokenizer.json", std::ios::binary) << text_of(data, size);
  try {
    const Tokenizer tokenizer(tokenizer_spec_from_dir(directory));
    const auto ids = tokenizer.encode("Hello <s> w\xc3\xb6rld\xff 12");
    for (const TokenId id : ids) require(tokenizer.contains(id), "an id is in the vocabulary");
    tokenizer.decode(ids);
  } catch (const FormatError&) {
  } catch (const IoError&) {
  }
  return 0;
}
