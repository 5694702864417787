#include "cli/plan_changes.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "cli/plan_judge.h"
#include "cli/plan_output.h"
#include "cli/size_option.h"
#include "plan/change/cluster_change.h"
#include "plan/change/replan.h"
#include "plan/change/what_if.h"
#include "plan/plan_evaluate.h"
#include "plan/problem/cluster_part.h"
#include "plan/problem/roles.h"
#include "plan/replan_apart.h"
#include "plan/report/plan_json.h"
#include "spec/cluster_file.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

using nlohmann::ordered_json;

// Of the budget, what the search for flow gets before throughput has its turn.
constexpr double kFlowShare = 0.15;
constexpr std::int64_t kUntilStopped = 1'000'000'000'000;
constexpr double kDiskBytesPerS = 1e9;

base::Result<std::vector<plan::Change>> parse_changes(const PlanArguments& a) {
    std::vector<plan::Change> changes;
    for (const std::string& text : a.add) {
        TRY(plan::Change change, plan::parse_add(text));
        changes.push_back(std::move(change));
    }
    for (const std::string& text : a.remove) {
        TRY(plan::Change change, plan::parse_remove(text));
        changes.push_back(std::move(change));
    }
    for (const std::string& text : a.link) {
        TRY(plan::Change change, plan::parse_link(text));
        changes.push_back(std::move(change));
    }
    for (const std::string& text : a.upgrade) {
        TRY(plan::Change change, plan::parse_upgrade(text));
        changes.push_back(std::move(change));
    }
    return changes;
}

plan::CapacityFunction capacities_of(const PlanArguments& a) {
    return [&a](const spec::ClusterSpec& cluster) -> base::Result<plan::CapacityTable> {
        TRY(Problem problem, make_problem(a.problem, cluster));
        return std::move(problem.capacities);
    };
}

// What users would see of a placement; for any cluster.
plan::PredictFunction predictor(const PlanArguments& a) {
    if (a.objective == "flow") return {};
    return [&a](const spec::ClusterSpec& cluster, const plan::CapacityTable& capacities,
                const spec::Placement& placement) {
        const auto problem = make_problem(a.problem, cluster);
        if (!problem.ok()) return 0.0;
        const plan::PerformanceModel model({problem->cluster, problem->model, capacities},
                                           problem->costs(), plan::PerformanceOptions{});
        plan::ThroughputOptions options;
        options.models = {&model};
        options.flow.partial = !a.no_partial;
        const auto split = plan::split_placement({problem->cluster, problem->model, capacities},
                                                 placement, options);
        return split ? split->estimates.front().decode_tokens_per_s : 0.0;
    };
}

ordered_json effect_json(const plan::Effect& effect) {
    return {{"max_flow_tokens_per_s", effect.flow},
            {"upper_bound_tokens_per_s", effect.bound},
            {"predicted_decode_tokens_per_s", effect.predicted_tokens_per_s},
            {"mean_depth", effect.mean_depth},
            {"least_kv_tokens", effect.least_kv_tokens}};
}

std::string changes_text(const std::vector<plan::Change>& changes) {
    std::string text;
    for (const plan::Change& change : changes) {
        text += (text.empty() ? "" : "; ") + plan::to_string(change);
    }
    return text;
}

}  // namespace

base::Result<plan::PlanReport> PlanSession::plan(const Problem& problem, double until_s,
                                                 const spec::Placement* start) const {
    TRY(plan::PlanOptions options, plan_options(arguments, problem));
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
    options.executor = threads_executor(arguments.threads);
    options.progress = progress;
    if (start != nullptr) options.starts.push_back(*start);
    if (options.objective != plan::Objective::flow) {
        TRY(options.judge, simulation_judge(arguments, problem));
    }
    return plan::plan(problem.cluster, problem.model, options);
}

namespace {

// Plans the cluster as it is and as it would be, each with half of the time until the budget ends.
base::Result<plan::WhatIf> plan_both(const PlanSession& session, const spec::ClusterSpec& cluster,
                                     const std::vector<plan::Change>& changes) {
    const PlanArguments& a = session.arguments;
    const double from_s = session.elapsed_s();
    int planned = 0;
    const plan::PlanFunction planner =
        [&](const spec::ClusterSpec& changed, const plan::CapacityTable& capacities,
            const spec::Placement* start) -> base::Result<plan::PlanReport> {
        TRY(Problem problem, make_problem(a.problem, changed));
        problem.capacities = capacities;
        ++planned;
        return session.plan(problem, from_s + (session.budget_s - from_s) * planned / 2, start);
    };
    return plan::what_if(cluster, changes, capacities_of(a), planner, predictor(a));
}

}  // namespace

base::Status run_what_if(const PlanSession& session) {
    const PlanArguments& a = session.arguments;
    TRY(const auto changes, parse_changes(a));
    TRY(const spec::ClusterSpec cluster, spec::read_cluster_file(a.problem.cluster));
    TRY(const plan::WhatIf answer, plan_both(session, cluster, changes));
    TRY(const Problem after, make_problem(a.problem, answer.changed.cluster));
    if (a.json) {
        const ordered_json out = {
            {"changes", changes_text(changes)},
            {"before", effect_json(answer.effect_before)},
            {"after", effect_json(answer.effect_after)},
            {"plan", ordered_json::parse(plan::plan_to_json(after.cluster, after.model,
                                                            answer.after, session.elapsed_s()))}};
        std::printf("%s\n", out.dump().c_str());
        return write_plan_files(a, after, answer.after);
    }
    TRY_VOID(show_plan(a, after, answer.after, session.elapsed_s()));
    std::printf("\n%s\n%s", changes_text(changes).c_str(),
                plan::describe_effect(answer.effect_before, answer.effect_after).c_str());
    return base::Ok{};
}

namespace {

plan::ReplanOptions replan_options(const PlanSession& session, double until_s) {
    plan::ReplanOptions options;
    options.flow.partial = !session.arguments.no_partial;
    options.flow.convention = plan::Convention::reference;
    options.disk_bytes_per_s = kDiskBytesPerS;
    options.seed = session.arguments.seed;
    options.stop = [&session, until_s] {
        return session.interrupted() || session.elapsed_s() >= until_s;
    };
    return options;
}

// What the machines for prompts and the others do in the current placement, while nothing changes.
base::Result<std::vector<double>> flows_by_role(const Problem& before,
                                                const spec::Placement& current,
                                                const plan::FlowOptions& flow) {
    std::vector<double> flows;
    for (const plan::ClusterPart& part : plan::role_parts(before.cluster)) {
        TRY(const plan::PlanReport stays,
            plan::evaluate_placement(
                {part.cluster, before.model, plan::capacities_of_part(before.capacities, part)},
                plan::placement_of_part(current, part), flow));
        flows.push_back(stays.max_flow_tokens_per_s);
    }
    return flows;
}

// start: the current placement on the problem's cluster.
base::Result<plan::ReplanApart> replan_roles(const PlanSession& session, const Problem& before,
                                             const spec::Placement& current, const Problem& problem,
                                             const spec::Placement& start, double horizon_s) {
    const plan::FlowOptions flow = replan_options(session, 0).flow;
    TRY(const std::vector<double> flows, flows_by_role(before, current, flow));
    const plan::PredictFunction predict = predictor(session.arguments);
    const auto options_of = [&](const plan::ClusterPart& part, int which) {
        // The second has what the first leaves.
        plan::ReplanOptions options =
            replan_options(session, session.budget_s * (which == 0 ? 0.5 : 1));
        options.price_per_byte =
            plan::move_price(flows[static_cast<std::size_t>(which)], kDiskBytesPerS, horizon_s);
        if (!predict) return options;
        options.objective = [&predict, cluster = part.cluster,
                             own = plan::capacities_of_part(problem.capacities, part)](
                                const spec::Placement& placement) {
            return predict(cluster, own, placement);
        };
        return options;
    };
    return plan::replan_apart({problem.cluster, problem.model, problem.capacities}, start,
                              options_of);
}

// flows: without moving anything; one, or those of the machines for prompts and of the others.
base::Status show_replan(const PlanSession& session, const Problem& problem,
                         const plan::PlanReport& report, const plan::PlacementDiff& diff,
                         const std::vector<double>& flows) {
    const PlanArguments& a = session.arguments;
    if (a.json) {
        ordered_json out = ordered_json::parse(
            plan::plan_to_json(problem.cluster, problem.model, report, session.elapsed_s()));
        out["moved_bytes"] = diff.bytes;
        out["moved_s"] = diff.seconds;
        out["dropped_kv_layers"] = diff.kv_layers;
        out["flow_without_moves"] = std::accumulate(flows.begin(), flows.end(), 0.0);
        std::printf("%s\n", out.dump().c_str());
        return write_plan_files(a, problem, report);
    }
    TRY_VOID(show_plan(a, problem, report, session.elapsed_s()));
    if (flows.size() == 1) {
        std::printf("\nwithout moving anything: %.0f tokens/s\n", flows[0]);
    } else {
        std::printf(
            "\nwithout moving anything: %.0f tokens/s through the machines for prompts, %.0f "
            "through those that decode\n",
            flows[0], flows[1]);
    }
    std::printf("%s", plan::describe_diff(problem.cluster, diff).c_str());
    return base::Ok{};
}

}  // namespace

base::Status run_replan(const PlanSession& session) {
    const PlanArguments& a = session.arguments;
    TRY(const auto changes, parse_changes(a));
    TRY(const double horizon_s, parse_seconds("--horizon", a.horizon));
    if (horizon_s <= 0) return base::invalid("--horizon: expected a time above 0");
    TRY(const Problem before, load_problem(a.problem));
    TRY(const spec::PlacementFile file, read_layout(a.current, before));
    const spec::Placement& current = file.placement;
    TRY(const plan::ChangedCluster changed, plan::apply_changes(before.cluster, changes));
    TRY(const Problem problem, make_problem(a.problem, changed.cluster));
    const spec::Placement start = plan::carry_over(current, changed.origin);
    std::vector<std::string> warnings = plan::role_warnings(problem.cluster);
    if (!plan::role_parts(problem.cluster).empty()) {
        TRY(plan::ReplanApart apart,
            replan_roles(session, before, current, problem, start, horizon_s));
        if (!apart.parts.empty()) {
            return show_replan(session, problem, apart.report, apart.diff,
                               {apart.parts[0].flow_before, apart.parts[1].flow_before});
        }
        warnings = std::move(apart.warnings);
    }
    plan::ReplanOptions options = replan_options(session, session.budget_s);
    TRY(const plan::PlanReport stays,
        plan::evaluate_placement({before.cluster, before.model, before.capacities}, current,
                                 options.flow));
    options.price_per_byte =
        plan::move_price(stays.max_flow_tokens_per_s, kDiskBytesPerS, horizon_s);
    const plan::PredictFunction predict = predictor(a);
    if (predict) {
        options.objective = [&](const spec::Placement& placement) {
            return predict(problem.cluster, problem.capacities, placement);
        };
    }
    TRY(const plan::ReplanReport found,
        plan::replan({problem.cluster, problem.model, problem.capacities}, start, options));
    TRY(plan::PlanReport report,
        plan::evaluate_placement({problem.cluster, problem.model, problem.capacities},
                                 found.placement, options.flow));
    report.warnings = std::move(warnings);
    return show_replan(session, problem, report, found.diff, {found.flow_before});
}

base::Status run_advise(const PlanSession& session) {
    const PlanArguments& a = session.arguments;
    if (a.advise < 1 || a.advise > 20) return base::invalid("--advise: expected 1 to 20 purchases");
    TRY(const Problem problem, load_problem(a.problem));
    spec::Placement current;
    if (!a.current.empty()) {
        TRY(spec::PlacementFile file, read_layout(a.current, problem));
        current = std::move(file.placement);
    } else {
        TRY(plan::PlanReport planned, session.plan(problem, session.budget_s / 4, nullptr));
        current = std::move(planned.placement);
    }
    // What is proposed first is then planned in full, as --add, --upgrade and --link would.
    const bool in_full = a.current.empty();
    const double search_until_s = in_full ? session.budget_s / 2 : session.budget_s;
    plan::AdviceOptions options;
    options.picks = a.advise;
    options.flow.partial = !a.no_partial;
    options.flow.convention = plan::Convention::reference;
    options.seed = a.seed;
    options.stop = [&] { return session.interrupted() || session.elapsed_s() >= search_until_s; };
    options.progress = [&](int, int, const std::string&) { session.progress({.phase = "advice"}); };
    TRY(const plan::AdviceReport report, plan::advise(problem.cluster, problem.model, current,
                                                      capacities_of(a), predictor(a), options));
    std::optional<plan::WhatIf> best;
    if (in_full && !report.picks.empty() && !session.interrupted()) {
        TRY(best, plan_both(session, problem.cluster, {report.picks.front().change}));
    }
    if (!a.json) {
        std::fputs(plan::describe_advice(report).c_str(), stdout);
        if (best) {
            std::printf("\n%s, both planned in full\n%s",
                        plan::to_string(report.picks.front().change).c_str(),
                        plan::describe_effect(best->effect_before, best->effect_after).c_str());
        }
        return base::Ok{};
    }
    const auto rows = [](const std::vector<plan::Advice>& advice) {
        ordered_json out = ordered_json::array();
        for (const plan::Advice& one : advice) {
            out.push_back({{"change", plan::to_string(one.change)},
                           {"usd_per_hour", one.usd_per_hour},
                           {"tokens_per_s", one.tokens_per_s},
                           {"gain", one.gain},
                           {"gain_per_usd_per_hour", one.gain_per_usd}});
        }
        return out;
    };
    ordered_json out = {{"tokens_per_s", report.tokens_per_s},
                        {"picks", rows(report.picks)},
                        {"ranked", rows(report.ranked)},
                        {"skipped", report.skipped},
                        {"stopped", report.stopped}};
    if (best) {
        out["in_full"] = {{"change", plan::to_string(report.picks.front().change)},
                          {"before", effect_json(best->effect_before)},
                          {"after", effect_json(best->effect_after)}};
    }
    std::printf("%s\n", out.dump().c_str());
    return base::Ok{};
}

}  // namespace helix::cli
