#pragma once

#include <functional>

#include "base/result.h"
#include "cli/plan_arguments.h"
#include "cli/problem_option.h"
#include "plan/planner.h"

namespace helix::cli {

// What `helix plan` shares with its questions about changes: the clock, threads and progress.
struct PlanSession {
    const PlanArguments& arguments;
    std::function<double()> elapsed_s;
    std::function<bool()> interrupted;
    std::function<void(const plan::PlanProgress&)> progress;
    double budget_s = 0;

    // Plans the problem; the time ends at `until_s` of the session.
    base::Result<plan::PlanReport> plan(const Problem& problem, double until_s,
                                        const spec::Placement* start) const;
};

// --add, --remove, --link, --upgrade: the plan before and after.
base::Status run_what_if(const PlanSession& session);
// --current FILE: a plan near the one in force, after the changes, and what moves.
base::Status run_replan(const PlanSession& session);
// --advise N.
base::Status run_advise(const PlanSession& session);

}  // namespace helix::cli
