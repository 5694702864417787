#include "lab/planning/change_report.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "plan/change/placement_diff.h"
#include "plan/change/what_if.h"
#include "plan/report/plan_json.h"

namespace helix::lab {
namespace {

using nlohmann::ordered_json;

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

ordered_json purchases_json(const std::vector<plan::Advice>& advice) {
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

}  // namespace

base::Result<std::vector<plan::Change>> parse_changes(const ChangeWords& words) {
    std::vector<plan::Change> changes;
    for (const std::string& text : words.add) {
        TRY(plan::Change change, plan::parse_add(text));
        changes.push_back(std::move(change));
    }
    for (const std::string& text : words.remove) {
        TRY(plan::Change change, plan::parse_remove(text));
        changes.push_back(std::move(change));
    }
    for (const std::string& text : words.link) {
        TRY(plan::Change change, plan::parse_link(text));
        changes.push_back(std::move(change));
    }
    for (const std::string& text : words.upgrade) {
        TRY(plan::Change change, plan::parse_upgrade(text));
        changes.push_back(std::move(change));
    }
    return changes;
}

std::string what_if_json(const std::vector<plan::Change>& changes, const WhatIfAnswer& answer,
                         double elapsed_s) {
    const plan::WhatIf& plans = answer.plans;
    const ordered_json out = {
        {"changes", changes_text(changes)},
        {"before", effect_json(plans.effect_before)},
        {"after", effect_json(plans.effect_after)},
        {"plan", ordered_json::parse(plan::plan_to_json(answer.after.cluster, answer.after.model,
                                                        plans.after, elapsed_s))}};
    return out.dump();
}

std::string what_if_text(const std::vector<plan::Change>& changes, const WhatIfAnswer& answer) {
    return fmt::format(
        "\n{}\n{}", changes_text(changes),
        plan::describe_effect(answer.plans.effect_before, answer.plans.effect_after));
}

std::string replan_json(const ReplanAnswer& answer, double elapsed_s) {
    const std::vector<double>& flows = answer.flows_before;
    ordered_json out = ordered_json::parse(
        plan::plan_to_json(answer.problem.cluster, answer.problem.model, answer.report, elapsed_s));
    out["moved_bytes"] = answer.diff.bytes;
    out["moved_s"] = answer.diff.seconds;
    out["dropped_kv_layers"] = answer.diff.kv_layers;
    out["flow_without_moves"] = std::accumulate(flows.begin(), flows.end(), 0.0);
    return out.dump();
}

std::string replan_text(const ReplanAnswer& answer) {
    const std::vector<double>& flows = answer.flows_before;
    const std::string before =
        flows.size() == 1
            ? fmt::format("\nwithout moving anything: {:.0f} tokens/s\n", flows[0])
            : fmt::format(
                  "\nwithout moving anything: {:.0f} tokens/s through the machines for "
                  "prompts, {:.0f} through those that decode\n",
                  flows[0], flows[1]);
    return before + plan::describe_diff(answer.problem.cluster, answer.diff);
}

std::string advice_json(const Advised& advised) {
    const plan::AdviceReport& report = advised.report;
    ordered_json out = {{"tokens_per_s", report.tokens_per_s},
                        {"picks", purchases_json(report.picks)},
                        {"ranked", purchases_json(report.ranked)},
                        {"skipped", report.skipped},
                        {"stopped", report.stopped}};
    if (advised.first) {
        out["in_full"] = {{"change", plan::to_string(report.picks.front().change)},
                          {"before", effect_json(advised.first->effect_before)},
                          {"after", effect_json(advised.first->effect_after)}};
    }
    return out.dump();
}

std::string advice_text(const Advised& advised) {
    std::string text = plan::describe_advice(advised.report);
    if (!advised.first) return text;
    return text + fmt::format("\n{}, both planned in full\n{}",
                              plan::to_string(advised.report.picks.front().change),
                              plan::describe_effect(advised.first->effect_before,
                                                    advised.first->effect_after));
}

}  // namespace helix::lab
