#pragma once

#include <cstdint>

#include "core/coordinator/coordinator.h"
#include "sim/flat_cost.h"

// Three workers of two layers each in a row, and what their batches cost.

namespace helix::sim::test_support {

constexpr std::int32_t kLayers = 6;

using sim::FlatCost;

inline core::CoordinatorEvent three_stages(const core::PlanCluster& request) {
    if (request.workers.size() != 3) return core::NotPlanned{request.plan, "three are needed"};
    core::Planned planned;
    planned.plan = request.plan;
    planned.placement.layers = {{0, 2}, {2, 4}, {4, kLayers}};
    planned.flows = {{spec::kCoordinator, 0, 9}, {0, 1, 9}, {1, 2, 9}, {2, spec::kCoordinator, 9}};
    return planned;
}

}  // namespace helix::sim::test_support
