#include "plan/change/what_if.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace helix::plan {
namespace {

Effect effect_of(const PlanReport& report) {
    return {
        .flow = report.max_flow_tokens_per_s,
        .bound = report.upper_bound_tokens_per_s,
        .predicted_tokens_per_s = report.prediction ? report.prediction->decode_tokens_per_s : 0.0,
        .mean_depth = report.mean_depth,
        .least_kv_tokens = report.least_kv_tokens};
}

std::string row(const char* label, double before, double after, int digits) {
    const std::string change =
        before > 0 ? fmt::format("{:+.1f} %", 100 * (after / before - 1)) : std::string();
    return fmt::format("{:<24}{:>12.{}f}{:>12.{}f}{:>11}\n", label, before, digits, after, digits,
                       change);
}

}  // namespace

base::Result<WhatIf> what_if(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                             const std::vector<Change>& changes, const CapacityFunction& capacities,
                             const PlanFunction& planner) {
    WhatIf result;
    TRY(result.changed, apply_changes(cluster, changes));
    TRY(const CapacityTable capacities_before, capacities(cluster));
    TRY(const CapacityTable capacities_after, capacities(result.changed.cluster));
    const Problem before = {cluster, model, capacities_before};
    const Problem after = {result.changed.cluster, model, capacities_after};
    auto unchanged = planner(before, nullptr);
    if (!unchanged.ok()) {
        return base::Error{unchanged.error().code,
                           "without the change: " + unchanged.error().message};
    }
    result.before = std::move(*unchanged);
    const spec::Placement start = carry_over(result.before.placement, result.changed.origin);
    TRY(result.after, planner(after, &start));
    result.effect_before = effect_of(result.before);
    result.effect_after = effect_of(result.after);
    return result;
}

std::string describe_effect(const Effect& before, const Effect& after) {
    std::string text = fmt::format("{:<24}{:>12}{:>12}\n", "", "before", "after");
    text += row("flow, tokens/s", before.flow, after.flow, 1);
    text += row("upper bound, tokens/s", before.bound, after.bound, 1);
    if (before.predicted_tokens_per_s > 0 || after.predicted_tokens_per_s > 0) {
        text += row("predicted, tokens/s", before.predicted_tokens_per_s,
                    after.predicted_tokens_per_s, 1);
    }
    text += row("stages a token passes", before.mean_depth, after.mean_depth, 1);
    text += row("KV tokens, scarcest layer", before.least_kv_tokens, after.least_kv_tokens, 0);
    return text;
}

}  // namespace helix::plan
