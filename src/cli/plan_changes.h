#pragma once

#include "base/result.h"
#include "cli/plan_arguments.h"
#include "cli/plan_progress.h"
#include "lab/planning/plan_session.h"

// The questions of `helix plan` about changes, and their answers on standard output; the line of
// progress goes before an answer comes.

namespace helix::cli {

// --add, --remove, --link, --upgrade: the plan before and after.
base::Status run_what_if(const PlanArguments& arguments, const lab::PlanSession& session,
                         PlanProgressLine& line);
// --current FILE: a plan near the one in force, after the changes, and what moves.
base::Status run_replan(const PlanArguments& arguments, const lab::PlanSession& session,
                        PlanProgressLine& line);
// --advise N.
base::Status run_advise(const PlanArguments& arguments, const lab::PlanSession& session,
                        PlanProgressLine& line);

}  // namespace helix::cli
