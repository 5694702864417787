#include "cli/plan_changes.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "cli/plan_output.h"
#include "cli/size_option.h"
#include "lab/planning/plan_changes.h"
#include "plan/change/cluster_change.h"
#include "plan/change/placement_diff.h"
#include "plan/change/what_if.h"
#include "plan/report/plan_json.h"

namespace helix::cli {
namespace {

using nlohmann::ordered_json;

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

base::Status run_what_if(const PlanArguments& a, const lab::PlanSession& session) {
    TRY(const auto changes, parse_changes(a));
    TRY(const lab::WhatIfAnswer answer, lab::answer_what_if(session, changes));
    const lab::Problem& after = answer.after;
    const plan::WhatIf& plans = answer.plans;
    if (a.json) {
        const ordered_json out = {
            {"changes", changes_text(changes)},
            {"before", effect_json(plans.effect_before)},
            {"after", effect_json(plans.effect_after)},
            {"plan", ordered_json::parse(plan::plan_to_json(after.cluster, after.model, plans.after,
                                                            session.elapsed_s()))}};
        std::printf("%s\n", out.dump().c_str());
        return write_plan_files(a, after, plans.after);
    }
    TRY_VOID(show_plan(a, after, plans.after, session.elapsed_s()));
    std::printf("\n%s\n%s", changes_text(changes).c_str(),
                plan::describe_effect(plans.effect_before, plans.effect_after).c_str());
    return base::Ok{};
}

base::Status run_replan(const PlanArguments& a, const lab::PlanSession& session) {
    lab::ReplanQuestion question;
    TRY(question.changes, parse_changes(a));
    TRY(question.horizon_s, parse_seconds("--horizon", a.horizon));
    if (question.horizon_s <= 0) return base::invalid("--horizon: expected a time above 0");
    question.current = a.current;
    TRY(const lab::ReplanAnswer answer, lab::answer_replan(session, question));
    const lab::Problem& problem = answer.problem;
    const std::vector<double>& flows = answer.flows_before;
    if (a.json) {
        ordered_json out = ordered_json::parse(
            plan::plan_to_json(problem.cluster, problem.model, answer.report, session.elapsed_s()));
        out["moved_bytes"] = answer.diff.bytes;
        out["moved_s"] = answer.diff.seconds;
        out["dropped_kv_layers"] = answer.diff.kv_layers;
        out["flow_without_moves"] = std::accumulate(flows.begin(), flows.end(), 0.0);
        std::printf("%s\n", out.dump().c_str());
        return write_plan_files(a, problem, answer.report);
    }
    TRY_VOID(show_plan(a, problem, answer.report, session.elapsed_s()));
    if (flows.size() == 1) {
        std::printf("\nwithout moving anything: %.0f tokens/s\n", flows[0]);
    } else {
        std::printf(
            "\nwithout moving anything: %.0f tokens/s through the machines for prompts, %.0f "
            "through those that decode\n",
            flows[0], flows[1]);
    }
    std::printf("%s", plan::describe_diff(problem.cluster, answer.diff).c_str());
    return base::Ok{};
}

namespace {

ordered_json advice_json(const std::vector<plan::Advice>& advice) {
    ordered_json out = ordered_json::array();
    for (const plan::Advice& one : advice) {
        out.push_back({{"change", plan::to_string(one.change)},
                       {"usd_per_hour", one.usd_per_hour},
                       {"tokens_per_s", one.tokens_per_s},
                       {"gain", one.gain},
                       {"gain_per_usd_per_hour", one.gain_per_usd}});
    }
    return out;
}

void show_advice(const lab::Advised& advised) {
    std::fputs(plan::describe_advice(advised.report).c_str(), stdout);
    if (!advised.first) return;
    std::printf(
        "\n%s, both planned in full\n%s",
        plan::to_string(advised.report.picks.front().change).c_str(),
        plan::describe_effect(advised.first->effect_before, advised.first->effect_after).c_str());
}

}  // namespace

base::Status run_advise(const PlanArguments& a, const lab::PlanSession& session) {
    if (a.advise < 1 || a.advise > 20) return base::invalid("--advise: expected 1 to 20 purchases");
    TRY(const lab::Advised advised, lab::answer_advise(session, a.advise, a.current));
    if (!a.json) {
        show_advice(advised);
        return base::Ok{};
    }
    const plan::AdviceReport& report = advised.report;
    ordered_json out = {{"tokens_per_s", report.tokens_per_s},
                        {"picks", advice_json(report.picks)},
                        {"ranked", advice_json(report.ranked)},
                        {"skipped", report.skipped},
                        {"stopped", report.stopped}};
    if (advised.first) {
        out["in_full"] = {{"change", plan::to_string(report.picks.front().change)},
                          {"before", effect_json(advised.first->effect_before)},
                          {"after", effect_json(advised.first->effect_after)}};
    }
    std::printf("%s\n", out.dump().c_str());
    return base::Ok{};
}

}  // namespace helix::cli
