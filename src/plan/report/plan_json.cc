#include "plan/report/plan_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/losses/takeover_bound.h"

namespace helix::plan {
namespace {

using nlohmann::ordered_json;

std::string end_name(std::int32_t node, const char* coordinator) {
    return node == spec::kCoordinator ? coordinator : std::to_string(node);
}

ordered_json nodes_json(const spec::ClusterSpec& cluster, const PlanReport& report) {
    ordered_json nodes = ordered_json::array();
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        const spec::LayerRange range = report.placement.layers[i];
        nodes.push_back({{"id", std::to_string(i)},
                         {"name", cluster.nodes[i].name},
                         {"type", cluster.nodes[i].type},
                         {"region", cluster.nodes[i].region},
                         {"layers", range.empty() ? ordered_json()
                                                  : ordered_json::array({range.begin, range.end})},
                         {"capacity_tokens_per_s", report.node_tokens_per_s[i]},
                         {"flow_tokens_per_s", report.node_flow[i]}});
        if (!report.placement.roles.empty())
            nodes.back()["role"] = spec::to_string(report.placement.roles[i]);
    }
    return nodes;
}

ordered_json prediction_json(const PlanReport& report) {
    const Prediction& seen = *report.prediction;
    return {{"decode_tokens_per_s", seen.decode_tokens_per_s},
            {"prompt_tokens_per_s", seen.prompt_tokens_per_s},
            {"ttft_s", seen.ttft_s},
            {"tpot_s", seen.tpot_s},
            {"resident_requests", seen.resident},
            {"limited_by", report.limit_text}};
}

ordered_json delivered_json(const PlanReport& report) {
    const DeliveredBound& bound = *report.delivered_bound;
    ordered_json out = {{"tokens_per_s", bound.tokens_per_s},
                        {"compute_tokens_per_s", bound.compute_tokens_per_s},
                        {"unlinked_tokens_per_s", bound.unlinked_tokens_per_s},
                        {"travel_s", bound.travel_s},
                        {"limited_by", to_string(bound.binds)}};
    if (report.judged_tokens_per_s > 0)
        out["gap"] = std::max(0.0, 1 - report.judged_tokens_per_s / bound.tokens_per_s);
    return out;
}

ordered_json takeover_json() {
    const TakeoverRule rule;
    return {{"bound_s", takeover_bound_s(rule)}, {"detection_s", rule.detection_s},
            {"restart_s", rule.restart_s},       {"start_s", rule.start_s},
            {"search_s", search_s(rule)},        {"settle_s", rule.settle_s}};
}

ordered_json stalls_json(const PlanReport& report) {
    ordered_json losses = ordered_json::array();
    for (const Stall& stall : report.stalls) {
        ordered_json one = {{"part", stall.part}, {"whole_without_it", stall.whole}};
        one["bound_s"] = stall.possible ? ordered_json(stall.bound_s()) : ordered_json();
        one["detection_s"] = stall.detection_s;
        one["replacement_s"] = stall.replacement_s;
        one["recompute_s"] = stall.recompute_s;
        losses.push_back(std::move(one));
    }
    return {{"context_tokens", StallRule().context_tokens},
            {"losses", std::move(losses)},
            {"coordinator", takeover_json()}};
}

ordered_json loss_json(const Loss& loss) {
    return {{"part", loss.part}, {"tokens_per_s", loss.tokens_per_s}, {"share", loss.share}};
}

ordered_json pareto_json(const PlanReport& report) {
    ordered_json rows = ordered_json::array();
    for (const PlanReport::Choice& choice : report.pareto) {
        rows.push_back({{"flow_tokens_per_s", choice.merits.flow_tokens_per_s},
                        {"decode_tokens_per_s", choice.merits.decode_tokens_per_s},
                        {"judged_tokens_per_s", choice.judged_tokens_per_s},
                        {"mean_depth", choice.merits.depth},
                        {"kv_tokens", choice.merits.kv_tokens},
                        {"worst_loss_share", choice.merits.worst_loss_share},
                        {"chosen", choice.chosen}});
    }
    return rows;
}

// JSON has no infinity.
ordered_json finite(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json();
}

ordered_json milp_json(const MilpReport& milp) {
    ordered_json incumbents = ordered_json::array();
    for (const MilpIncumbent& incumbent : milp.incumbents) {
        incumbents.push_back({incumbent.tokens_per_s, incumbent.seconds});
    }
    return {{"solver", milp.solver},
            {"status", mip::to_string(milp.status)},
            {"objective", milp.objective},
            {"max_flow_tokens_per_s", milp.max_flow},
            {"agrees", milp.agrees()},
            {"best_after_s", milp.best_after_s()},
            {"bound", finite(milp.bound)},
            {"rows", milp.rows},
            {"columns", milp.columns},
            {"links", milp.links},
            {"all_links", milp.all_links},
            {"nodes", milp.nodes},
            {"start_given", milp.start_given},
            {"start_method", milp.start_method},
            {"start_used", milp.start_used},
            {"start_flow_tokens_per_s", milp.start_flow},
            {"start_note", milp.start_note},
            {"stopped_by", to_string(milp.stop_reason)},
            {"incumbents", std::move(incumbents)},
            {"seconds", milp.seconds}};
}

}  // namespace

std::string plan_to_json(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                         const PlanReport& report, double seconds) {
    ordered_json out;
    out["cluster"] = cluster.name;
    out["model"] = model.name;
    out["method"] = report.method;
    out["num_layers"] = model.n_layers;
    out["max_flow_tokens_per_s"] = report.max_flow_tokens_per_s;
    out["upper_bound_tokens_per_s"] = report.upper_bound_tokens_per_s;
    out["gap"] = report.gap;
    out["proven_optimal"] = report.proven_optimal;
    out["bounds"] = {{"paper", report.bounds.paper},
                     {"capped", report.bounds.capped},
                     {"configuration", report.upper_bound_tokens_per_s}};
    out["mean_depth"] = report.mean_depth;
    out["least_kv_tokens"] = report.least_kv_tokens;
    out["seconds"] = seconds;
    out["limited_by"] = report.min_cut_text;
    if (report.prediction) out["predicted"] = prediction_json(report);
    if (report.alone) {
        out["alone"] = {{"ttft_s", report.alone->ttft_s},
                        {"tpot_s", report.alone->tpot_s},
                        {"requests", report.alone->requests}};
    }
    if (report.judged_plans > 0) {
        out["judged"] = {{"decode_tokens_per_s", report.judged_tokens_per_s},
                         {"plans", report.judged_plans}};
    }
    out["policy"] = report.policy;
    if (report.kv_type) out["kv_type"] = spec::to_string(*report.kv_type);
    if (report.delivered_bound) out["delivered_bound"] = delivered_json(report);
    out["after_worst_loss"] = {{"machine", loss_json(report.robustness.machine)},
                               {"link", loss_json(report.robustness.link)}};
    out["stall_after_loss"] = stalls_json(report);
    if (!report.pareto.empty()) out["pareto"] = pareto_json(report);
    if (report.milp) out["milp"] = milp_json(*report.milp);
    if (!report.warnings.empty()) out["warnings"] = report.warnings;
    if (!report.notes.empty()) out["notes"] = report.notes;
    ordered_json layers = ordered_json::object();
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        const spec::LayerRange range = report.placement.layers[i];
        layers[std::to_string(i)] =
            range.empty() ? ordered_json() : ordered_json::array({range.begin, range.end});
    }
    out["layers"] = std::move(layers);
    out["nodes"] = nodes_json(cluster, report);
    ordered_json flows = ordered_json::array();
    for (const spec::LinkFlow& flow : report.flows) {
        flows.push_back({{"from", end_name(flow.from, "source")},
                         {"to", end_name(flow.to, "sink")},
                         {"tokens_per_s", flow.tokens_per_s}});
    }
    out["flows"] = std::move(flows);
    return out.dump();
}

}  // namespace helix::plan
