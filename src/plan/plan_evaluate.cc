#include "plan/plan_evaluate.h"

#include <algorithm>

#include "plan/flow/evaluator.h"
#include "plan/options.h"
#include "plan/planner_checks.h"

namespace helix::plan {
namespace {

// Nodes; beyond, a maximum flow for each part that can be lost takes too long.
constexpr std::size_t kMostLosses = 150;

// The report's flows are others than the maximum flow's: what each node carries, and how deep.
void take_flows(PlanReport& report, const std::vector<spec::LinkFlow>& flows) {
    report.flows = flows;
    std::sort(report.flows.begin(), report.flows.end(), [](const auto& a, const auto& b) {
        return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
    std::fill(report.node_flow.begin(), report.node_flow.end(), 0.0);
    double entering = 0;
    double through = 0;
    for (const spec::LinkFlow& flow : report.flows) {
        if (flow.from == spec::kCoordinator) entering += flow.tokens_per_s;
        if (flow.to == spec::kCoordinator) continue;
        report.node_flow[static_cast<std::size_t>(flow.to)] += flow.tokens_per_s;
        through += flow.tokens_per_s;
    }
    report.mean_depth = entering > 0 ? through / entering : 0;
    report.paths.clear();
}

}  // namespace

void set_bound(PlanReport& report, double bound) {
    report.upper_bound_tokens_per_s = bound;
    report.gap = bound > 0 ? std::max(0.0, 1 - report.max_flow_tokens_per_s / bound) : 0;
    report.proven_optimal = report.max_flow_tokens_per_s > 0 && report.gap <= kSameFlow;
}

base::Result<PlanReport> evaluate_with(const Problem& problem, const spec::Placement& placement,
                                       const FlowOptions& options,
                                       const PerformanceModel* predictor,
                                       const std::vector<spec::LinkFlow>& flows,
                                       const spec::ServingPolicy& policy) {
    TRY_VOID(check_input(problem.cluster, problem.model));
    TRY_VOID(check_placement(problem, placement));
    FlowPlan flow = plan_flow(problem.cluster, build_flow_graph(problem, placement, options));
    PlanReport report;
    report.placement = placement;
    report.policy = policy;
    report.method = to_string(Method::manual);
    report.max_flow_tokens_per_s = flow.tokens_per_s;
    report.bounds = flow_bounds(problem);
    set_bound(report, report.bounds.best);
    report.min_cut_text = describe_cut(problem.cluster, placement, flow);
    report.min_cut = flow.cut;
    report.mean_depth = flow.mean_depth;
    report.least_kv_tokens = Evaluator(problem, options).least_kv_tokens(placement.layers);
    for (std::size_t i = 0; i < problem.cluster.nodes.size(); ++i) {
        report.node_tokens_per_s.push_back(
            placement.layers[i].empty()
                ? 0
                : problem.capacities.nodes[i].throughput(placement.layers[i]));
    }
    report.node_flow = std::move(flow.node_flow);
    report.flows = std::move(flow.links);
    report.paths = std::move(flow.paths);
    if (!flows.empty()) take_flows(report, flows);
    if (predictor != nullptr && report.max_flow_tokens_per_s > 0) {
        report.prediction = predictor->predict(placement.layers, report.flows);
        report.limit_text = describe_limit(problem.cluster, report.prediction->limit);
    }
    if (problem.cluster.nodes.size() <= kMostLosses) {
        report.robustness = single_losses(problem, placement, options);
        report.stalls = stalls_after_losses(problem, placement, options,
                                            {.prompt_share = prompts_part(policy)});
    }
    return report;
}

base::Result<PlanReport> evaluate_placement(const Problem& problem,
                                            const spec::Placement& placement,
                                            const FlowOptions& options) {
    return evaluate_with(problem, placement, options, nullptr, {});
}

}  // namespace helix::plan
