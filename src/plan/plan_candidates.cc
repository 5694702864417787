#include "plan/plan_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/rules/heuristics.h"
#include "plan/rules/heuristics_separate.h"

namespace helix::plan {
namespace {

using spec::Placement;

// The placement with cuts between joined layers moved to where these begin, or behind the last; of
// nodes whose layers do not fit then, without them.
Placement with_joined_layers(const Problem& problem, Placement placement, bool behind) {
    const spec::ModelSpec& model = problem.model;
    const std::int32_t to = behind ? model.n_layers : model.n_layers - model.joined_layers;
    for (std::size_t i = 0; i < placement.layers.size(); ++i) {
        spec::LayerRange& range = placement.layers[i];
        if (spec::may_hold(model, range)) continue;
        if (!spec::may_cut(model, range.begin)) range.begin = to;
        if (!spec::may_cut(model, range.end)) range.end = to;
        if (!problem.capacities.nodes[i].fits(range, model.n_layers)) range = {};
        if (range.empty()) range = {};
    }
    return placement;
}

class Rules {
  public:
    Rules(const Problem& problem, const PlanOptions& options)
        : problem_(problem), options_(options) {
        order_.resize(problem.cluster.nodes.size());
        std::iota(order_.begin(), order_.end(), 0);
    }

    base::Result<std::vector<Candidate>> collect() {
        const std::int32_t n_layers = problem_.model.n_layers;
        if (wanted(Method::even)) {
            add(even_placement(problem_.capacities, n_layers), Method::even);
            add(chain_placement(problem_.capacities, n_layers, order_), Method::even);
        }
        if (wanted(Method::replicated)) {
            add(replicated_placement(problem_.capacities, n_layers), Method::replicated);
        }
        if (wanted(Method::petals)) {
            add(petals_placement(problem_.capacities, n_layers, order_), Method::petals);
        }
        if (wanted(Method::swarm)) add_swarm();
        if (wanted(Method::separate)) TRY_VOID(add_separate());
        if (wanted(Method::separate_plus)) {
            TRY_VOID(add_pipelines(separate_plus_placement(problem_), Method::separate_plus));
        }
        return std::move(found_);
    }

  private:
    bool all() const { return searches() || options_.method == Method::milp; }
    bool searches() const {
        return options_.method == Method::automatic || options_.method == Method::search;
    }
    bool wanted(Method method) const { return options_.method == method || all(); }

    void add(const std::optional<Placement>& placement, Method method) {
        if (placement) add_placement(*placement, to_string(method));
    }

    // And, where it divides joined layers, what it is without that.
    void add_placement(const Placement& placement, const char* method) {
        found_.push_back({.placement = placement, .method = method});
        const bool whole =
            std::all_of(placement.layers.begin(), placement.layers.end(),
                        [&](const auto& range) { return spec::may_hold(problem_.model, range); });
        if (whole) return;
        for (const bool behind : {false, true}) {
            found_.push_back(
                {.placement = with_joined_layers(problem_, placement, behind), .method = method});
        }
    }

    void add_swarm() {
        const std::int32_t n_layers = problem_.model.n_layers;
        add(swarm_placement(problem_.capacities, n_layers, options_.swarm_stages), Method::swarm);
        if (!all() || options_.swarm_stages != 0) return;
        const std::int32_t usual = swarm_stages(problem_.capacities, n_layers);
        for (std::int32_t stages = 1; stages < usual; ++stages) {
            if (n_layers % stages == 0) {
                add(swarm_placement(problem_.capacities, n_layers, stages), Method::swarm);
            }
        }
    }

    base::Status add_pipelines(base::Result<SeparatePipelines> made, Method method) {
        if (!made.ok()) return all() ? base::Status(base::Ok{}) : base::Status(made.error());
        Candidate candidate{.placement = std::move(made->placement), .method = to_string(method)};
        // For the search it is also a start, and all links may be used.
        if (all()) add_placement(candidate.placement, to_string(method));
        candidate.only_links = std::move(made->links);
        candidate.notes = std::move(made->notes);
        found_.push_back(std::move(candidate));
        return base::Ok{};
    }

    // A search also starts from fewer pipelines of each type: of more machines each, which leaves
    // more memory for KV.
    base::Status add_separate() {
        auto made = separate_placement(problem_);
        const std::size_t usual = made.ok() ? made->pipelines.size() : 0;
        TRY_VOID(add_pipelines(std::move(made), Method::separate));
        if (!searches()) return base::Ok{};
        for (std::size_t most = 1;; most *= 2) {
            auto longer = separate_placement(problem_, most);
            if (!longer.ok() || longer->pipelines.size() >= usual) return base::Ok{};
            TRY_VOID(add_pipelines(std::move(longer), Method::separate));
        }
    }

    Problem problem_;
    const PlanOptions& options_;
    std::vector<std::int32_t> order_;
    std::vector<Candidate> found_;
};

}  // namespace

base::Result<std::vector<Candidate>> rule_candidates(const Problem& problem,
                                                     const PlanOptions& options) {
    return Rules(problem, options).collect();
}

void judge_flow(const Problem& problem, const FlowOptions& options, Candidate& candidate) {
    const FlowPlan flow =
        plan_flow(problem.cluster, build_flow_graph(problem, candidate.placement, options));
    for (std::size_t i = 0; i < flow.node_flow.size(); ++i) {
        if (flow.node_flow[i] <= 0) candidate.placement.layers[i] = {};
    }
    candidate.flow = flow.tokens_per_s;
    candidate.depth = flow.mean_depth;
}

void start_from_most_flow(const std::vector<Candidate>& candidates, MilpOptions& milp) {
    const auto best =
        std::max_element(candidates.begin(), candidates.end(),
                         [](const auto& a, const auto& b) { return a.flow < b.flow; });
    if (best == candidates.end() || best->flow <= 0) return;
    milp.start = best->placement;
    milp.start_method = best->method;
}

}  // namespace helix::plan
