#include <algorithm>
#include <cstddef>

#include <nlohmann/json.hpp>

#include "lab/planning/served_what_if.h"

namespace helix::lab {
namespace {

using nlohmann::ordered_json;
using Kind = plan::FlowGraph::Kind;

ordered_json latency_json(const sim::LatencySummary& times) {
    if (times.count == 0) return nullptr;
    return {{"mean", times.mean}, {"p50", times.p50}, {"p95", times.p95}};
}

// The minimum cut, machines and links by name.
ordered_json cut_json(const ServedSide& side) {
    const spec::ClusterSpec& cluster = side.problem.cluster;
    ordered_json cut = ordered_json::array();
    for (const plan::FlowGraph::Meaning& part : side.report.min_cut) {
        const auto index = static_cast<std::size_t>(part.index);
        switch (part.kind) {
            case Kind::compute:
                cut.push_back(
                    {{"kind", "machine"}, {"machine", spec::end_name(cluster, part.index)}});
                break;
            case Kind::nic_in:
            case Kind::nic_out:
                cut.push_back({{"kind", part.kind == Kind::nic_in ? "network_in" : "network_out"},
                               {"machine", spec::end_name(cluster, part.index)}});
                break;
            case Kind::coordinator_in:
            case Kind::coordinator_out:
                cut.push_back(
                    {{"kind", part.kind == Kind::coordinator_in ? "network_in" : "network_out"},
                     {"machine", "coordinator"}});
                break;
            case Kind::link:
                cut.push_back({{"kind", "link"},
                               {"from", spec::end_name(cluster, cluster.links[index].from)},
                               {"to", spec::end_name(cluster, cluster.links[index].to)}});
                break;
            case Kind::trunk:
                cut.push_back({{"kind", "trunk"},
                               {"from", cluster.trunks[index].from_region},
                               {"to", cluster.trunks[index].to_region}});
                break;
        }
    }
    return cut;
}

// origin: [node]: today's, or -1 for one that is not there; null: all are there.
ordered_json machines_json(const ServedSide& side, const std::vector<std::int32_t>* origin) {
    const plan::PlanReport& report = side.report;
    ordered_json machines = ordered_json::array();
    for (std::size_t n = 0; n < side.problem.cluster.nodes.size(); ++n) {
        const spec::NodeSpec& node = side.problem.cluster.nodes[n];
        const spec::LayerRange layers =
            n < report.placement.layers.size() ? report.placement.layers[n] : spec::LayerRange{};
        const bool in_cut = std::any_of(report.min_cut.begin(), report.min_cut.end(),
                                        [&](const plan::FlowGraph::Meaning& part) {
                                            return part.kind == Kind::compute &&
                                                   part.index == static_cast<std::int32_t>(n);
                                        });
        machines.push_back(
            {{"name", node.name},
             {"type", node.type},
             {"region", node.region},
             {"is_new", origin != nullptr && (*origin)[n] < 0},
             {"layers", {layers.begin, layers.end}},
             {"flow_tokens_per_s", n < report.node_flow.size() ? report.node_flow[n] : 0},
             {"most_tokens_per_s",
              n < report.node_tokens_per_s.size() ? report.node_tokens_per_s[n] : 0},
             {"in_cut", in_cut}});
    }
    return machines;
}

ordered_json simulated_json(const SimulatedSide& run) {
    return {{"saturated_tokens_per_s", run.saturated_tokens_per_s},
            {"offered_tokens_per_s", run.offered_tokens_per_s},
            {"served_tokens_per_s", run.served_tokens_per_s},
            {"ttft_s", latency_json(run.ttft)},
            {"tpot_s", latency_json(run.tpot)}};
}

ordered_json side_json(const ServedSide& side, const std::vector<std::int32_t>* origin) {
    const plan::PlanReport& report = side.report;
    ordered_json out = {{"max_flow_tokens_per_s", report.max_flow_tokens_per_s},
                        {"upper_bound_tokens_per_s", report.upper_bound_tokens_per_s},
                        {"gap", report.gap},
                        {"proven_optimal", report.proven_optimal},
                        {"method", report.method},
                        {"limited_by", report.min_cut_text},
                        {"min_cut", cut_json(side)},
                        {"mean_depth", report.mean_depth},
                        {"least_kv_tokens", report.least_kv_tokens},
                        {"predicted_tokens_per_s",
                         report.prediction ? report.prediction->decode_tokens_per_s : 0.0},
                        {"alone", nullptr},
                        {"simulated", nullptr},
                        {"machines", machines_json(side, origin)},
                        {"warnings", report.warnings}};
    if (report.alone) {
        out["alone"] = {{"ttft_s", report.alone->ttft_s}, {"tpot_s", report.alone->tpot_s}};
    }
    if (side.simulated) out["simulated"] = simulated_json(*side.simulated);
    if (!side.not_simulated.empty()) out["not_simulated"] = side.not_simulated;
    return out;
}

ordered_json suggestion_json(const plan::Advice& advice) {
    ordered_json out = {{"change", plan::to_string(advice.change)},
                        {"tokens_per_s", advice.tokens_per_s},
                        {"gain_tokens_per_s", advice.gain},
                        {"usd_per_hour", advice.usd_per_hour},
                        {"gain_per_usd_per_hour", advice.gain_per_usd}};
    if (const auto* add = std::get_if<plan::AddMachines>(&advice.change)) {
        out["add"] = add->type;
        out["region"] = add->region;
    }
    return out;
}

// What would put the plan in force with the machines that are there, or why that cannot be.
ordered_json apply_json(const ServedQuestion& question, const ServedAnswer& answer) {
    ordered_json drain = ordered_json::array();
    for (const plan::Change& change : question.changes) {
        if (const auto* removed = std::get_if<plan::RemoveMachine>(&change)) {
            drain.push_back(removed->node);
            continue;
        }
        return {{"possible", false},
                {"reason", "The plan is for what is not there: " + plan::to_string(change) + "."}};
    }
    ordered_json layers = ordered_json::object();
    const spec::ClusterSpec& cluster = answer.what_if.problem.cluster;
    for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
        const spec::LayerRange held = answer.what_if.report.placement.layers[n];
        if (!held.empty()) layers[cluster.nodes[n].name] = {held.begin, held.end};
    }
    return {{"possible", true}, {"layers", layers}, {"drain", drain}};
}

}  // namespace

std::string served_what_if_json(const ServedQuestion& question, const ServedAnswer& answer,
                                double elapsed_s) {
    ordered_json changes = ordered_json::array();
    for (const plan::Change& change : question.changes) changes.push_back(plan::to_string(change));
    ordered_json out = {{"changes", changes},
                        {"seconds", elapsed_s},
                        {"today", side_json(answer.today, nullptr)},
                        {"planned_anew", nullptr},
                        {"what_if", side_json(answer.what_if, &answer.origin)},
                        {"moved_bytes", answer.moves.bytes},
                        {"moved_s", answer.moves.seconds},
                        {"load",
                         {{"mean_prompt_tokens", answer.mean_prompt_tokens},
                          {"mean_output_tokens", answer.mean_output_tokens}}},
                        {"apply", apply_json(question, answer)},
                        {"suggestions", nullptr}};
    if (answer.planned_anew) out["planned_anew"] = side_json(*answer.planned_anew, nullptr);
    if (answer.suggestions) {
        ordered_json ranked = ordered_json::array();
        for (const plan::Advice& advice : answer.suggestions->ranked) {
            ranked.push_back(suggestion_json(advice));
        }
        out["suggestions"] = {{"ranked", ranked},
                              {"tokens_per_s", answer.suggestions->tokens_per_s},
                              {"skipped", answer.suggestions->skipped},
                              {"stopped", answer.suggestions->stopped}};
    }
    return out.dump();
}

}  // namespace helix::lab
