#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/change/replan.h"
#include "plan/problem/cluster_part.h"

namespace helix::plan {
namespace {

// The cluster without what is outside the regions.
ClusterPart part_of_regions(const spec::ClusterSpec& cluster,
                            const std::vector<std::string>& regions) {
    std::vector<bool> keep;
    for (const spec::NodeSpec& node : cluster.nodes) {
        keep.push_back(std::find(regions.begin(), regions.end(), node.region) != regions.end());
    }
    ClusterPart part = part_of(cluster, keep);
    part.cluster.name = fmt::format("{} ({})", cluster.name, fmt::join(regions, ", "));
    return part;
}

}  // namespace

base::Result<ReplanReport> replan_regions(const Problem& problem, const spec::Placement& current,
                                          const std::vector<std::string>& regions,
                                          const ReplanOptions& options) {
    TRY_VOID(check_placement(problem, current));
    const ClusterPart part = part_of_regions(problem.cluster, regions);
    if (part.origin.empty()) {
        return base::invalid(fmt::format("replan: no machine of {} is in region {}",
                                         problem.cluster.name, fmt::join(regions, ", ")));
    }
    const auto whole = [&](const spec::Placement& placement) {
        spec::Placement all = current;
        put_placement(part, placement, all);
        return all;
    };
    ReplanOptions own = options;
    if (options.objective) {
        own.objective = [&](const spec::Placement& placement) {
            return options.objective(whole(placement));
        };
    }
    const CapacityTable capacities = capacities_of_part(problem.capacities, part);
    TRY(ReplanReport report,
        replan({part.cluster, problem.model, capacities}, placement_of_part(current, part), own));
    report.placement = whole(report.placement);
    report.diff = placement_diff(problem.cluster, problem.model, current, report.placement,
                                 options.disk_bytes_per_s);
    return report;
}

}  // namespace helix::plan
