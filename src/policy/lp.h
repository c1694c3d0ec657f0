#pragma once

#include <string>
#include <vector>

namespace barge {

/// A small linear programme: minimise cost . x, x >= 0, rows of coefficients with bounds.
class LinearProgram {
 public:
  enum class Status { kOptimal, kInfeasible, kUnbounded };
  struct Solution {
    Status status = Status::kInfeasible;
    std::vector<double> x;       // [variables]
    std::vector<double> prices;  // [rows]: what one unit of a row's bound is worth
    double objective = 0;
  };

  /// Returns the variable's index.
  int add_variable(const std::string& name, double cost);
  using Terms = std::vector<std::pair<int, double>>;  // (variable, coefficient)
  int add_at_most(const std::string& name, const Terms& terms, double bound);
  int add_equal(const std::string& name, const Terms& terms, double value);

  void set_cost(int variable, double cost) {
    variables_[static_cast<std::size_t>(variable)].cost = cost;
  }

  /// By GLPK's simplex, scaled. Throws Error where the solver gives up.
  Solution solve() const;

 private:
  struct Row {
    std::string name;
    Terms terms;
    double bound;
    bool equal;
  };
  struct Variable {
    std::string name;
    double cost;
  };
  std::vector<Variable> variables_;
  std::vector<Row> rows_;
};

}  // namespace barge
