#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/change/replan.h"
#include "plan/problem/cluster_part.h"
#include "plan/problem/problem.h"
#include "plan/problem/roles.h"
#include "plan/report/plan_report.h"

namespace helix::plan {

// replan() of a cluster whose machines have roles (roles.h): prefill machines and the others, each
// group by itself, from its part of the current placement.
struct ReplanApart {
    PlanReport report;  // of the whole, as plan() makes one
    PlacementDiff diff;
    std::vector<ReplanReport> parts;    // as role_parts(); empty: roles cannot be kept
    std::vector<std::string> warnings;  // then why
};

// How a part is planned; its price and objective are the part's own.
using ReplanPartOptions = std::function<ReplanOptions(const ClusterPart& part, int which)>;

// The cluster has role_parts(). Where nothing that serves is near the part's current placement (it
// was made for machines without roles), that part is planned anew. Errors: the current placement
// does not fit the cluster.
base::Result<ReplanApart> replan_apart(const Problem& problem, const spec::Placement& current,
                                       const ReplanPartOptions& options);

}  // namespace helix::plan
