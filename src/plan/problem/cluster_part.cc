#include "plan/problem/cluster_part.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

using PartLinks = std::vector<std::pair<std::int32_t, std::int32_t>>;

using base::at;

constexpr std::int32_t kOutside = -2;

}  // namespace

ClusterPart part_of(const spec::ClusterSpec& cluster, const std::vector<bool>& keep) {
    CHECK(keep.size() == cluster.nodes.size());
    ClusterPart part;
    part.cluster = cluster;
    part.cluster.nodes.clear();
    part.cluster.links.clear();
    std::vector<std::int32_t> index(cluster.nodes.size() + 1, kOutside);  // [node + 1]
    index[0] = spec::kCoordinator;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        if (!keep[i]) continue;
        index[i + 1] = static_cast<std::int32_t>(part.origin.size());
        part.origin.push_back(static_cast<std::int32_t>(i));
        part.cluster.nodes.push_back(cluster.nodes[i]);
    }
    for (spec::LinkSpec link : cluster.links) {
        link.from = index[at(link.from + 1)];
        link.to = index[at(link.to + 1)];
        if (link.from != kOutside && link.to != kOutside) part.cluster.links.push_back(link);
    }
    return part;
}

PartLinks links_of_part(const PartLinks& links, const ClusterPart& part) {
    const auto index = [&](std::int32_t node) {
        const auto it = std::find(part.origin.begin(), part.origin.end(), node);
        return it == part.origin.end() ? spec::kCoordinator
                                       : static_cast<std::int32_t>(it - part.origin.begin());
    };
    PartLinks own;
    for (const auto& [from, to] : links) {
        const bool known_from = from == spec::kCoordinator || index(from) != spec::kCoordinator;
        const bool known_to = to == spec::kCoordinator || index(to) != spec::kCoordinator;
        if (known_from && known_to) own.emplace_back(index(from), index(to));
    }
    return own;
}

CapacityTable capacities_of_part(const CapacityTable& capacities, const ClusterPart& part) {
    CapacityTable own;
    for (const std::int32_t i : part.origin) own.nodes.push_back(capacities.nodes[at(i)]);
    if (capacities.beyond_tables.empty()) return own;
    for (const std::int32_t i : part.origin) {
        own.beyond_tables.push_back(capacities.beyond_tables[at(i)]);
    }
    return own;
}

spec::Placement placement_of_part(const spec::Placement& placement, const ClusterPart& part) {
    spec::Placement own;
    for (const std::int32_t i : part.origin) own.layers.push_back(placement.layers[at(i)]);
    return own;
}

void put_placement(const ClusterPart& part, const spec::Placement& placement,
                   spec::Placement& whole) {
    for (std::size_t k = 0; k < part.origin.size(); ++k)
        whole.layers[at(part.origin[k])] = placement.layers[k];
}

}  // namespace helix::plan
