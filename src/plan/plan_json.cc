#include "plan/plan_json.h"

#include <nlohmann/json.hpp>

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
    }
    return nodes;
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
    out["mean_depth"] = report.mean_depth;
    out["least_kv_tokens"] = report.least_kv_tokens;
    out["seconds"] = seconds;
    out["limited_by"] = report.min_cut_text;
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
