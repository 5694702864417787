#include "plan/milp.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/check.h"
#include "plan/bounds.h"
#include "plan/flow_graph.h"

namespace helix::plan {
namespace {

using Links = std::vector<std::pair<std::int32_t, std::int32_t>>;

Links links_of(const spec::ClusterSpec& cluster, const std::optional<PruneOptions>& prune) {
    if (prune) return prune_links(cluster, *prune);
    Links links;
    for (const spec::LinkSpec& link : cluster.links) {
        if (link.from != spec::kCoordinator || link.to != spec::kCoordinator)
            links.emplace_back(link.from, link.to);
    }
    return links;
}

std::string why_unused(const MilpReport& report, const std::string& solver) {
    if (report.start_used) return "";
    if (report.start_flow <= 0) {
        return "the start has no flow over the links that pruning left, and " + solver +
               " did not take it";
    }
    return solver + " did not take the start";
}

}  // namespace

base::Result<MilpReport> milp_placement(const spec::ClusterSpec& cluster,
                                        const spec::ModelSpec& model,
                                        const CapacityTable& capacities,
                                        const MilpOptions& options) {
    TRY(const std::unique_ptr<mip::Solver> solver, mip::make_solver(options.solver));
    const Links links = links_of(cluster, options.prune);
    const MilpProgram milp(cluster, model, capacities, links, options.formulation);
    MilpReport report;
    report.rows = static_cast<std::int64_t>(milp.program().rows.size());
    report.columns = static_cast<std::int64_t>(milp.program().columns.size());
    report.links = static_cast<std::int64_t>(links.size());
    report.all_links = static_cast<std::int64_t>(links_of(cluster, std::nullopt).size());

    mip::SolveOptions solve{.start = {}, .relative_gap = options.relative_gap, .stop = {}};
    if (options.start) {
        TRY_VOID(check_placement(cluster, model, capacities, *options.start));
        solve.start = milp.start(*options.start);
        report.start_flow = milp.flow(*options.start);
    }
    const double upper_bound = options.upper_bound > 0
                                   ? options.upper_bound
                                   : flow_bounds(cluster, model, capacities).paper;
    MilpWatch watch(options.stop, upper_bound);
    solve.stop = [&watch](double best, double bound) { return watch.stop(best, bound); };
    TRY(const mip::Solution solution, solver->solve(milp.program(), solve));

    report.status = solution.outcome;
    report.bound = solution.bound;
    report.nodes = solution.nodes;
    report.start_used = solution.start_used;
    if (options.start) report.start_note = why_unused(report, options.solver);
    report.placement.layers.resize(cluster.nodes.size());
    report.stop_reason = watch.reason();
    if (!solution.values.empty()) {
        report.placement = milp.placement(solution.values);
        report.objective = solution.objective;
        report.max_flow = milp.flow(report.placement);
        watch.stop(solution.objective, solution.bound);  // what came after the last question
    }
    report.incumbents = watch.incumbents();
    report.seconds = watch.seconds();
    return report;
}

}  // namespace helix::plan
