#pragma once

#include <functional>

#include "base/result.h"
#include "cli/plan_arguments.h"
#include "cli/problem_option.h"
#include "plan/planner.h"

namespace helix::cli {

// Decode tokens/s of a plan in the simulator, offline, after 60 s to warm up: with measured tables
// under the published policy (ranked mostly by the split that is asked about and a little by a
// maximum flow's), else under our own. Empty with --judge none. The problem must outlive the
// judge; it may be called by several threads at once.
base::Result<plan::Judge> simulation_judge(const PlanArguments& arguments, const Problem& problem,
                                           const plan::FlowOptions& flow);

// Runs task(0) .. task(n - 1) on so many threads; 0 = as many as the machine has.
plan::Executor threads_executor(int threads);

}  // namespace helix::cli
