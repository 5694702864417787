#include "lab/planning/plan_changes.h"

#include <cstddef>
#include <utility>

#include "lab/planning/predict_changes.h"
#include "plan/change/replan.h"
#include "plan/plan_evaluate.h"
#include "plan/problem/cluster_part.h"
#include "plan/problem/roles.h"
#include "plan/replan_apart.h"
#include "spec/cluster_file.h"

namespace helix::lab {
namespace {

MakeProblem maker(const ProblemSource& source) {
    return [&source](const spec::ClusterSpec& cluster) { return make_problem(source, cluster); };
}

plan::CapacityFunction capacities_of(const ProblemSource& source) {
    return capacities_by(maker(source));
}

// What users would see of a placement; for any cluster.
plan::PredictFunction predictor(const PlanSession& session) {
    if (session.settings.options.objective == plan::Objective::flow) return {};
    return predict_changes(maker(session.source), session.settings.options.flow.partial);
}

// Plans the cluster as it is and as it would be, each with half of the time until the budget ends.
base::Result<plan::WhatIf> plan_both(const PlanSession& session, const spec::ClusterSpec& cluster,
                                     const spec::ModelSpec& model,
                                     const std::vector<plan::Change>& changes) {
    const double from_s = session.elapsed_s();
    int planned = 0;
    const plan::PlanFunction planner =
        [&](const plan::Problem& changed,
            const spec::Placement* start) -> base::Result<plan::PlanReport> {
        TRY(Problem problem, make_problem(session.source, changed.cluster));
        problem.capacities = changed.capacities;
        ++planned;
        return session.plan(problem, from_s + (session.budget_s - from_s) * planned / 2, start);
    };
    return plan::what_if(cluster, model, changes, capacities_of(session.source), planner);
}

}  // namespace

base::Result<WhatIfAnswer> answer_what_if(const PlanSession& session,
                                          const std::vector<plan::Change>& changes) {
    TRY(const spec::ClusterSpec cluster, spec::read_cluster_file(session.source.cluster));
    TRY(const Problem present, make_problem(session.source, cluster));
    TRY(plan::WhatIf plans, plan_both(session, cluster, present.model, changes));
    TRY(Problem after, make_problem(session.source, plans.changed.cluster));
    return WhatIfAnswer{std::move(after), std::move(plans)};
}

namespace {

plan::ReplanOptions replan_options(const PlanSession& session, double until_s) {
    plan::ReplanOptions options;
    options.flow.partial = session.settings.options.flow.partial;
    options.flow.convention = plan::Convention::reference;
    options.disk_bytes_per_s = kDiskBytesPerS;
    options.seed = session.settings.options.seed;
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
    const plan::PredictFunction predict = predictor(session);
    const auto options_of = [&](const plan::ClusterPart& part, int which) {
        // The second has what the first leaves.
        plan::ReplanOptions options =
            replan_options(session, session.budget_s * (which == 0 ? 0.5 : 1));
        options.price_per_byte =
            plan::move_price(flows[static_cast<std::size_t>(which)], kDiskBytesPerS, horizon_s);
        if (!predict) return options;
        options.objective = [&predict, &problem, cluster = part.cluster,
                             own = plan::capacities_of_part(problem.capacities, part)](
                                const spec::Placement& placement) {
            return predict({cluster, problem.model, own}, placement);
        };
        return options;
    };
    return plan::replan_apart({problem.cluster, problem.model, problem.capacities}, start,
                              options_of);
}

// The same where all machines do everything.
base::Result<ReplanAnswer> replan_whole(const PlanSession& session, const Problem& before,
                                        const spec::Placement& current, Problem problem,
                                        const spec::Placement& start, double horizon_s) {
    plan::ReplanOptions options = replan_options(session, session.budget_s);
    TRY(const plan::PlanReport stays,
        plan::evaluate_placement({before.cluster, before.model, before.capacities}, current,
                                 options.flow));
    options.price_per_byte =
        plan::move_price(stays.max_flow_tokens_per_s, kDiskBytesPerS, horizon_s);
    const plan::PredictFunction predict = predictor(session);
    if (predict) {
        options.objective = [&](const spec::Placement& placement) {
            return predict({problem.cluster, problem.model, problem.capacities}, placement);
        };
    }
    TRY(plan::ReplanReport found,
        plan::replan({problem.cluster, problem.model, problem.capacities}, start, options));
    TRY(plan::PlanReport report,
        plan::evaluate_placement({problem.cluster, problem.model, problem.capacities},
                                 found.placement, options.flow));
    return ReplanAnswer{
        std::move(problem), std::move(report), std::move(found.diff), {found.flow_before}};
}

}  // namespace

base::Result<ReplanAnswer> answer_replan(const PlanSession& session,
                                         const ReplanQuestion& question) {
    TRY(Problem before, load_problem(session.source));
    TRY(const spec::PlacementFile file, read_layout(question.current, before));
    const spec::Placement& current = file.placement;
    for (std::size_t i = 0; i < current.roles.size(); ++i) {
        before.cluster.nodes[i].role = current.roles[i];
    }
    TRY(const plan::ChangedCluster changed, plan::apply_changes(before.cluster, question.changes));
    TRY(Problem problem, make_problem(session.source, changed.cluster));
    const spec::Placement start = plan::carry_over(current, changed.origin);
    std::vector<std::string> warnings = plan::role_warnings(problem.cluster);
    if (!plan::role_parts(problem.cluster).empty()) {
        TRY(plan::ReplanApart apart,
            replan_roles(session, before, current, problem, start, question.horizon_s));
        if (!apart.parts.empty()) {
            apart.report.kv_type = problem.kv_type;
            if (!current.roles.empty()) {
                for (const spec::NodeSpec& node : problem.cluster.nodes)
                    apart.report.placement.roles.push_back(node.role);
            }
            return ReplanAnswer{std::move(problem),
                                std::move(apart.report),
                                std::move(apart.diff),
                                {apart.parts[0].flow_before, apart.parts[1].flow_before}};
        }
        warnings = std::move(apart.warnings);
    }
    TRY(ReplanAnswer answer,
        replan_whole(session, before, current, std::move(problem), start, question.horizon_s));
    answer.report.warnings = std::move(warnings);
    answer.report.kv_type = answer.problem.kv_type;
    return answer;
}

base::Result<Advised> answer_advise(const PlanSession& session, int picks,
                                    const std::string& current_file) {
    TRY(const Problem problem, load_problem(session.source));
    spec::Placement current;
    if (!current_file.empty()) {
        TRY(spec::PlacementFile file, read_layout(current_file, problem));
        current = std::move(file.placement);
    } else {
        TRY(plan::PlanReport planned, session.plan(problem, session.budget_s / 4, nullptr));
        current = std::move(planned.placement);
    }
    // What is proposed first is then planned in full, as the question about that change would.
    const bool in_full = current_file.empty();
    const double search_until_s = in_full ? session.budget_s / 2 : session.budget_s;
    plan::AdviceOptions options;
    options.picks = picks;
    options.flow.partial = session.settings.options.flow.partial;
    options.flow.convention = plan::Convention::reference;
    options.seed = session.settings.options.seed;
    options.stop = [&] { return session.interrupted() || session.elapsed_s() >= search_until_s; };
    options.progress = [&](int, int, const std::string&) { session.progress({.phase = "advice"}); };
    Advised advised;
    TRY(advised.report, plan::advise(problem.cluster, problem.model, current,
                                     capacities_of(session.source), predictor(session), options));
    if (in_full && !advised.report.picks.empty() && !session.interrupted()) {
        TRY(advised.first, plan_both(session, problem.cluster, problem.model,
                                     {advised.report.picks.front().change}));
    }
    return advised;
}

}  // namespace helix::lab
