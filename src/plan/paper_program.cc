#include "plan/paper_program.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/bounds/bounds.h"
#include "plan/flow/flow_graph.h"
#include "plan/plan_candidates.h"

namespace helix::plan {
namespace {

// Nodes that get nothing of a maximum flow are left out.
void judge_start(const Problem& problem, const FlowOptions& options, Candidate& candidate) {
    const FlowPlan flow =
        plan_flow(problem.cluster, build_flow_graph(problem, candidate.placement, options));
    for (std::size_t i = 0; i < flow.node_flow.size(); ++i) {
        if (flow.node_flow[i] <= 0) candidate.placement.layers[i] = {};
    }
    candidate.flow = flow.tokens_per_s;
}

}  // namespace

base::Result<MilpReport> solve_paper_program(const Problem& problem, const PlanOptions& options) {
    MilpOptions milp = options.milp;
    milp.formulation.partial = options.flow.partial;
    if (milp.upper_bound == 0) milp.upper_bound = flow_bounds(problem).best;
    if (!milp.stop.asked) milp.stop.asked = options.stop;
    if (options.milp_start == MilpStart::rules && !milp.start) {
        PlanOptions all_rules = options;
        all_rules.method = Method::milp;
        TRY(std::vector<Candidate> rules, rule_candidates(problem, all_rules));
        for (Candidate& rule : rules) {
            judge_start(problem, options.flow, rule);
        }
        const auto best =
            std::max_element(rules.begin(), rules.end(),
                             [](const auto& a, const auto& b) { return a.flow < b.flow; });
        if (best != rules.end() && best->flow > 0) {
            milp.start = std::move(best->placement);
            milp.start_method = best->method;
        }
    }
    return milp_placement(problem, milp);
}

}  // namespace helix::plan
