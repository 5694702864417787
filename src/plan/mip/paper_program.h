#pragma once

#include "base/result.h"
#include "plan/capacity.h"
#include "plan/mip/milp.h"
#include "plan/planner.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

namespace helix::plan {

// The paper's planner, and nothing beside it: options.milp, started (unless options.milp_start is
// false) from the placement of most flow that a rule makes. What the solver finds is what is
// returned, even if it is nothing. Errors: those of milp_placement.
base::Result<MilpReport> solve_paper_program(const spec::ClusterSpec& cluster,
                                             const spec::ModelSpec& model,
                                             const CapacityTable& capacities,
                                             const PlanOptions& options);

}  // namespace helix::plan
