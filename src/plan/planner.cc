#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "plan/bounds/bounds.h"
#include "plan/bounds/config_bound.h"
#include "plan/bounds/delivered_bound.h"
#include "plan/flow/evaluator.h"
#include "plan/pack/block_links.h"
#include "plan/pack/block_pack.h"
#include "plan/paper_program.h"
#include "plan/plan_apart.h"
#include "plan/plan_candidates.h"
#include "plan/plan_evaluate.h"
#include "plan/planner_checks.h"
#include "plan/problem/problem.h"
#include "plan/problem/roles.h"
#include "plan/rules/heuristics_separate.h"
#include "plan/search/scale.h"
#include "spec/measured_node.h"

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::ModelSpec;
using spec::Placement;

constexpr std::int32_t kMostBlockDepth = 64;
constexpr double kCurveTolerance = 1e-3;
constexpr std::size_t kMostAnnealed = 64;  // nodes; beyond, cells
constexpr std::size_t kMostChoices = 10;
constexpr double kClearly = 1.02;
// Of all flow: less over a link is a rounding of the split's and no use of the link.
constexpr double kLinkDust = 1e-4;
constexpr double kDeliveredBoundShare = 0.05;  // of the time
constexpr double kMilpStartShare = 0.2;        // for the search that a program starts from

// In something, by more than people would care to choose by.
bool clearly_better(const Merits& a, const Merits& b) {
    return a.flow_tokens_per_s > b.flow_tokens_per_s * kClearly ||
           a.decode_tokens_per_s > b.decode_tokens_per_s * kClearly ||
           a.depth * kClearly < b.depth || a.kv_tokens > b.kv_tokens * kClearly ||
           a.worst_loss_share > b.worst_loss_share * kClearly + 0.005;
}

// 0 where nobody looked for long enough to say: at a glance memory still fills.
double delivered_as_judged(const Judgement& judgement) {
    return judgement.look >= Look::full ? judgement.decode_tokens_per_s : 0;
}

void drop_dust(ThroughputCandidate& candidate) {
    double all = 0;
    for (const spec::LinkFlow& flow : candidate.flows) {
        if (flow.from == spec::kCoordinator) all += flow.tokens_per_s;
    }
    std::erase_if(candidate.flows,
                  [&](const spec::LinkFlow& flow) { return flow.tokens_per_s < all * kLinkDust; });
    std::vector<bool> used(candidate.placement.layers.size());
    for (const spec::LinkFlow& flow : candidate.flows) {
        if (flow.to != spec::kCoordinator) used[static_cast<std::size_t>(flow.to)] = true;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i]) continue;
        candidate.placement.layers[i] = {};
        if (!candidate.placement.roles.empty()) candidate.placement.roles[i] = spec::NodeRole::both;
    }
}

class Planner {
  public:
    // costs: of batches, for predictions; nullptr = unknown.
    Planner(const Problem& problem, const spec::CostModel* costs, const PlanOptions& options)
        : problem_(problem),
          costs_(costs),
          options_(options),
          evaluator_(problem, options.flow),
          bound_(flow_bounds(problem).best) {
        if (costs == nullptr) return;
        for (const Batching batching : options.batchings) {
            PerformanceOptions performance = options.performance;
            performance.batching = batching;
            models_.emplace_back(problem, *costs, performance);
        }
    }

    base::Result<PlanReport> run() {
        if (options_.method == Method::milp) return solve_milp();
        progress("heuristics");
        TRY(candidates_, rule_candidates(problem_, options_));
        if (searches()) {
            for (const Placement& start : options_.starts) {
                if (!check_placement(problem_, start).ok()) continue;
                candidates_.push_back({.placement = start, .method = to_string(Method::search)});
            }
        }
        for (Candidate& candidate : candidates_) judge(candidate);
        if (searches() && options_.tight_bound) prove_bound();
        if (searches()) search_flow();
        std::erase_if(candidates_, [](const Candidate& c) { return c.flow <= 0; });
        if (candidates_.empty()) return base::Error{base::Errc::unavailable, nothing_found()};
        if (searches() && options_.objective != Objective::flow) return best_throughput();
        return best_flow();
    }

  private:
    bool searches() const {
        return options_.method == Method::automatic || options_.method == Method::search;
    }
    bool stopped() const { return options_.stop && options_.stop(); }
    // The search for flow alone, before another objective has its turn.
    std::function<bool()> flow_stop() const {
        if (options_.method == Method::milp) {
            return [this] {
                return stopped() || (options_.time_used && options_.time_used() >= kMilpStartShare);
            };
        }
        return options_.objective != Objective::flow && options_.flow_stop ? options_.flow_stop
                                                                           : options_.stop;
    }

    double best_candidate_flow() const {
        double flow = 0;
        for (const Candidate& c : candidates_) flow = std::max(flow, c.flow);
        return flow;
    }

    void progress(const char* phase, double flow = 0) const {
        if (!options_.progress) return;
        options_.progress({.phase = phase,
                           .flow_tokens_per_s = std::max(flow, best_candidate_flow()),
                           .bound_tokens_per_s = bound_});
    }

    std::string nothing_found() const {
        if (problem_.model.joined_layers > 0) {
            return fmt::format(
                "method {} finds no place for all {} layers of {} on {} that leaves the last {} "
                "together, which share keys and values",
                to_string(options_.method), problem_.model.n_layers, problem_.model.name,
                problem_.cluster.name, problem_.model.joined_layers);
        }
        if (candidates_.empty() && !searches()) {
            return fmt::format("method {} finds no place for all {} layers of {} on {}",
                               to_string(options_.method), problem_.model.n_layers,
                               problem_.model.name, problem_.cluster.name);
        }
        return fmt::format(
            "no way found to lead requests through all {} layers of {} on {}: the links between "
            "its nodes and the coordinator do not connect enough of them",
            problem_.model.n_layers, problem_.model.name, problem_.cluster.name);
    }

    // Flow, depth and memory as planned; nodes without flow are left out.
    void judge(Candidate& candidate) const {
        judge_flow(problem_, flow_options(candidate), candidate);
        candidate.kv_tokens = evaluator_.least_kv_tokens(candidate.placement.layers);
    }

    FlowOptions flow_options(const Candidate& candidate) const {
        FlowOptions flow = options_.flow;
        if (!candidate.only_links.empty()) flow.only_links = candidate.only_links;
        return flow;
    }

    void add(Placement placement, const char* method) {
        Candidate candidate{.placement = std::move(placement), .method = method};
        judge(candidate);
        candidates_.push_back(std::move(candidate));
    }

    void prove_bound() {
        progress("bound");
        ConfigBoundOptions options;
        options.known_flow = best_candidate_flow();
        options.stop = flow_stop();
        bound_ = std::min(bound_, config_bound(problem_, options));
    }

    bool flow_is_proven() const { return best_candidate_flow() >= bound_ * (1 - kSameFlow); }

    void search_flow() {
        const bool flow_only = options_.objective == Objective::flow;
        if (flow_is_proven() && options_.max_depth == 0 && flow_only) return;
        pack();
        if (flow_is_proven() && options_.max_depth == 0 && flow_only) return;
        progress("search");
        std::vector<Placement> starts;
        for (const Candidate& c : candidates_) starts.push_back(c.placement);
        if (starts.empty())
            starts.push_back({std::vector<spec::LayerRange>(problem_.cluster.nodes.size())});
        SearchOptions search;
        search.seed = options_.seed;
        search.iterations = options_.iterations;
        search.stop = flow_stop();
        search.flow_tolerance = options_.flow_tolerance;
        search.upper_bound = bound_;
        search.executor = options_.executor;
        search.progress = [&](double flow) { progress("search", flow); };
        SearchResult found = search_placement(evaluator_, starts, search);
        if (found.proven) bound_ = std::min(bound_, found.flow);
        if (found.flow > 0) add(std::move(found.most_flow), to_string(Method::search));
        for (Placement& shallower : found.shallower) {
            add(std::move(shallower), to_string(Method::search));
        }
    }

    // Annealing over hundreds of nodes at once gets nowhere.
    void search_cells() {
        ScaleOptions scale;
        scale.seed = options_.seed;
        scale.upper_bound = bound_;
        scale.stop = flow_stop();
        scale.executor = options_.executor;
        SearchResult found = search_large(problem_, options_.flow, scale);
        if (found.flow > 0) add(std::move(found.most_flow), "cells");
    }

    void pack() {
        if (problem_.cluster.nodes.size() > kMostAnnealed) return;
        progress("packing");
        BlockOptions blocks;
        blocks.seed = options_.seed;
        blocks.stop = flow_stop();
        if (options_.objective != Objective::flow) {
            const double deepest = options_.max_depth > 0 ? options_.max_depth : kMostBlockDepth;
            blocks.relative_tolerance = kCurveTolerance;
            for (BlockPlan& plan : blocks_by_depth(
                     problem_, std::min(static_cast<std::int32_t>(deepest), kMostBlockDepth),
                     blocks, options_.executor)) {
                add(std::move(plan.placement), "packing");
            }
            return;
        }
        if (options_.max_depth > 0) {
            blocks.max_depth = static_cast<std::int32_t>(std::min(options_.max_depth, 1e6));
        }
        auto best = best_blocks(problem_, blocks);
        if (best) add(std::move(best->placement), "packing");
        if (flow_is_proven()) return;
        auto linked = best_linked_blocks(problem_, bound_, blocks);
        if (linked) add(std::move(linked->placement), "packing");
    }

    // Our own plan of most flow, and what was proven on the way.
    base::Status start_from_search(MilpOptions& milp) {
        TRY(candidates_, rule_candidates(problem_, options_));
        for (Candidate& candidate : candidates_) judge(candidate);
        prove_bound();
        search_flow();
        start_from_most_flow(candidates_, milp);
        candidates_.clear();
        return base::Ok{};
    }

    // The solver's answer alone: where it finds nothing there is no plan.
    base::Result<PlanReport> solve_milp() {
        PlanOptions asked = options_;
        if (asked.milp_start == MilpStart::search) TRY_VOID(start_from_search(asked.milp));
        progress("milp");
        if (asked.milp.upper_bound == 0) asked.milp.upper_bound = bound_;
        TRY(MilpReport found, solve_paper_program(problem_, asked));
        if (!found.found()) {
            std::string text = describe_milp(found);
            text.pop_back();
            return base::Error{base::Errc::unavailable,
                               fmt::format("method milp: no plan for {} on {}\n{}",
                                           problem_.model.name, problem_.cluster.name, text)};
        }
        Candidate candidate{
            .placement = found.placement,
            .method = found.improved() ? to_string(Method::milp) : found.start_method,
            .only_links = found.only_links};
        judge(candidate);
        const MilpFormulation& form = asked.milp.formulation;
        if (found.proven() && !asked.milp.prune && !form.every_node_holds) {
            bound_ = std::min(bound_, std::max(found.objective, candidate.flow));
        }
        candidates_.push_back(std::move(candidate));
        milp_ = std::move(found);
        return best_flow();
    }

    // Does the candidate keep the limits?
    bool keeps_limits(const Candidate& candidate) const {
        if (options_.max_depth > 0 && candidate.depth > options_.max_depth + 1e-6) return false;
        if (options_.survive_share > 0) {
            const Robustness left =
                single_losses(problem_, candidate.placement, flow_options(candidate));
            if (left.worst_share() < options_.survive_share) return false;
        }
        if (options_.tpot_slo_s > 0 && !models_.empty()) {
            const FlowPlan flow =
                plan_flow(problem_.cluster,
                          build_flow_graph(problem_, candidate.placement, flow_options(candidate)));
            const Prediction seen = models_.front().predict(candidate.placement.layers, flow.links);
            if (seen.tpot_s > options_.tpot_slo_s) return false;
        }
        return true;
    }

    // Machines that have roles already keep them, and the published policy knows none.
    bool may_choose_roles() const {
        const std::vector<spec::NodeSpec>& nodes = problem_.cluster.nodes;
        return options_.batchings == std::vector{Batching::helix} &&
               std::all_of(nodes.begin(), nodes.end(), [](const spec::NodeSpec& node) {
                   return node.role == spec::NodeRole::both;
               });
    }

    std::string roles_note(const Placement& placement) const {
        std::string names;
        bool others_too = false;
        for (std::size_t i = 0; i < placement.roles.size(); ++i) {
            if (placement.layers[i].empty()) continue;
            others_too = others_too || placement.roles[i] == spec::NodeRole::both;
            if (placement.roles[i] != spec::NodeRole::prefill) continue;
            names += (names.empty() ? "" : ", ") + problem_.cluster.nodes[i].name;
        }
        return fmt::format(
            "roles: prompts are computed on {}{}, what follows on the others; what is predicted "
            "takes all as if each served whole requests",
            names, others_too ? ", when these are full on any" : "");
    }

    std::string limits_text() const {
        std::string text;
        if (options_.max_depth > 0)
            text += fmt::format(" at most {:g} stages,", options_.max_depth);
        if (options_.tpot_slo_s > 0) {
            text += fmt::format(" {:g} ms between tokens,", options_.tpot_slo_s * 1e3);
        }
        if (options_.survive_share > 0) {
            text += options_.survive_share < 0.005
                        ? std::string(" some flow after any one loss,")
                        : fmt::format(" {:.0f} % of the flow after any one loss,",
                                      options_.survive_share * 100);
        }
        text.pop_back();
        return text;
    }

    base::Error beyond_limits() const {
        return {base::Errc::unavailable,
                fmt::format("no plan found for {} on {} that keeps the limits:{}",
                            problem_.model.name, problem_.cluster.name, limits_text())};
    }

    // Most flow; among nearly that, fewest stages; among nearly that, most KV; then flow. First
    // wins ties.
    base::Result<PlanReport> best_flow() {
        std::erase_if(candidates_, [&](const Candidate& c) { return !keeps_limits(c); });
        if (candidates_.empty()) return beyond_limits();
        const auto keep = [&](auto good_enough) {
            std::erase_if(candidates_, [&](const Candidate& c) { return !good_enough(c); });
        };
        const double tolerance = std::max(options_.flow_tolerance, kSameFlow);
        const double flow = best_candidate_flow();
        keep([&](const Candidate& c) { return c.flow >= flow * (1 - tolerance); });
        double depth = candidates_.front().depth;
        for (const Candidate& c : candidates_) depth = std::min(depth, c.depth);
        keep([&](const Candidate& c) { return c.depth <= depth * 1.02; });
        double kv_tokens = 0;
        for (const Candidate& c : candidates_) kv_tokens = std::max(kv_tokens, c.kv_tokens);
        keep([&](const Candidate& c) { return c.kv_tokens >= kv_tokens * 0.9; });
        const auto best =
            std::max_element(candidates_.begin(), candidates_.end(),
                             [](const auto& a, const auto& b) { return a.flow < b.flow; });
        return report(*best, {}, options_.performance.policy);
    }

    base::Result<PlanReport> best_throughput() {
        progress("throughput");
        // Pipelines that a rule keeps apart are a start of their own: requests that may change
        // between slow and fast machines can make more flow and still be served less, because they
        // hold fast machines' memory while they wait at slow ones.
        std::vector<ThroughputStart> starts;
        for (const Candidate& c : candidates_) starts.push_back({c.placement, c.only_links});
        ThroughputOptions search;
        search.objective = options_.objective == Objective::latency ? ThroughputObjective::latency
                           : options_.objective == Objective::balanced
                               ? ThroughputObjective::balanced
                               : ThroughputObjective::throughput;
        for (const PerformanceModel& model : models_) search.models.push_back(&model);
        search.flow = options_.flow;
        search.max_depth = options_.max_depth;
        search.tpot_slo_s = options_.tpot_slo_s;
        search.survive = options_.survive_share;
        search.seed = options_.seed;
        search.iterations = options_.throughput_iterations;
        search.stop = options_.stop;
        search.time_used = options_.time_used;
        search.executor = options_.executor;
        search.side_by_side = options_.side_by_side;
        search.judge = options_.judge;
        search.choose_policy = options_.choose_policy;
        search.begin_with = options_.begin_with;
        search.policy = options_.performance.policy;
        if (may_choose_roles()) search.costs = costs_;
        const ThroughputResult found = search_throughput(problem_, starts, search);
        if (found.shortlist.empty()) return beyond_limits();
        ThroughputCandidate first = found.shortlist.front();
        drop_dust(first);
        Candidate best{.placement = first.placement, .method = to_string(Method::search)};
        if (first.start >= 0)
            best.method = candidates_[static_cast<std::size_t>(first.start)].method;
        TRY(PlanReport out, report(best, first.flows, first.policy));
        out.judged_tokens_per_s = delivered_as_judged(first.judgement);
        out.judged_plans = found.judged;
        if (!first.placement.roles.empty()) out.notes.push_back(roles_note(first.placement));
        if (problem_.cluster.nodes.size() > kMostAnnealed)
            return out;  // too many losses to look at
        for (const ParetoEntry& entry : pareto_table(problem_, options_.flow, found.shortlist)) {
            PlanReport::Choice choice{
                entry.merits, delivered_as_judged(found.shortlist[entry.candidate].judgement),
                entry.candidate == 0};
            // One figure for one plan, as it is told above the table.
            if (choice.chosen && out.prediction) {
                choice.merits.decode_tokens_per_s = out.prediction->decode_tokens_per_s;
            }
            const bool differs = std::all_of(
                out.pareto.begin(), out.pareto.end(),
                [&](const auto& other) { return clearly_better(choice.merits, other.merits); });
            if (differs && out.pareto.size() < kMostChoices) out.pareto.push_back(choice);
        }
        return out;
    }

    base::Result<PlanReport> report(const Candidate& best, const std::vector<spec::LinkFlow>& flows,
                                    const spec::ServingPolicy& policy) {
        std::optional<PerformanceModel> predictor;
        if (costs_ != nullptr) {
            PerformanceOptions performance = models_.front().options();
            performance.policy = policy;
            predictor.emplace(problem_, *costs_, performance);
        }
        TRY(PlanReport out, evaluate_with(problem_, best.placement, flow_options(best),
                                          predictor ? &*predictor : nullptr, flows, policy));
        out.method = best.method;
        out.notes = best.notes;
        out.milp = std::move(milp_);
        set_bound(out, bound_);
        return out;
    }

    Problem problem_;
    const spec::CostModel* costs_;
    const PlanOptions& options_;
    Evaluator evaluator_;
    double bound_;
    std::vector<PerformanceModel> models_;
    std::vector<Candidate> candidates_;
    std::optional<MilpReport> milp_;
};

// Nothing where it is not asked for.
std::optional<DeliveredBound> bound_delivered(const Problem& problem, const spec::CostModel* costs,
                                              const PlanOptions& options) {
    if (!options.delivered_bound || costs == nullptr) return std::nullopt;
    if (options.objective == Objective::flow) return std::nullopt;
    const auto stop = [&options] {
        return (options.stop && options.stop()) ||
               (options.time_used && options.time_used() >= kDeliveredBoundShare);
    };
    const DeliveredBound bound =
        delivered_bound(problem, *costs, {.lengths = options.performance.lengths, .stop = stop});
    if (!(bound.tokens_per_s > 0)) return std::nullopt;
    return bound;
}

base::Result<PlanReport> plan_part(const ClusterSpec& cluster, const ModelSpec& model,
                                   const PlanOptions& options) {
    PlanOptions own = options;
    own.delivered_bound = false;  // a part's says nothing of the whole
    return plan(cluster, model, own);
}

}  // namespace

base::Result<PlanReport> plan(const ClusterSpec& cluster, const ModelSpec& model,
                              const PlanOptions& options) {
    TRY_VOID(check_input(cluster, model));
    const spec::MeasuredNode measured;
    const spec::CostModel* costs = options.costs;
    if (costs == nullptr) {
        const base::Status known = spec::check_measured(cluster);
        if (known.ok()) {
            costs = &measured;
        } else if (options.capacities == nullptr || options.objective != Objective::flow) {
            return known.error();
        }
    }
    if (options.method == Method::milp && model.joined_layers > 0) {
        return base::invalid(
            fmt::format("method milp: it may divide the last {} layers of {}, which share keys and "
                        "values and stay together; other methods leave them so",
                        model.joined_layers, model.name));
    }
    CapacityTable own;
    if (options.capacities == nullptr) {
        own = capacity_from_costs(cluster, model, *costs, options.workload, options.memory);
    }
    CHECK(options.capacities == nullptr ||
          options.capacities->nodes.size() == cluster.nodes.size());
    if (options.method == Method::separate && options.capacities != nullptr) {
        own = separate_capacities({cluster, model, *options.capacities});
    }
    const bool as_given = options.capacities != nullptr && own.nodes.empty();
    const CapacityTable& capacities = as_given ? *options.capacities : own;
    const Problem problem{cluster, model, capacities};
    const std::optional<DeliveredBound> delivered = bound_delivered(problem, costs, options);
    if (options.method == Method::manual) {
        TRY_VOID(check_placement(problem, options.manual));
        std::optional<PerformanceModel> predictor;
        if (costs != nullptr) predictor.emplace(problem, *costs, options.performance);
        TRY(PlanReport manual,
            evaluate_with(problem, options.manual, options.flow, predictor ? &*predictor : nullptr,
                          options.manual_flows, options.performance.policy));
        manual.delivered_bound = delivered;
        return manual;
    }
    std::vector<std::string> warnings = role_warnings(cluster);
    if (std::optional<PlanReport> apart =
            plan_apart(problem, costs, options, plan_part, warnings)) {
        apart->delivered_bound = delivered;
        return std::move(*apart);
    }
    TRY_VOID(check_holdable(problem));
    TRY(PlanReport together, Planner(problem, costs, options).run());
    together.warnings = std::move(warnings);
    together.delivered_bound = delivered;
    return together;
}

}  // namespace helix::plan
