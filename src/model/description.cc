#include "model/description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/errors.h"

namespace barge {
namespace {

using Json = nlohmann::json;

Json tokenizer_to_json(const TokenizerSpec& spec) {
  std::vector<int> types(spec.types.size());
  std::transform(spec.types.begin(), spec.types.end(), types.begin(),
                 [](TokenizerSpec::TokenType t) { return static_cast<int>(t); });
  return {{"tokens", spec.tokens},
          {"types", types},
          {"merges", spec.merges},
          {"pre_tokenizer", spec.pre_tokenizer},
          {"bos", spec.bos},
          {"pad", spec.pad},
          {"unk", spec.unk},
          {"eos", spec.eos},
          {"add_bos", spec.add_bos},
          {"add_eos", spec.add_eos},
          {"ignore_merges", spec.ignore_merges},
          {"chat_template", spec.chat_template}};
}

TokenizerSpec tokenizer_from_json(const Json& json) {
  TokenizerSpec spec;
  json.at("tokens").get_to(spec.tokens);
  json.at("merges").get_to(spec.merges);
  json.at("pre_tokenizer").get_to(spec.pre_tokenizer);
  json.at("bos").get_to(spec.bos);
  json.at("pad").get_to(spec.pad);
  json.at("unk").get_to(spec.unk);
  json.at("eos").get_to(spec.eos);
  json.at("add_bos").get_to(spec.add_bos);
  json.at("add_eos").get_to(spec.add_eos);
  json.at("ignore_merges").get_to(spec.ignore_merges);
  json.at("chat_template").get_to(spec.chat_template);
  for (const int type : json.at("types").get<std::vector<int>>()) {
    if (type < 0 || type > static_cast<int>(TokenizerSpec::TokenType::kByte))
      throw FormatError(concat("token type ", type, " is unknown"));
    spec.types.push_back(static_cast<TokenizerSpec::TokenType>(type));
  }
  if (spec.types.size() != spec.tokens.size())
    throw FormatError(concat(spec.tokens.size(), " tokens have ", spec.types.size(), " types"));
  return spec;
}

}  // namespace

std::string description_to_json(const ModelDescription& description) {
  try {
    const Json json{{"config", Json::parse(config_to_json(description.config))},
                    {"tokenizer", tokenizer_to_json(description.tokenizer)}};
    return json.dump();
  } catch (const Json::exception& e) {  // a token that is not UTF-8
    throw FormatError(concat("cannot describe model ", description.config.name, ": ", e.what()));
  }
}

ModelDescription description_from_json(const std::string& text, const std::string& source) {
  try {
    const Json json = Json::parse(text);
    return {config_from_json(json.at("config").dump(), source),
            tokenizer_from_json(json.at("tokenizer"))};
  } catch (const std::exception& e) {
    throw FormatError(concat(source, " does not describe a model: ", e.what(),
                             "; run `barge pack` again to rebuild it"));
  }
}

}  // namespace barge
