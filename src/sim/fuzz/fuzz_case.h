#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/faults/fault_plan.h"
#include "sim/faults/faulty_cluster.h"

// One seed's cluster, tunables, load and faults. Everything is drawn, hostile values on purpose.

namespace helix::sim {

struct FuzzRequest {
    double at_s = 0;
    core::Request request;
    double cancel_after_s = -1;   // < 0: never
    std::int32_t poison_at = -1;  // workers die that compute this position; < 0: none does
};

struct FuzzCase {
    std::uint64_t seed = 0;
    FaultyClusterConfig cluster;
    std::vector<std::pair<spec::NodeSpec, std::int64_t>> workers;  // and their KV pages
    bool planned_apart = false;  // workers that only prefill, and the others: each group holds all
    bool fixed_layers = false;   // each worker has its range; else every plan spreads anew
    double faults_s = 0;         // phase 1 lasts so long
    FaultPlan faults;
    std::vector<FuzzRequest> load;     // in order of time, within phase 1
    std::vector<core::Request> after;  // in the calm
    double calm_s = 0;                 // within which everything must have ended
};

FuzzCase draw_case(std::uint64_t seed);
// Answers PlanCluster as the case's planner does. plan decides among equal clusters.
core::CoordinatorEvent draw_placement(const FuzzCase& which, const core::PlanCluster& request);

}  // namespace helix::sim
