#include "model/family.h"

#include "core/errors.h"
#include "model/llama.h"
#include "model/opt.h"

namespace barge {

std::unique_ptr<Family> make_family(const ModelConfig& config) {
  if (config.family == "llama") return std::make_unique<Llama>(config);
  if (config.family == "opt") return std::make_unique<Opt>(config);
  throw FormatError(concat("model \"", config.name, "\" is of the family \"", config.family,
                           "\"; barge runs the families llama and opt"));
}

}  // namespace barge
