#include "plan/plan_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "plan/plan_evaluate.h"
#include "plan/roles.h"

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::ModelSpec;
using spec::Placement;
using Links = std::vector<std::pair<std::int32_t, std::int32_t>>;

using base::at;

constexpr double kFlowShareOfPart = 0.25;  // of the time of a part of a plan

// A part takes its share of the time that it finds left.
PlanOptions options_of_part(const PlanOptions& options, const RolePart& part, int which,
                            std::size_t parts) {
    PlanOptions own = options;
    if (options.flow.only_links)
        own.flow.only_links = links_of_part(*options.flow.only_links, part);
    if (!options.time_used) return own;
    const auto n = static_cast<double>(parts);
    const double end = (which + 1) / n;
    const double flow_end = (which + kFlowShareOfPart) / n;
    own.time_used = nullptr;
    own.stop = [&options, end] {
        return options.time_used() >= end || (options.stop && options.stop());
    };
    own.flow_stop = [&options, flow_end] { return options.time_used() >= flow_end; };
    return own;
}

}  // namespace

Links links_of_part(const Links& links, const RolePart& part) {
    const auto index = [&](std::int32_t node) {
        const auto it = std::find(part.origin.begin(), part.origin.end(), node);
        return it == part.origin.end() ? spec::kCoordinator
                                       : static_cast<std::int32_t>(it - part.origin.begin());
    };
    Links own;
    for (const auto& [from, to] : links) {
        const bool known_from = from == spec::kCoordinator || index(from) != spec::kCoordinator;
        const bool known_to = to == spec::kCoordinator || index(to) != spec::kCoordinator;
        if (known_from && known_to) own.emplace_back(index(from), index(to));
    }
    return own;
}

CapacityTable capacities_of_part(const CapacityTable& capacities, const RolePart& part) {
    CapacityTable own;
    for (const std::int32_t i : part.origin) own.nodes.push_back(capacities.nodes[at(i)]);
    return own;
}

Placement placement_of_part(const Placement& placement, const RolePart& part) {
    Placement own;
    for (const std::int32_t i : part.origin) own.layers.push_back(placement.layers[at(i)]);
    return own;
}

base::Result<PlanReport> join_reports(const ClusterSpec& cluster, const ModelSpec& model,
                                      const CapacityTable& capacities,
                                      const std::vector<RolePart>& parts,
                                      const std::vector<PlanReport>& reports,
                                      const FlowOptions& flow, const PerformanceModel* predictor) {
    TRY(PlanReport joined, evaluate_with(cluster, model, capacities,
                                         join_placements(parts, reports, cluster.nodes.size()),
                                         flow, predictor, join_flows(parts, reports)));
    const PlanReport& prefill = reports[0];
    const PlanReport& decode = reports[1];
    joined.method = prefill.method + ", " + decode.method;
    set_bound(joined, prefill.upper_bound_tokens_per_s + decode.upper_bound_tokens_per_s);
    joined.notes.push_back(
        fmt::format("roles: {:.0f} tokens/s through the machines for prompts, {:.0f} through those "
                    "that decode; what is predicted takes both as if each served whole requests",
                    prefill.max_flow_tokens_per_s, decode.max_flow_tokens_per_s));
    return joined;
}

std::optional<PlanReport> plan_apart(const ClusterSpec& cluster, const ModelSpec& model,
                                     const CapacityTable& capacities, const spec::CostModel* costs,
                                     const PlanOptions& options,
                                     std::vector<std::string>& warnings) {
    const std::vector<RolePart> parts = role_parts(cluster);
    if (parts.empty()) return std::nullopt;
    const auto plan_part = [&](const RolePart& part, int which) -> base::Result<PlanReport> {
        const CapacityTable own = capacities_of_part(capacities, part);
        PlanOptions how = options_of_part(options, part, which, parts.size());
        how.capacities = &own;
        for (Placement& start : how.starts) start = placement_of_part(start, part);
        if (options.judge) {
            how.judge = [&](const Placement& placement, const std::vector<spec::LinkFlow>& flows) {
                PlanReport made;
                made.placement = placement;
                made.flows = flows;
                return options.judge(join_placements({part}, {made}, cluster.nodes.size()),
                                     join_flows({part}, {made}));
            };
        }
        return plan(part.cluster, model, how);
    };
    RolePlans made = plan_parts(parts, plan_part);
    warnings = std::move(made.warnings);
    if (made.reports.empty()) return std::nullopt;
    std::optional<PerformanceModel> predictor;
    if (costs != nullptr) {
        predictor.emplace(cluster, model, capacities, *costs, options.performance);
    }
    auto joined = join_reports(cluster, model, capacities, parts, made.reports, options.flow,
                               predictor ? &*predictor : nullptr);
    if (!joined.ok()) return std::nullopt;
    return std::move(*joined);
}

}  // namespace helix::plan
