#include "policy/lp.h"

#include <glpk.h>

#include <memory>

#include "core/errors.h"

namespace barge {

int LinearProgram::add_variable(const std::string& name, double cost) {
  variables_.push_back({name, cost});
  return static_cast<int>(variables_.size()) - 1;
}

int LinearProgram::add_at_most(const std::string& name, const Terms& terms, double bound) {
  rows_.push_back({name, terms, bound, false});
  return static_cast<int>(rows_.size()) - 1;
}

int LinearProgram::add_equal(const std::string& name, const Terms& terms, double value) {
  rows_.push_back({name, terms, value, true});
  return static_cast<int>(rows_.size()) - 1;
}

LinearProgram::Solution LinearProgram::solve() const {
  // GLPK counts rows, columns and elements from 1.
  glp_term_out(GLP_OFF);
  const std::unique_ptr<glp_prob, decltype(&glp_delete_prob)> problem(glp_create_prob(),
                                                                      glp_delete_prob);
  glp_prob* lp = problem.get();
  glp_set_obj_dir(lp, GLP_MIN);
  glp_add_cols(lp, static_cast<int>(variables_.size()));
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const int column = static_cast<int>(i) + 1;
    glp_set_col_name(lp, column, variables_[i].name.c_str());
    glp_set_col_bnds(lp, column, GLP_LO, 0, 0);
    glp_set_obj_coef(lp, column, variables_[i].cost);
  }
  glp_add_rows(lp, static_cast<int>(rows_.size()));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const int row = static_cast<int>(i) + 1;
    glp_set_row_name(lp, row, rows_[i].name.c_str());
    glp_set_row_bnds(lp, row, rows_[i].equal ? GLP_FX : GLP_UP, rows_[i].bound, rows_[i].bound);
    std::vector<int> columns{0};
    std::vector<double> values{0};
    for (const auto& [variable, coefficient] : rows_[i].terms) {
      columns.push_back(variable + 1);
      values.push_back(coefficient);
    }
    glp_set_mat_row(lp, row, static_cast<int>(columns.size()) - 1, columns.data(), values.data());
  }
  glp_scale_prob(lp, GLP_SF_AUTO);
  glp_smcp parameters;
  glp_init_smcp(&parameters);
  parameters.presolve = GLP_OFF;  // it would leave no prices
  if (const int code = glp_simplex(lp, &parameters); code != 0)
    throw Error(concat("the simplex of the policy search gave up with GLPK's code ", code, " on ",
                       rows_.size(), " rows and ", variables_.size(), " variables"));

  Solution solution;
  switch (glp_get_status(lp)) {
    case GLP_OPT:
      solution.status = Status::kOptimal;
      break;
    case GLP_UNBND:
      solution.status = Status::kUnbounded;
      return solution;
    default:
      solution.status = Status::kInfeasible;
      return solution;
  }
  for (std::size_t i = 0; i < variables_.size(); ++i)
    solution.x.push_back(glp_get_col_prim(lp, static_cast<int>(i) + 1));
  for (std::size_t i = 0; i < rows_.size(); ++i)
    solution.prices.push_back(glp_get_row_dual(lp, static_cast<int>(i) + 1));
  solution.objective = glp_get_obj_val(lp);
  return solution;
}

}  // namespace barge
