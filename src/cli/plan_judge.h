#pragma once

#include <functional>

#include "base/result.h"
#include "cli/plan_arguments.h"
#include "cli/problem_option.h"
#include "plan/planner.h"

namespace helix::cli {

// Decode tokens/s of a plan in the simulator, offline, after 60 s to warm up: under our own policy
// with --batching helix, under the published one with reference, and with both under our own,
// ranked by a geometric mean of the two in which our own counts half as much again. Without
// measured tables always our own. Empty with
// --judge none. The problem must outlive the judge; it may be called by several threads at once.
base::Result<plan::Judge> simulation_judge(const PlanArguments& arguments, const Problem& problem);

// Runs task(0) .. task(n - 1) on so many threads; 0 = as many as the machine has.
plan::Executor threads_executor(int threads);

}  // namespace helix::cli
