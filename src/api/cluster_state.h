#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/plan_figures.h"
#include "core/coordinator/coordinator.h"

// The cluster as JSON, for GET /helix/cluster and for those who follow it (api/cluster_feed.h).
// docs/api.md says what the members mean.

namespace helix::api {

// What a cluster serves.
struct ServedShape {
    std::string model;
    std::int32_t n_layers = 0;
};

// The body of /helix/cluster but for its requests. plan counts only where it speaks of the
// placement in force.
nlohmann::json cluster_state(const core::ClusterView& view, const std::optional<PlanFigures>& plan,
                             const ServedShape& shape);

}  // namespace helix::api
