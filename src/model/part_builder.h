#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "model/family.h"

namespace barge {

/// Lists the tensors of one part under their canonical names.
class PartBuilder {
 public:
  explicit PartBuilder(Part::Kind kind, int layer = -1)
      : part_{.kind = kind, .layer = layer, .tensors = {}},
        prefix_(layer < 0 ? "" : "layers." + std::to_string(layer) + ".") {}

  PartBuilder& matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    return add(name, rows, cols, TensorSpec::Kind::kMatrix);
  }
  PartBuilder& table(const std::string& name, std::int64_t rows, std::int64_t cols) {
    return add(name, rows, cols, TensorSpec::Kind::kTable);
  }
  PartBuilder& vector(const std::string& name, std::int64_t cols) {
    return add(name, 1, cols, TensorSpec::Kind::kVector);
  }
  Part take() { return std::move(part_); }

 private:
  PartBuilder& add(const std::string& name, std::int64_t rows, std::int64_t cols,
                   TensorSpec::Kind kind) {
    part_.tensors.push_back({prefix_ + name, rows, cols, kind});
    return *this;
  }

  Part part_;
  std::string prefix_;
};

}  // namespace barge
