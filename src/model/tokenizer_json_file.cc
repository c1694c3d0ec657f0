#include "model/tokenizer_json_file.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <string_view>

#include "core/errors.h"

namespace barge::tokenizer_files {
namespace {

using nlohmann::json;
using Event = json::parse_event_t;
using Type = TokenizerSpec::TokenType;

constexpr std::int64_t kMostTokens = 1 << 20;  // four times the largest vocabulary that we know of

std::ifstream open(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(concat("cannot open ", file.string()));
  return in;
}

void place(TokenizerSpec& spec, std::int64_t id, const std::string& token, Type type,
           const std::string& source) {
  if (id < 0 || id >= kMostTokens)
    throw FormatError(concat(source, " gives the token '", token, "' the id ", id,
                             "; ids from 0 to ", kMostTokens - 1, " are allowed"));
  const auto index = static_cast<std::size_t>(id);
  if (index >= spec.tokens.size()) {
    spec.tokens.resize(index + 1);
    spec.types.resize(index + 1, Type::kUnused);
  }
  if (!spec.tokens[index].empty() && spec.tokens[index] != token)
    throw FormatError(concat(source, " gives the id ", id, " to two tokens, '", spec.tokens[index],
                             "' and '", token, "'"));
  spec.tokens[index] = token;
  spec.types[index] = type;
}

/// Watches a parse and takes tokens and merges out of it before they become a tree.
class Harvest {
 public:
  Harvest(TokenizerSpec& spec, std::string source) : spec_(spec), source_(std::move(source)) {}

  /// For tokenizer.json: the tokens are in model.vocab, the merges in model.merges.
  bool tokenizer_json(int depth, Event event, const json& value) {
    if (event == Event::key && depth >= 1 && depth <= 3) keys_[depth - 1] = value;
    if (depth < 3 || keys_[0] != "model") return true;
    if (keys_[1] == "vocab" && depth == 3 && event == Event::value)
      return take_token(keys_[2], value);
    if (keys_[1] == "merges") return take_merge(depth, event, value);
    return true;
  }

  /// For vocab.json: one object of tokens.
  bool vocab_json(int depth, Event event, const json& value) {
    if (event == Event::key && depth == 1) keys_[0] = value;
    return event != Event::value || depth != 1 || take_token(keys_[0], value);
  }

 private:
  bool take_token(const std::string& token, const json& value) {
    if (!value.is_number_integer()) return true;  // not the vocabulary of a BPE model
    place(spec_, value.get<std::int64_t>(), token, Type::kNormal, source_);
    return false;
  }

  // "left right", or ["left", "right"] as newer files have it.
  bool take_merge(int depth, Event event, const json& value) {
    if (depth == 3 && event == Event::value && value.is_string()) {
      spec_.merges.push_back(value);
      return false;
    }
    if (depth == 3 && event == Event::array_start) pair_.clear();
    if (depth == 4 && event == Event::value) {
      if (!value.is_string() || pair_.size() == 2) fail_merge();
      pair_.push_back(value);
      return false;
    }
    if (depth == 3 && event == Event::array_end) {
      if (pair_.size() != 2) fail_merge();
      for (const std::string& part : pair_)
        if (part.find(' ') != std::string::npos) fail_merge();
      spec_.merges.push_back(pair_[0] + ' ' + pair_[1]);
      return false;
    }
    return true;
  }

  [[noreturn]] void fail_merge() const {
    throw FormatError(concat("merge ", spec_.merges.size(), " in ", source_,
                             " is not a pair of byte-level tokens"));
  }

  TokenizerSpec& spec_;
  std::string source_;
  std::string keys_[3];
  std::vector<std::string> pair_;
};

json parse(const std::filesystem::path& file, const json::parser_callback_t& callback) {
  std::ifstream in = open(file);
  try {
    return json::parse(in, callback);
  } catch (const json::exception& e) {
    throw FormatError(concat(file.string(), " is not valid JSON: ", e.what()));
  }
}

// `value` must be absent, null, or one of `wanted`.
void want(const json& model, const char* field, std::initializer_list<json> wanted,
          const std::string& source) {
  const json value = model.value(field, json());
  if (value.is_null() || std::find(wanted.begin(), wanted.end(), value) != wanted.end()) return;
  throw FormatError(concat(source, " has ", field, " = ", value.dump(),
                           ", which barge's byte-level BPE doesn't support"));
}

void read_added_tokens(const json& added, const std::string& source, TokenizerSpec& spec) {
  for (const json& token : added) {
    for (const char* flag : {"single_word", "lstrip", "rstrip"})
      if (token.value(flag, false))
        throw FormatError(concat(source, " has the added token ", token.dump(), "; barge doesn't ",
                                 "support ", flag));
    set_added_token(spec, token.at("id").get<std::int64_t>(), token.at("content"),
                    token.value("special", false), source);
  }
}

// The id that a special token of a TemplateProcessing stands for.
TokenId template_id(const json& processor, const json& item, const std::string& source) {
  const json& name = item.at("SpecialToken").at("id");
  const json& ids = processor.at("special_tokens").at(name.get<std::string>()).at("ids");
  if (ids.size() != 1)
    throw FormatError(concat(source, ": the post-processor's token ", name.dump(), " stands for ",
                             ids.size(), " ids; barge supports one"));
  return ids[0];
}

void read_post_processor(const json& processor, const std::string& source, TokenizerSpec& spec) {
  if (processor.is_null()) return;
  const std::string type = processor.at("type");
  const auto set_bos = [&](TokenId id) {
    spec.bos = id;
    spec.add_bos = true;
  };
  const auto set_eos = [&](TokenId id) {
    spec.eos = {id};
    spec.add_eos = true;
  };
  if (type == "ByteLevel") return;
  if (type == "Sequence") {
    for (const json& part : processor.at("processors")) read_post_processor(part, source, spec);
  } else if (type == "RobertaProcessing") {
    set_bos(processor.at("cls").at(1));
    set_eos(processor.at("sep").at(1));
  } else if (type == "TemplateProcessing") {
    const json& items = processor.at("single");
    std::size_t text = 0;
    while (text < items.size() && !items[text].contains("Sequence")) ++text;
    if (text > 1 || text == items.size() || items.size() - text > 2)
      throw FormatError(concat(source, ": the post-processor's template ", items.dump(),
                               " is not one text with at most one token on either side"));
    if (text == 1) set_bos(template_id(processor, items[0], source));
    if (items.size() - text == 2) set_eos(template_id(processor, items[text + 1], source));
  } else {
    throw FormatError(
        concat(source, " has the post-processor ", type, ", which barge doesn't know"));
  }
}

}  // namespace

void set_added_token(TokenizerSpec& spec, std::int64_t id, const std::string& content, bool special,
                     const std::string& source) {
  place(spec, id, content, special ? Type::kControl : Type::kUserDefined, source);
}

TokenId id_of(const TokenizerSpec& spec, const std::string& token) {
  if (token.empty()) return -1;
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), token);
  return found == spec.tokens.end() ? -1 : static_cast<TokenId>(found - spec.tokens.begin());
}

void read_tokenizer_json(const std::filesystem::path& file, TokenizerSpec& spec) {
  const std::string source = file.string();
  Harvest harvest(spec, source);
  const json tokenizer = parse(file, [&](int depth, Event event, json& value) {
    return harvest.tokenizer_json(depth, event, value);
  });
  try {
    const json& model = tokenizer.at("model");
    want(model, "type", {"BPE"}, source);
    want(model, "byte_fallback", {false}, source);
    want(model, "continuing_subword_prefix", {""}, source);
    want(model, "end_of_word_suffix", {""}, source);
    spec.pre_tokenizer = map_pre_tokenizer(tokenizer, source);
    spec.ignore_merges = model.value("ignore_merges", false);
    const json added = tokenizer.value("added_tokens", json::array());
    read_added_tokens(added, source, spec);
    const json unk = model.value("unk_token", json());
    if (unk.is_string()) spec.unk = id_of(spec, unk);
    read_post_processor(tokenizer.value("post_processor", json()), source, spec);
  } catch (const json::exception& e) {
    throw FormatError(concat(source, " is not a tokenizer as barge knows it: ", e.what()));
  }
}

void read_vocab_and_merges(const std::filesystem::path& vocab, const std::filesystem::path& merges,
                           TokenizerSpec& spec) {
  Harvest harvest(spec, vocab.string());
  (void)parse(vocab, [&](int depth, Event event, json& value) {
    return harvest.vocab_json(depth, event, value);
  });
  std::ifstream in = open(merges);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.rfind("#version", 0) == 0) continue;
    spec.merges.push_back(line);
  }
}

}  // namespace barge::tokenizer_files
