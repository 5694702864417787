#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "plan/bounds.h"
#include "plan/config_bound.h"
#include "plan/evaluator.h"
#include "plan/heuristics.h"
#include "plan/search.h"
#include "spec/measured_node.h"
#include "spec/units.h"

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::ModelSpec;
using spec::Placement;

struct Candidate {
    Placement placement;
    const char* method = "";
    double flow = 0;
    double depth = 0;
    double kv_tokens = 0;
};

base::Status check_input(const ClusterSpec& cluster, const ModelSpec& model) {
    if (cluster.nodes.empty()) {
        return base::invalid(fmt::format("cluster {}: has no nodes", cluster.name));
    }
    if (model.n_layers <= 0 || model.layer_bytes <= 0 || model.activation_bytes_per_token <= 0 ||
        model.token_bytes <= 0) {
        return base::invalid(
            fmt::format("model {}: layers {}, bytes of a layer {}, of an activation {} and of a "
                        "token {} must all be above 0",
                        model.name, model.n_layers, model.layer_bytes,
                        model.activation_bytes_per_token, model.token_bytes));
    }
    return base::Ok{};
}

base::Status check_holdable(const ClusterSpec& cluster, const ModelSpec& model,
                            const CapacityTable& capacities) {
    const auto any = [&](bool first, bool last) {
        return std::any_of(
            capacities.nodes.begin(), capacities.nodes.end(),
            [&](const NodeCapacity& node) { return node.max_layers[first][last] > 0; });
    };
    const std::int64_t largest = std::max_element(cluster.nodes.begin(), cluster.nodes.end(),
                                                  [](const auto& a, const auto& b) {
                                                      return a.memory_bytes < b.memory_bytes;
                                                  })
                                     ->memory_bytes;
    if (!any(true, false)) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("no node of {} can hold layer 0 of {} with the embedding ({}) and room "
                        "for KV; the largest has {}",
                        cluster.name, model.name,
                        spec::format_bytes(model.layer_bytes + model.embedding_bytes),
                        spec::format_bytes(largest))};
    }
    if (!any(false, true)) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("no node of {} can hold layer {} of {} with the output head ({}) and room "
                        "for KV; the largest has {}",
                        cluster.name, model.n_layers - 1, model.name,
                        spec::format_bytes(model.layer_bytes + model.head_bytes),
                        spec::format_bytes(largest))};
    }
    const std::int32_t holdable = holdable_layers(capacities, model.n_layers);
    if (holdable >= model.n_layers) return base::Ok{};
    const std::int32_t missing = model.n_layers - holdable;
    return base::Error{
        base::Errc::unavailable,
        fmt::format("{} together can hold {} of the {} layers of {}: layers {} to {} have no "
                    "place; about {} more "
                    "memory is needed, and KV beside it",
                    cluster.nodes.size() == 1
                        ? "the one node of " + cluster.name
                        : fmt::format("the {} nodes of {}", cluster.nodes.size(), cluster.name),
                    holdable, model.n_layers, model.name, holdable, model.n_layers - 1,
                    spec::format_bytes(missing * model.layer_bytes))};
}

// Two flows that differ by less than this share are one.
constexpr double kSame = 1e-6;

void set_bound(PlanReport& report, double bound) {
    report.upper_bound_tokens_per_s = bound;
    report.gap = bound > 0 ? std::max(0.0, 1 - report.max_flow_tokens_per_s / bound) : 0;
    report.proven_optimal = report.max_flow_tokens_per_s > 0 && report.gap <= kSame;
}

class Planner {
  public:
    Planner(const ClusterSpec& cluster, const ModelSpec& model, const CapacityTable& capacities,
            const PlanOptions& options)
        : cluster_(cluster),
          model_(model),
          capacities_(capacities),
          options_(options),
          evaluator_(cluster, model, capacities, options.flow),
          bound_(flow_bounds(cluster, model, capacities).best) {}

    double bound() const { return bound_; }

    base::Result<Candidate> best() {
        report_progress("heuristics");
        collect_heuristics();
        for (Candidate& candidate : candidates_) judge(candidate);
        prove_bound();
        report_progress("search");
        const bool searches =
            options_.method == Method::automatic || options_.method == Method::search;
        if (searches) collect_search();
        if (candidates_.empty()) {
            return base::Error{base::Errc::unavailable,
                               fmt::format("method {} finds no place for all {} layers of {} on {}",
                                           to_string(options_.method), model_.n_layers, model_.name,
                                           cluster_.name)};
        }
        for (Candidate& candidate : candidates_) judge(candidate);
        return choose();
    }

  private:
    void report_progress(const char* phase) const {
        if (!options_.progress) return;
        PlanProgress progress{.phase = phase, .bound_tokens_per_s = bound_};
        for (const Candidate& c : candidates_) {
            progress.flow_tokens_per_s = std::max(progress.flow_tokens_per_s, c.flow);
        }
        options_.progress(progress);
    }

    void prove_bound() {
        report_progress("bound");
        ConfigBoundOptions options;
        for (const Candidate& c : candidates_) {
            options.known_flow = std::max(options.known_flow, c.flow);
        }
        options.stop = options_.stop;
        bound_ = std::min(bound_, config_bound(cluster_, model_, capacities_, options));
    }

    bool wanted(Method method) const {
        return options_.method == method || options_.method == Method::automatic ||
               options_.method == Method::search;
    }

    void add(const std::optional<Placement>& placement, Method method) {
        if (placement) candidates_.push_back({*placement, to_string(method), 0, 0, 0});
    }

    void collect_heuristics() {
        const std::int32_t n_layers = model_.n_layers;
        if (wanted(Method::even)) {
            add(even_placement(capacities_, n_layers), Method::even);
            std::vector<std::int32_t> all(cluster_.nodes.size());
            std::iota(all.begin(), all.end(), 0);
            add(chain_placement(capacities_, n_layers, all), Method::even);
        }
        if (wanted(Method::replicated))
            add(replicated_placement(capacities_, n_layers), Method::replicated);
        if (wanted(Method::petals)) {
            std::vector<std::int32_t> order(cluster_.nodes.size());
            std::iota(order.begin(), order.end(), 0);
            add(petals_placement(capacities_, n_layers, order), Method::petals);
        }
        if (wanted(Method::swarm)) {
            add(swarm_placement(capacities_, n_layers, options_.swarm_stages), Method::swarm);
        }
        if (options_.method == Method::swarm || options_.swarm_stages != 0) return;
        if (!wanted(Method::swarm)) return;
        const std::int32_t usual = swarm_stages(capacities_, n_layers);
        for (std::int32_t stages = 1; stages < usual; ++stages) {
            if (n_layers % stages == 0)
                add(swarm_placement(capacities_, n_layers, stages), Method::swarm);
        }
    }

    void collect_search() {
        std::vector<Placement> starts;
        for (const Candidate& candidate : candidates_) starts.push_back(candidate.placement);
        if (starts.empty())
            starts.push_back({std::vector<spec::LayerRange>(cluster_.nodes.size())});
        SearchOptions search{.seed = options_.seed,
                             .iterations = options_.iterations,
                             .stop = options_.stop,
                             .flow_tolerance = options_.flow_tolerance,
                             .upper_bound = bound_};
        SearchResult found = search_placement(evaluator_, starts, search);
        if (found.flow > 0) add(std::move(found.most_flow), Method::search);
        for (Placement& shallower : found.shallower) add(std::move(shallower), Method::search);
    }

    void judge(Candidate& candidate) const {
        const FlowGraph graph =
            build_flow_graph(cluster_, model_, capacities_, candidate.placement, options_.flow);
        const FlowPlan flow = plan_flow(cluster_, graph);
        for (std::size_t i = 0; i < flow.node_flow.size(); ++i) {
            if (flow.node_flow[i] <= 0) candidate.placement.layers[i] = {};
        }
        candidate.flow = flow.tokens_per_s;
        candidate.depth = flow.mean_depth;
        candidate.kv_tokens = evaluator_.least_kv_tokens(candidate.placement.layers);
    }

    // Most flow; among nearly that, fewest stages; among nearly that, most KV; then flow. First
    // wins ties.
    Candidate choose() {
        const auto keep = [&](auto good_enough) {
            std::erase_if(candidates_, [&](const Candidate& c) { return !good_enough(c); });
        };
        double flow = 0;
        for (const Candidate& c : candidates_) flow = std::max(flow, c.flow);
        keep([&](const Candidate& c) { return c.flow >= flow * (1 - options_.flow_tolerance); });
        double depth = candidates_.front().depth;
        for (const Candidate& c : candidates_) depth = std::min(depth, c.depth);
        if (options_.flow_tolerance > 0) {
            keep([&](const Candidate& c) { return c.depth <= depth * 1.02; });
        }
        double kv_tokens = 0;
        for (const Candidate& c : candidates_) kv_tokens = std::max(kv_tokens, c.kv_tokens);
        if (options_.flow_tolerance > 0) {
            keep([&](const Candidate& c) { return c.kv_tokens >= kv_tokens * 0.9; });
        }
        const auto best = std::max_element(
            candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.flow < b.flow; });
        return *best;
    }

    const ClusterSpec& cluster_;
    const ModelSpec& model_;
    const CapacityTable& capacities_;
    const PlanOptions& options_;
    Evaluator evaluator_;
    double bound_;
    std::vector<Candidate> candidates_;
};

}  // namespace

const char* to_string(Method method) {
    switch (method) {
        case Method::automatic:
            return "auto";
        case Method::search:
            return "search";
        case Method::even:
            return "even";
        case Method::replicated:
            return "replicated";
        case Method::petals:
            return "petals";
        case Method::swarm:
            return "swarm";
        case Method::manual:
            return "manual";
    }
    return "?";
}

base::Result<PlanReport> evaluate_placement(const ClusterSpec& cluster, const ModelSpec& model,
                                            const CapacityTable& capacities,
                                            const Placement& placement,
                                            const FlowOptions& options) {
    TRY_VOID(check_input(cluster, model));
    TRY_VOID(check_placement(cluster, model, capacities, placement));
    const FlowGraph graph = build_flow_graph(cluster, model, capacities, placement, options);
    FlowPlan flow = plan_flow(cluster, graph);
    PlanReport report;
    report.placement = placement;
    report.method = to_string(Method::manual);
    report.max_flow_tokens_per_s = flow.tokens_per_s;
    set_bound(report, flow_bounds(cluster, model, capacities).best);
    report.min_cut_text = describe_cut(cluster, placement, flow);
    report.mean_depth = flow.mean_depth;
    report.least_kv_tokens =
        Evaluator(cluster, model, capacities, options).least_kv_tokens(placement.layers);
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        report.node_tokens_per_s.push_back(
            placement.layers[i].empty() ? 0 : capacities.nodes[i].throughput(placement.layers[i]));
    }
    report.node_flow = std::move(flow.node_flow);
    report.flows = std::move(flow.links);
    report.paths = std::move(flow.paths);
    return report;
}

base::Result<PlanReport> plan(const ClusterSpec& cluster, const ModelSpec& model,
                              const PlanOptions& options) {
    TRY_VOID(check_input(cluster, model));
    CapacityTable own;
    if (options.capacities == nullptr) {
        const spec::MeasuredNode measured;
        if (options.costs == nullptr) TRY_VOID(spec::check_measured(cluster));
        own = capacity_from_costs(cluster, model,
                                  options.costs != nullptr ? *options.costs : measured,
                                  options.workload, options.memory);
    }
    const CapacityTable& capacities = options.capacities != nullptr ? *options.capacities : own;
    CHECK(capacities.nodes.size() == cluster.nodes.size());
    if (options.method == Method::manual) {
        return evaluate_placement(cluster, model, capacities, options.manual, options.flow);
    }
    TRY_VOID(check_holdable(cluster, model, capacities));
    Planner planner(cluster, model, capacities, options);
    TRY(const Candidate best, planner.best());
    if (best.flow <= 0) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format(
                "no way found to lead requests through all {} layers of {} on {}: the links "
                "between its nodes and the coordinator do not connect enough of them",
                model.n_layers, model.name, cluster.name)};
    }
    TRY(PlanReport report,
        evaluate_placement(cluster, model, capacities, best.placement, options.flow));
    report.method = best.method;
    set_bound(report, planner.bound());
    return report;
}

}  // namespace helix::plan
