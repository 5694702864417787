#pragma once

#include <memory>

#include "plan/mip/solver.h"

// Solvers that the user has installed as programs: they get the program as an MPS file and their
// solution file is read back, checked against the program row by row. While they run nothing is
// known of their best value and bound: SolveOptions::stop hears infinities.

namespace helix::plan::mip {

// `highs`. Told to stop, it ends without a solution. Duals for linear programs.
std::unique_ptr<Solver> make_highs_solver();

// `gurobi_cl`. Told to stop, it hands over its best solution. No duals.
std::unique_ptr<Solver> make_gurobi_solver();

}  // namespace helix::plan::mip
