#include "lab/planning/plan_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/machine.h"
#include "lab/planning/plan_judge.h"
#include "spec/units.h"

namespace helix::lab {
namespace {

using plan::Method;

constexpr std::array kMethods = {
    Method::automatic, Method::search, Method::milp,     Method::even,          Method::replicated,
    Method::petals,    Method::swarm,  Method::separate, Method::separate_plus, Method::manual};

// Of the budget, what the search for flow gets before throughput has its turn.
constexpr double kFlowShare = 0.15;
constexpr std::int64_t kUntilStopped = 1'000'000'000'000;

// A layout of the cluster's nodes, with the links that it was made for.
base::Status read_manual(const PlanSettings& settings, const Problem& problem,
                         plan::PlanOptions& options) {
    TRY(spec::PlacementFile file, read_layout(settings.placement, problem));
    options.manual = std::move(file.placement);
    options.performance.policy = file.policy.value_or(spec::ServingPolicy());
    if (!file.links.empty()) options.flow.only_links = std::move(file.links);
    return base::Ok{};
}

}  // namespace

PlanSettings::PlanSettings() {
    options.objective = plan::Objective::throughput;
    options.flow.partial = true;
    options.flow.convention = plan::Convention::reference;
    options.batchings = {plan::Batching::helix};
    options.milp.formulation.every_node_holds = false;
}

std::span<const plan::Method> plan_methods() {
    return kMethods;
}

base::Result<plan::PlanOptions> options_for(const PlanSettings& settings, const Problem& problem) {
    plan::PlanOptions options = settings.options;
    options.capacities = &problem.capacities;
    options.costs = &problem.costs();
    if (!settings.lengths.empty()) {
        TRY(options.performance.lengths, plan::read_lengths(settings.lengths));
    }
    if (options.method == Method::manual) TRY_VOID(read_manual(settings, problem, options));
    return options;
}

base::Result<plan::PlanReport> PlanSession::plan(
    const Problem& problem, double until_s, const spec::Placement* start,
    std::optional<spec::ServingPolicy> begin_with) const {
    TRY(plan::PlanOptions options, options_for(settings, problem));
    const double from_s = elapsed_s();
    const double flow_until_s = from_s + (until_s - from_s) * kFlowShare;
    options.stop = [this, until_s] { return interrupted() || elapsed_s() >= until_s; };
    options.flow_stop = [this, flow_until_s] {
        return interrupted() || elapsed_s() >= flow_until_s;
    };
    options.time_used = [this, from_s, until_s] {
        return until_s > from_s ? (elapsed_s() - from_s) / (until_s - from_s) : 1.0;
    };
    options.milp.stop.now_s = elapsed_s;
    options.milp.stop.asked = interrupted;
    options.milp.stop.time_limit_s = std::max(until_s - from_s, 1e-3);
    options.iterations = kUntilStopped;
    options.throughput_iterations = kUntilStopped;
    options.executor = threads_executor(settings.threads);
    options.side_by_side = settings.threads > 0 ? settings.threads : base::usable_threads();
    options.progress = progress;
    if (start != nullptr) options.starts.push_back(*start);
    if (options.objective != plan::Objective::flow) {
        TRY(options.judge, simulation_judge(settings, problem, options.stop));
        options.choose_policy = settings.choose_policy && judges_own_policy(settings, problem);
        options.begin_with = begin_with;
    }
    TRY(plan::PlanReport report, plan::plan(problem.cluster, problem.model, options));
    report.kv_type = problem.kv_type;
    if (options.judge) {
        TRY(report.alone, simulate_alone(settings, problem, options.performance.lengths, report));
    }
    return report;
}

spec::PlacementFile placement_file(const Problem& problem, const plan::PlanReport& report) {
    spec::PlacementFile file{.cluster = problem.cluster.name,
                             .model = problem.model.name,
                             .method = report.method,
                             .n_layers = problem.model.n_layers,
                             .placement = report.placement,
                             .node_types = {},
                             .node_names = {},
                             .links = {},
                             .flows = report.flows,
                             .policy = std::nullopt,
                             .kv_type = problem.kv_type,
                             .max_flow_tokens_per_s = report.max_flow_tokens_per_s};
    if (report.policy != spec::ServingPolicy()) file.policy = report.policy;
    for (const spec::NodeSpec& node : problem.cluster.nodes) {
        file.node_types.push_back(node.type);
        file.node_names.push_back(node.name);
    }
    for (const spec::LinkFlow& flow : report.flows) file.links.emplace_back(flow.from, flow.to);
    return file;
}

base::Result<PlanToSimulate> plan_to_simulate(const PlanSession& session, const Problem& problem) {
    TRY(const plan::PlanReport report, session.plan(problem, session.budget_s, nullptr));
    const auto& layers = report.placement.layers;
    const auto used = std::count_if(layers.begin(), layers.end(),
                                    [](const spec::LayerRange& range) { return !range.empty(); });
    PlanToSimulate planned;
    planned.told = fmt::format(
        "no --placement: planned for {}: {} of {} machines hold layers, {:.1f} "
        "stages a request, flow {:.0f} tokens/s ('helix plan --output FILE' "
        "takes more time and finds better ones)\n",
        spec::format_duration(session.elapsed_s()), used, layers.size(), report.mean_depth,
        report.max_flow_tokens_per_s);
    for (const std::string& text : report.warnings) planned.told += "warning: " + text + "\n";
    planned.layout = placement_file(problem, report);
    spec::resize_placement(planned.layout.placement, problem.cluster.nodes.size());
    planned.layout.links.clear();  // a scheduler that follows no plan may take every link
    return planned;
}

}  // namespace helix::lab
