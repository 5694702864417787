#pragma once

#include <functional>

#include "base/result.h"
#include "cli/plan_arguments.h"
#include "cli/problem_option.h"
#include "plan/planner.h"

namespace helix::cli {

// Decode tokens/s of a plan in the simulator: offline load under the published policy, 60 s to warm
// up and `window_s` counted. nullptr where the problem has no measured tables and --judge is auto;
// errors if it is `simulate`. The problem must outlive the judge; it may be called by several
// threads at once.
base::Result<plan::Judge> simulation_judge(const PlanArguments& arguments, const Problem& problem,
                                           const plan::FlowOptions& flow);

// Runs task(0) .. task(n - 1) on so many threads; 0 = as many as the machine has.
plan::Executor threads_executor(int threads);

}  // namespace helix::cli
