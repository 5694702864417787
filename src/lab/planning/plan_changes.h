#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/planning/plan_session.h"
#include "lab/problem/problem.h"
#include "plan/change/cluster_change.h"
#include "plan/change/placement_diff.h"
#include "plan/change/what_if.h"

// What changes of a cluster would do: the questions of `helix plan` beside the plan itself. The
// session's budget is the time that all of an answer may take.

namespace helix::lab {

// Plans of the cluster before and after the changes.
struct WhatIfAnswer {
    Problem after;
    plan::WhatIf plans;
};
base::Result<WhatIfAnswer> answer_what_if(const PlanSession& session,
                                          const std::vector<plan::Change>& changes);

// A plan near the placement in force, and what moves.
struct ReplanQuestion {
    std::vector<plan::Change> changes;
    std::string current;   // file of the placement in force
    double horizon_s = 0;  // in which the new plan has to make up for what moves; above 0
};
struct ReplanAnswer {
    Problem problem;  // after the changes
    plan::PlanReport report;
    plan::PlacementDiff diff;
    // Flow without moving anything, in tokens/s: one figure, or those of the machines for prompts
    // and of the machines that decode.
    std::vector<double> flows_before;
};
base::Result<ReplanAnswer> answer_replan(const PlanSession& session,
                                         const ReplanQuestion& question);

// The purchases and upgrades that help most for their price.
struct Advised {
    plan::AdviceReport report;
    // Before and after the first of them, both planned in full; absent where the placement in force
    // was given or the time was up.
    std::optional<plan::WhatIf> first;
};
// picks: how many; current: file of the placement in force, "": the cluster is planned first.
base::Result<Advised> answer_advise(const PlanSession& session, int picks,
                                    const std::string& current);

}  // namespace helix::lab
