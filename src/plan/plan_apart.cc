#include "plan/plan_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/plan_evaluate.h"

namespace helix::plan {
namespace {

using spec::Placement;

constexpr double kFlowShareOfPart = 0.25;  // of the time of a part of a plan

// A part takes its share of the time that it finds left.
PlanOptions options_of_part(const PlanOptions& options, const ClusterPart& part, int which,
                            std::size_t parts) {
    PlanOptions own = options;
    own.choose_policy = false;  // one coordinator serves all parts
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

std::string names(const ClusterPart& part) {
    constexpr std::size_t kMost = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(kMost, part.cluster.nodes.size()); ++i) {
        text += (text.empty() ? "" : ", ") + part.cluster.nodes[i].name;
    }
    if (part.cluster.nodes.size() <= kMost) return text;
    return fmt::format("{} and {} more", text, part.cluster.nodes.size() - kMost);
}

}  // namespace

RolePlans plan_parts(const std::vector<ClusterPart>& parts, const PlanPart& plan_part) {
    RolePlans made;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        auto report = plan_part(parts[p], static_cast<int>(p));
        if (report.ok() && report->max_flow_tokens_per_s > 0) {
            made.reports.push_back(std::move(*report));
            continue;
        }
        const std::string why = report.ok() ? "no pipeline connects them" : report.error().message;
        made.reports.clear();
        made.warnings.push_back(
            fmt::format("roles are not kept: the machines that {} ({}) cannot hold the model by "
                        "themselves: {}. "
                        "All machines are planned together and compute prompts and what follows",
                        p == 0 ? "prefill" : "may decode", names(parts[p]), why));
        return made;
    }
    return made;
}

Placement join_placements(const std::vector<ClusterPart>& parts,
                          const std::vector<PlanReport>& reports, std::size_t n_nodes) {
    Placement all;
    all.layers.resize(n_nodes);
    for (std::size_t p = 0; p < parts.size(); ++p)
        put_placement(parts[p], reports[p].placement, all);
    return all;
}

std::vector<spec::LinkFlow> join_flows(const std::vector<ClusterPart>& parts,
                                       const std::vector<PlanReport>& reports) {
    std::vector<spec::LinkFlow> all;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const auto whole = [&](std::int32_t node) {
            return node == spec::kCoordinator ? node
                                              : parts[p].origin[static_cast<std::size_t>(node)];
        };
        for (spec::LinkFlow flow : reports[p].flows) {
            flow.from = whole(flow.from);
            flow.to = whole(flow.to);
            all.push_back(flow);
        }
    }
    return all;
}

base::Result<PlanReport> join_reports(const Problem& problem, const std::vector<ClusterPart>& parts,
                                      const std::vector<PlanReport>& reports,
                                      const FlowOptions& flow, const PerformanceModel* predictor) {
    TRY(PlanReport joined,
        evaluate_with(problem, join_placements(parts, reports, problem.cluster.nodes.size()), flow,
                      predictor, join_flows(parts, reports), reports[0].policy));
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

std::optional<PlanReport> plan_apart(const Problem& problem, const spec::CostModel* costs,
                                     const PlanOptions& options, const PlanCluster& plan_cluster,
                                     std::vector<std::string>& warnings) {
    const std::vector<ClusterPart> parts = role_parts(problem.cluster);
    if (parts.empty()) return std::nullopt;
    const auto plan_part = [&](const ClusterPart& part, int which) -> base::Result<PlanReport> {
        const CapacityTable own = capacities_of_part(problem.capacities, part);
        PlanOptions how = options_of_part(options, part, which, parts.size());
        how.capacities = &own;
        for (Placement& start : how.starts) start = placement_of_part(start, part);
        if (options.judge) {
            how.judge = [&](const Placement& placement, const std::vector<spec::LinkFlow>& flows,
                            const spec::ServingPolicy& policy, Look look) {
                PlanReport made;
                made.placement = placement;
                made.flows = flows;
                return options.judge(join_placements({part}, {made}, problem.cluster.nodes.size()),
                                     join_flows({part}, {made}), policy, look);
            };
        }
        return plan_cluster(part.cluster, problem.model, how);
    };
    RolePlans made = plan_parts(parts, plan_part);
    warnings = std::move(made.warnings);
    if (made.reports.empty()) return std::nullopt;
    std::optional<PerformanceModel> predictor;
    if (costs != nullptr) {
        predictor.emplace(problem, *costs, options.performance);
    }
    auto joined =
        join_reports(problem, parts, made.reports, options.flow, predictor ? &*predictor : nullptr);
    if (!joined.ok()) return std::nullopt;
    return std::move(*joined);
}

}  // namespace helix::plan
