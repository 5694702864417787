#pragma once

#include "base/result.h"
#include "cli/plan_arguments.h"
#include "lab/problem/problem.h"
#include "plan/planner.h"

namespace helix::cli {

// --output and --svg.
base::Status write_plan_files(const PlanArguments& arguments, const lab::Problem& problem,
                              const plan::PlanReport& report);
// The files, then the picture or the JSON on standard output.
base::Status show_plan(const PlanArguments& arguments, const lab::Problem& problem,
                       const plan::PlanReport& report, double seconds);

}  // namespace helix::cli
