#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/problem/capacity.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

namespace helix::plan {

// A part of a cluster that is planned for itself: some of its nodes, in their order, and the links
// among them and to the coordinator, which is that of the whole.
struct ClusterPart {
    spec::ClusterSpec cluster;
    std::vector<std::int32_t> origin;  // [node of the part]: its index in the whole
};

// keep: [node of the cluster]. The part has the cluster's name.
ClusterPart part_of(const spec::ClusterSpec& cluster, const std::vector<bool>& keep);

// What the part has of the whole, by its own indices: links (from, to) within it, speeds, layers.
std::vector<std::pair<std::int32_t, std::int32_t>> links_of_part(
    const std::vector<std::pair<std::int32_t, std::int32_t>>& links, const ClusterPart& part);
CapacityTable capacities_of_part(const CapacityTable& capacities, const ClusterPart& part);
spec::Placement placement_of_part(const spec::Placement& placement, const ClusterPart& part);

// Gives the part's nodes in `whole` the layers that they have in `placement`, one of the part.
void put_placement(const ClusterPart& part, const spec::Placement& placement,
                   spec::Placement& whole);

}  // namespace helix::plan
