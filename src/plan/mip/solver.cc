#include "plan/mip/solver.h"

#include <CoinError.hpp>
#include <algorithm>
#include <exception>
#include <vector>

#include "base/check.h"
#include "plan/mip/coin_program.h"
#include "plan/mip/external_solver.h"

namespace helix::plan::mip {
namespace {

class CbcSolver : public Solver {
  public:
    const char* name() const override { return "cbc"; }
    base::Result<Solution> solve(const Program& program, const SolveOptions& options) override {
        check_program(program, options);
        const bool integer =
            std::any_of(program.columns.begin(), program.columns.end(),
                        [](const Program::Column& column) { return column.integer; });
        try {
            return integer ? solve_integer(program, options) : solve_linear(program, options);
        } catch (const CoinError& error) {
            return base::Error{base::Errc::internal, "CBC failed: " + error.message()};
        }
    }
};

}  // namespace

const char* to_string(Outcome outcome) {
    switch (outcome) {
        case Outcome::optimal:
            return "optimal";
        case Outcome::feasible:
            return "feasible";
        case Outcome::infeasible:
            return "infeasible";
        case Outcome::unbounded:
            return "unbounded";
        case Outcome::stopped:
            return "stopped";
    }
    return "?";
}

void check_program(const Program& program, const SolveOptions& options) {
    const std::size_t n = program.columns.size();
    CHECK(options.start.empty() || options.start.size() == n);
    std::vector<std::size_t> last_row(n, program.rows.size());
    for (std::size_t r = 0; r < program.rows.size(); ++r) {
        CHECK(program.rows[r].lower <= program.rows[r].upper);
        for (const Program::Term& term : program.rows[r].terms) {
            CHECK(term.column >= 0);
            const auto c = static_cast<std::size_t>(term.column);
            CHECK(c < n && last_row[c] != r);
            last_row[c] = r;
        }
    }
}

double objective_of(const Program& program, const std::vector<double>& values) {
    CHECK(values.size() == program.columns.size());
    double sum = 0;
    for (std::size_t c = 0; c < values.size(); ++c) sum += program.columns[c].cost * values[c];
    return sum;
}

base::Result<std::unique_ptr<Solver>> make_solver(const std::string& name) {
    if (name == "cbc") return std::unique_ptr<Solver>(std::make_unique<CbcSolver>());
    if (name == "highs") return make_highs_solver();
    if (name == "gurobi") return make_gurobi_solver();
    return base::invalid("solver " + name + ": known are cbc, highs and gurobi");
}

}  // namespace helix::plan::mip
