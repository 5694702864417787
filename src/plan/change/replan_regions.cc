#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/change/replan.h"
#include "plan/problem/problem.h"

namespace helix::plan {
namespace {

constexpr std::int32_t kNoRegion = -2;

// The cluster without what is outside the regions.
struct RegionPart {
    spec::ClusterSpec cluster;
    CapacityTable capacities;
    spec::Placement current;
    std::vector<std::int32_t> origin;  // [node of the part]: its index in the whole
};

RegionPart part_of(const spec::ClusterSpec& cluster, const CapacityTable& capacities,
                   const spec::Placement& current, const std::vector<std::string>& regions) {
    RegionPart part;
    part.cluster.name = fmt::format("{} ({})", cluster.name, fmt::join(regions, ", "));
    part.cluster.coordinator_nic_in_bytes_per_s = cluster.coordinator_nic_in_bytes_per_s;
    part.cluster.coordinator_nic_out_bytes_per_s = cluster.coordinator_nic_out_bytes_per_s;
    std::vector<std::int32_t> index(cluster.nodes.size() + 1, kNoRegion);  // [node + 1]
    index[0] = spec::kCoordinator;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        const std::string& region = cluster.nodes[i].region;
        if (std::find(regions.begin(), regions.end(), region) == regions.end()) continue;
        index[i + 1] = static_cast<std::int32_t>(part.origin.size());
        part.origin.push_back(static_cast<std::int32_t>(i));
        part.cluster.nodes.push_back(cluster.nodes[i]);
        part.capacities.nodes.push_back(capacities.nodes[i]);
        part.current.layers.push_back(current.layers[i]);
    }
    for (const spec::LinkSpec& link : cluster.links) {
        const std::int32_t from = index[static_cast<std::size_t>(link.from + 1)];
        const std::int32_t to = index[static_cast<std::size_t>(link.to + 1)];
        if (from == kNoRegion || to == kNoRegion) continue;
        part.cluster.links.push_back({from, to, link.bandwidth_bytes_per_s, link.latency_s});
    }
    return part;
}

}  // namespace

base::Result<ReplanReport> replan_regions(const Problem& problem, const spec::Placement& current,
                                          const std::vector<std::string>& regions,
                                          const ReplanOptions& options) {
    TRY_VOID(check_placement(problem, current));
    const RegionPart part = part_of(problem.cluster, problem.capacities, current, regions);
    if (part.origin.empty()) {
        return base::invalid(fmt::format("replan: no machine of {} is in region {}",
                                         problem.cluster.name, fmt::join(regions, ", ")));
    }
    const auto whole = [&](const spec::Placement& placement) {
        spec::Placement all = current;
        for (std::size_t k = 0; k < part.origin.size(); ++k)
            all.layers[static_cast<std::size_t>(part.origin[k])] = placement.layers[k];
        return all;
    };
    ReplanOptions own = options;
    if (options.objective) {
        own.objective = [&](const spec::Placement& placement) {
            return options.objective(whole(placement));
        };
    }
    TRY(ReplanReport report,
        replan({part.cluster, problem.model, part.capacities}, part.current, own));
    report.placement = whole(report.placement);
    report.diff = placement_diff(problem.cluster, problem.model, current, report.placement,
                                 options.disk_bytes_per_s);
    return report;
}

}  // namespace helix::plan
