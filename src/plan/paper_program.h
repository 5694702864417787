#pragma once

#include "base/result.h"
#include "plan/milp/milp.h"
#include "plan/options.h"
#include "plan/problem/problem.h"

namespace helix::plan {

// The paper's planner, and nothing beside it: options.milp with its start, and without one from the
// placement of most flow that a rule makes, if options.milp_start says so. What the solver finds is
// what is returned, even if it is nothing. Errors: those of milp_placement.
base::Result<MilpReport> solve_paper_program(const Problem& problem, const PlanOptions& options);

}  // namespace helix::plan
