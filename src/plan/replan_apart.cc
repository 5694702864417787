#include "plan/replan_apart.h"

#include <utility>

#include "base/check.h"
#include "plan/flow/flow_graph.h"
#include "plan/plan_apart.h"
#include "plan/plan_evaluate.h"
#include "plan/planner.h"

namespace helix::plan {
namespace {

using spec::Placement;

// What replan() would say of a placement that it did not find.
base::Result<ReplanReport> plan_anew(const Problem& problem, const Placement& current,
                                     const ReplanOptions& options) {
    PlanOptions anew;
    anew.capacities = &problem.capacities;
    anew.flow = options.flow;
    anew.seed = options.seed;
    anew.iterations = options.iterations;
    anew.stop = options.stop;
    TRY(const PlanReport made, plan(problem.cluster, problem.model, anew));
    ReplanReport found;
    found.placement = made.placement;
    found.flow = made.max_flow_tokens_per_s;
    found.diff = placement_diff(problem.cluster, problem.model, current, made.placement,
                                options.disk_bytes_per_s);
    found.value = found.flow - options.price_per_byte * static_cast<double>(found.diff.bytes) -
                  options.price_per_kv_layer * static_cast<double>(found.diff.kv_layers);
    return found;
}

}  // namespace

base::Result<ReplanApart> replan_apart(const Problem& problem, const Placement& current,
                                       const ReplanPartOptions& options) {
    TRY_VOID(check_placement(problem, current));
    const std::vector<ClusterPart> parts = role_parts(problem.cluster);
    CHECK(!parts.empty());
    ReplanApart apart;
    FlowOptions flow;
    double disk_bytes_per_s = 0;
    const auto plan_part = [&](const ClusterPart& part, int which) -> base::Result<PlanReport> {
        ReplanOptions how = options(part, which);
        flow = how.flow;
        disk_bytes_per_s = how.disk_bytes_per_s;
        if (how.flow.only_links) how.flow.only_links = links_of_part(*flow.only_links, part);
        const CapacityTable speeds = capacities_of_part(problem.capacities, part);
        const Problem own{part.cluster, problem.model, speeds};
        const Placement here = placement_of_part(current, part);
        auto found = replan(own, here, how);
        if (!found.ok()) found = plan_anew(own, here, how);
        if (!found.ok()) return found.error();
        auto report = evaluate_placement(own, found->placement, how.flow);
        apart.parts.push_back(std::move(*found));
        return report;
    };
    RolePlans made = plan_parts(parts, plan_part);
    if (made.reports.empty()) {
        apart.parts.clear();
        apart.warnings = std::move(made.warnings);
        return apart;
    }
    TRY(apart.report, join_reports(problem, parts, made.reports, flow, nullptr));
    apart.report.method = "replanned by role";
    apart.diff = placement_diff(problem.cluster, problem.model, current, apart.report.placement,
                                disk_bytes_per_s);
    return apart;
}

}  // namespace helix::plan
