#pragma once

#include <vector>

#include "plan/planner.h"

namespace helix::plan {

// Two flows that differ by less than this share are one.
inline constexpr double kSameFlow = 1e-6;

// The report's bound and what follows from it.
void set_bound(PlanReport& report, double bound_tokens_per_s);

// evaluate_placement with a prediction, if there is a model for it. flows: how requests spread;
// empty = the maximum flow of least latency.
base::Result<PlanReport> evaluate_with(const spec::ClusterSpec& cluster,
                                       const spec::ModelSpec& model,
                                       const CapacityTable& capacities,
                                       const spec::Placement& placement, const FlowOptions& options,
                                       const PerformanceModel* predictor,
                                       const std::vector<spec::LinkFlow>& flows);

}  // namespace helix::plan
