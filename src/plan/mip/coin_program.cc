#include "plan/mip/coin_program.h"

#include <fmt/format.h>

#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <CoinFinite.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <vector>

namespace helix::plan::mip {
namespace {

// Asks `stop` at every refactorisation; there is no value or bound to tell yet.
class LinearStop : public ClpEventHandler {
  public:
    LinearStop(const SolveOptions& options, double sign) : options_(options), sign_(sign) {}
    int event(Event which) override {
        if (which != endOfFactorization || !options_.stop) return -1;
        return options_.stop(sign_ * kInfinity, -sign_ * kInfinity) ? 1 : -1;
    }
    ClpEventHandler* clone() const override { return new LinearStop(*this); }

  private:
    const SolveOptions& options_;
    double sign_;
};

double coin_bound(double bound) {
    return std::clamp(bound, -COIN_DBL_MAX, COIN_DBL_MAX);
}

}  // namespace

void load(const Program& program, OsiClpSolverInterface& osi) {
    std::vector<double> column_lower;
    std::vector<double> column_upper;
    std::vector<double> cost;
    for (const Program::Column& column : program.columns) {
        column_lower.push_back(coin_bound(column.lower));
        column_upper.push_back(coin_bound(column.upper));
        cost.push_back(sign_of(program) * column.cost);
    }
    std::vector<double> row_lower;
    std::vector<double> row_upper;
    std::vector<int> row_of;
    std::vector<int> column_of;
    std::vector<double> factors;
    for (const Program::Row& row : program.rows) {
        for (const Program::Term& term : row.terms) {
            row_of.push_back(static_cast<int>(row_lower.size()));
            column_of.push_back(term.column);
            factors.push_back(term.factor);
        }
        row_lower.push_back(coin_bound(row.lower));
        row_upper.push_back(coin_bound(row.upper));
    }
    CoinPackedMatrix matrix(true, row_of.data(), column_of.data(), factors.data(),
                            static_cast<CoinBigIndex>(factors.size()));
    matrix.setDimensions(static_cast<int>(row_lower.size()), static_cast<int>(cost.size()));
    osi.messageHandler()->setLogLevel(0);
    osi.getModelPtr()->setLogLevel(0);
    osi.setHintParam(OsiDoReducePrint, true, OsiHintTry);
    osi.loadProblem(matrix, column_lower.data(), column_upper.data(), cost.data(), row_lower.data(),
                    row_upper.data());
    for (std::size_t c = 0; c < program.columns.size(); ++c) {
        if (program.columns[c].integer) osi.setInteger(static_cast<int>(c));
    }
}

base::Result<Solution> solve_linear(const Program& program, const SolveOptions& options) {
    OsiClpSolverInterface osi;
    load(program, osi);
    ClpSimplex& clp = *osi.getModelPtr();
    const double sign = sign_of(program);
    const LinearStop stop(options, sign);
    clp.passInEventHandler(&stop);
    clp.dual();
    // The primal method says for certain whether it is infeasible or unbounded.
    if (clp.status() == 1 || clp.status() == 2 || clp.status() == 4) clp.primal();
    Solution solution;
    solution.bound = -sign * kInfinity;
    switch (clp.status()) {
        case 0:
            break;
        case 1:
            solution.outcome = Outcome::infeasible;
            return solution;
        case 2:
            solution.outcome = Outcome::unbounded;
            return solution;
        case 3:
        case 5:
            solution.outcome = Outcome::stopped;
            return solution;
        default:
            return base::Error{base::Errc::internal,
                               fmt::format("CLP gave up on a program of {} rows and {} columns",
                                           program.rows.size(), program.columns.size())};
    }
    solution.outcome = Outcome::optimal;
    solution.values.assign(clp.primalColumnSolution(),
                           clp.primalColumnSolution() + clp.numberColumns());
    solution.objective = objective_of(program, solution.values);
    solution.bound = solution.objective;
    for (int r = 0; r < clp.numberRows(); ++r) {
        solution.row_duals.push_back(sign * clp.dualRowSolution()[r]);
    }
    return solution;
}

}  // namespace helix::plan::mip
