// A chat template: it renders, or says why not, within its limits.
#include "core/errors.h"
#include "fuzz/fuzzer.h"
#include "model/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace barge;
  using nlohmann::ordered_json;
  static const ordered_json messages = {
      {{"role", "system"}, {"content", "Be brief."}},
      {{"role", "user"}, {"content", "H\xc3\xb6w <b>many</b>?\n"}},
      {{"role", "assistant"}, {"content", "12"}}};
  static const ordered_json variables = {{"tools", {{{"name", "f"}, {"n", 1.5}}}}};
  try {
    const ChatTemplate chat{std::string(fuzz::text_of(data, size))};
    try {
      static_cast<void>(chat.render(
          messages, {.bos_token = "<s>", .eos_token = "</s>", .variables = &variables}));
    } catch (const RequestError&) {
    }
  } catch (const FormatError&) {
  }
  return 0;
}
