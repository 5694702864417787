#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/planner.h"
#include "plan/roles.h"

namespace helix::plan {

// plan() of a cluster whose machines have roles (roles.h): prefill machines and the others, each
// group by itself. Empty where there is nothing to keep apart or a group cannot hold the model;
// then `warnings` says so. Costs: for the prediction; may be null.
std::optional<PlanReport> plan_apart(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                                     const CapacityTable& capacities, const spec::CostModel* costs,
                                     const PlanOptions& options,
                                     std::vector<std::string>& warnings);

// Plans of the parts as one of the whole cluster. Costs: for the prediction; may be null.
base::Result<PlanReport> join_reports(const spec::ClusterSpec& cluster,
                                      const spec::ModelSpec& model, const CapacityTable& capacities,
                                      const std::vector<RolePart>& parts,
                                      const std::vector<PlanReport>& reports,
                                      const FlowOptions& flow, const PerformanceModel* predictor);

// Of the links of the whole those within the part, by its indices.
std::vector<std::pair<std::int32_t, std::int32_t>> links_of_part(
    const std::vector<std::pair<std::int32_t, std::int32_t>>& links, const RolePart& part);
CapacityTable capacities_of_part(const CapacityTable& capacities, const RolePart& part);
spec::Placement placement_of_part(const spec::Placement& placement, const RolePart& part);

}  // namespace helix::plan
