#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/problem/capacity.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

// Machines with roles (prefill/decode disaggregation): those that only compute prompts are planned
// as one cluster, all others as another, and both placements are in force side by side.

namespace helix::plan {

// A part of a cluster: some of its nodes, the links and lines among them and to the coordinator.
struct RolePart {
    spec::ClusterSpec cluster;
    std::vector<std::int32_t> origin;  // [node of the part]: its index in the whole
};

// Two parts, that of the prefill machines first; none when there is nothing to keep apart: no
// machine only prefills, or all do.
std::vector<RolePart> role_parts(const spec::ClusterSpec& cluster);

// Do the prefill machines hold all layers, and the others, too? Then no token passes from one
// group to the other.
bool keeps_roles(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                 const spec::Placement& placement);

// What the roles ask for and nothing can give: every machine prefills, or none may.
std::vector<std::string> role_warnings(const spec::ClusterSpec& cluster);

// What the part has of the whole, by its own indices: links (from, to) within it, speeds, layers.
std::vector<std::pair<std::int32_t, std::int32_t>> links_of_part(
    const std::vector<std::pair<std::int32_t, std::int32_t>>& links, const RolePart& part);
CapacityTable capacities_of_part(const CapacityTable& capacities, const RolePart& part);
spec::Placement placement_of_part(const spec::Placement& placement, const RolePart& part);

}  // namespace helix::plan
