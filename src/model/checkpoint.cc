#include "model/checkpoint.h"

#include "core/errors.h"
#include "model/dummy_checkpoint.h"
#include "model/gguf_checkpoint.h"
#include "model/hf_checkpoint.h"
#include "model/tokenizer_json.h"

namespace barge {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kDummy = "dummy:";

enum class Kind : std::uint8_t { kDummy, kDirectory, kGguf };

Kind kind_of(const std::string& model) {
  if (model.starts_with(kDummy)) return Kind::kDummy;
  std::error_code failure;
  const fs::file_status status = fs::status(model, failure);
  if (fs::is_directory(status)) return Kind::kDirectory;
  if (fs::exists(status)) return Kind::kGguf;
  throw IoError(concat("there is no model at \"", model, "\"",
                       failure && failure != std::errc::no_such_file_or_directory
                           ? " (" + failure.message() + ")"
                           : std::string(),
                       "; wanted a directory in Hugging Face layout, a .gguf file, a pack, or "
                       "dummy:NAME"));
}

ModelConfig dummy_config(const std::string& model) {
  return config_by_name(model.substr(kDummy.size()));
}

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model) {
  switch (kind_of(model)) {
    case Kind::kDummy:
      return make_dummy_checkpoint(dummy_config(model));
    case Kind::kDirectory:
      return open_hf_checkpoint(model);
    case Kind::kGguf:
      break;
  }
  return open_gguf_checkpoint(model);
}

TokenizerSpec read_tokenizer(const std::string& model) {
  switch (kind_of(model)) {
    case Kind::kDummy:
      return make_dummy_checkpoint(dummy_config(model))->tokenizer();
    case Kind::kDirectory:
      return tokenizer_spec_from_dir(model);
    case Kind::kGguf:
      break;
  }
  return tokenizer_spec_from_gguf(fs::path(model));
}

}  // namespace barge
