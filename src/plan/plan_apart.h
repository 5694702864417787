#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/planner.h"

namespace helix::plan {

// plan() of a cluster whose machines have roles (roles.h): prefill machines and the others, each
// group by itself. Empty where there is nothing to keep apart or a group cannot hold the model;
// then `warnings` says so. Costs: for the prediction; may be null.
std::optional<PlanReport> plan_apart(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                                     const CapacityTable& capacities, const spec::CostModel* costs,
                                     const PlanOptions& options,
                                     std::vector<std::string>& warnings);

}  // namespace helix::plan
