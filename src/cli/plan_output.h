#pragma once

#include "base/result.h"
#include "cli/plan_arguments.h"
#include "cli/problem_option.h"
#include "plan/planner.h"
#include "spec/placement_file.h"

namespace helix::cli {

// A plan as a placement file says it: the links that carry flow, and whose nodes these are.
spec::PlacementFile placement_file(const Problem& problem, const plan::PlanReport& report);
// --output and --svg.
base::Status write_plan_files(const PlanArguments& arguments, const Problem& problem,
                              const plan::PlanReport& report);
// The files, then the picture or the JSON on standard output.
base::Status show_plan(const PlanArguments& arguments, const Problem& problem,
                       const plan::PlanReport& report, double seconds);

}  // namespace helix::cli
