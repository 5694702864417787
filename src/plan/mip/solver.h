#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/mip/program.h"

namespace helix::plan::mip {

enum class Outcome {
    optimal,
    feasible,  // stopped early with a solution
    infeasible,
    unbounded,
    stopped,  // stopped early without a solution
};
const char* to_string(Outcome outcome);

struct SolveOptions {
    std::vector<double> start;  // a full solution to start from; empty = none
    double relative_gap = 0;    // good enough
    // Asked between steps (a large root problem is one, of seconds), with the best value and bound
    // so far, the worst and best infinity while there is none; true ends the search.
    std::function<bool(double best, double bound)> stop;
};

struct Solution {
    Outcome outcome = Outcome::stopped;
    double objective = 0;           // of `values`; only if optimal or feasible
    double bound = 0;               // no solution is better
    std::vector<double> values;     // parallel to the columns
    std::vector<double> row_duals;  // only without integer columns: d objective / d right-hand side
    std::int64_t nodes = 0;         // of branch and bound
    bool start_used = false;        // the solver took `start` as its first incumbent
};

// Behind this interface: CBC and CLP in this process ("cbc"), or a program the user has ("highs",
// "gurobi"), which is handed an MPS file and whose solution file is read back. Errors: a program
// that is not there, a file it cannot read.
class Solver {
  public:
    virtual ~Solver() = default;
    virtual const char* name() const = 0;
    virtual base::Result<Solution> solve(const Program& program, const SolveOptions& options) = 0;
};

// CHECKs what only a bug of the caller can break: columns within the range and once a row, bounds
// of rows in order, a start of full length.
void check_program(const Program& program, const SolveOptions& options);

// The cost of the columns at `values`.
double objective_of(const Program& program, const std::vector<double>& values);

// "cbc", "highs" or "gurobi"; whether such a program is there shows when it is asked to solve.
base::Result<std::unique_ptr<Solver>> make_solver(const std::string& name);

}  // namespace helix::plan::mip
