#pragma once

#include "plan/mip/program.h"
#include "plan/mip/solver.h"

class OsiClpSolverInterface;

// How a Program stands in the COIN-OR libraries: always as a minimisation, so that signs of bounds
// and duals have one meaning; +1 or -1 leads back.

namespace helix::plan::mip {

constexpr double sign_of(const Program& program) {
    return program.maximise ? -1.0 : 1.0;
}

// `osi` must be fresh. Integer columns are marked as such; nothing is printed from now on.
void load(const Program& program, OsiClpSolverInterface& osi);

// A program without integer columns, by CLP.
base::Result<Solution> solve_linear(const Program& program, const SolveOptions& options);

// With integer columns, by CBC.
base::Result<Solution> solve_integer(const Program& program, const SolveOptions& options);

}  // namespace helix::plan::mip
