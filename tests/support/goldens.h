#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace barge {

/// One prompt, the answer that Hugging Face's transformers gave it, and the logits behind it.
struct Golden {
  /// The logits that chose one token of the answer.
  struct Position {
    float logsumexp;  // over the whole vocabulary
    // (token id, logit): of the whole vocabulary in order, or the 32 largest, then 64 ids that are
    // the same at every position (one of them may be among the largest too).
    std::vector<std::pair<int, float>> logits;
  };

  std::vector<int> prompt;
  std::vector<int> tokens;          // greedy, end tokens not minded
  std::vector<Position> positions;  // [tokens.size()]; position i was fed prompt + tokens[0, i)
};

/// What scripts/make_goldens wrote of one model; its head documents the files.
struct Goldens {
  std::string name;
  std::string model;  // absolute path; empty: the GGUF of scripts/fetch_model ($BARGE_TEST_MODEL)
  int vocab = 0;
  std::vector<Golden> sequences;
};

/// Reads `directory`/NAME.json and NAME.bin; throws std::runtime_error if they don't match.
inline Goldens read_goldens(const std::filesystem::path& directory, const std::string& name) {
  const nlohmann::json header =
      nlohmann::json::parse(std::ifstream(directory / (name + ".json"), std::ios::binary));
  std::ifstream bin(directory / (name + ".bin"), std::ios::binary);
  const auto next = [&bin, &name]<typename T>(T) {
    char bytes[sizeof(T)];
    if (!bin.read(bytes, sizeof bytes)) throw std::runtime_error(name + ".bin is too short");
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };

  Goldens goldens{.name = header.at("name"), .vocab = header.at("vocab")};
  const std::string model = header.at("model");
  if (!model.empty()) goldens.model = (directory / model).string();
  const bool dense = header.at("dense");
  const std::size_t kept = header.at("kept");
  for (const auto& sequence : header.at("sequences")) {
    Golden golden{.prompt = sequence.at("prompt"), .tokens = sequence.at("tokens")};
    for (std::size_t i = 0; i < golden.tokens.size(); ++i) {
      Golden::Position position{.logsumexp = next(float{})};
      for (std::size_t k = 0; k < kept; ++k)
        position.logits.emplace_back(dense ? static_cast<int>(k) : next(std::int32_t{}), 0.0f);
      for (auto& [id, logit] : position.logits) logit = next(float{});
      golden.positions.push_back(std::move(position));
    }
    goldens.sequences.push_back(std::move(golden));
  }
  if (bin.peek() != std::ifstream::traits_type::eof())
    throw std::runtime_error(name + ".bin is longer than " + name + ".json says");
  return goldens;
}

/// The names of all goldens in `directory`, sorted.
inline std::vector<std::string> golden_names(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().extension() == ".bin") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace barge
