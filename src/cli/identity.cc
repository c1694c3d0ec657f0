#include "cli/identity.h"

#include <functional>

#include "cli/text_files.h"
#include "core/errors.h"

namespace barge {

Identity identity_of(const Session& session, const Options& options) {
  const Policy& policy = session.plan.policy;
  Identity identity{
      {"model", session.pack.fingerprint()},
      {"dtype", std::string(name_of(session.machine.compute))},
      {"weight-bits", concat(policy.weight_bits)},
      {"kv-bits", concat(policy.kv_bits)},
      {"kv-group-size", concat(kv_group(options))},
      {"max-model-len", concat(policy.max_positions)},
      {"device", session.machine.accelerator.kind()},
  };
  if (session.activation_bits() != 16)
    identity["activation-bits"] = concat(session.activation_bits());
  // In which layers the CPU attends is a matter of bytes, too: which they are follows from how
  // many.
  if (attends_on_host(policy, session.machine.backend->device().unified()))
    identity["cpu-attention"] =
        concat(session.config.layers - device_attention_layers(policy, session.config.layers),
               " of ", session.config.layers, " layers");
  if (!options.chat_template.empty())
    identity["chat-template"] =
        concat(std::hex, std::hash<std::string>{}(read_text(options.chat_template)));
  return identity;
}

}  // namespace barge
