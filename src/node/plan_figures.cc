#include "node/plan_figures.h"

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace helix::node {
namespace {

using plan::FlowGraph;
using CutKind = api::PlanFigures::CutKind;

std::size_t index_at(std::int32_t index) {
    return static_cast<std::size_t>(index);
}

std::int32_t end_of_link(std::int32_t node, const std::vector<core::WorkerId>& workers) {
    if (node == spec::kCoordinator) return node;
    return static_cast<std::int32_t>(workers[index_at(node)].value);
}

api::PlanFigures::CutPart cut_part(const FlowGraph::Meaning& edge, const spec::ClusterSpec& cluster,
                                   const std::vector<core::WorkerId>& workers) {
    api::PlanFigures::CutPart part;
    switch (edge.kind) {
        case FlowGraph::Kind::compute:
            part.from = end_of_link(edge.index, workers);
            break;
        case FlowGraph::Kind::nic_in:
        case FlowGraph::Kind::coordinator_in:
            part.kind = CutKind::network_in;
            part.from = end_of_link(edge.index, workers);
            break;
        case FlowGraph::Kind::nic_out:
        case FlowGraph::Kind::coordinator_out:
            part.kind = CutKind::network_out;
            part.from = end_of_link(edge.index, workers);
            break;
        case FlowGraph::Kind::link: {
            const spec::LinkSpec& link = cluster.links[index_at(edge.index)];
            part.kind = CutKind::link;
            part.from = end_of_link(link.from, workers);
            part.to = end_of_link(link.to, workers);
            break;
        }
        case FlowGraph::Kind::trunk: {
            const spec::TrunkSpec& trunk = cluster.trunks[index_at(edge.index)];
            part.kind = CutKind::trunk;
            part.from_region = trunk.from_region;
            part.to_region = trunk.to_region;
            break;
        }
    }
    return part;
}

}  // namespace

api::PlanFigures plan_figures_of(const plan::PlanReport& report, const spec::ClusterSpec& cluster,
                                 const std::vector<core::WorkerId>& workers) {
    CHECK(workers.size() == cluster.nodes.size());
    api::PlanFigures figures;
    figures.method = report.method;
    figures.max_flow_tokens_per_s = report.max_flow_tokens_per_s;
    figures.upper_bound_tokens_per_s = report.upper_bound_tokens_per_s;
    figures.gap = report.gap;
    figures.proven_optimal = report.proven_optimal;
    figures.limited_by = report.min_cut_text;
    // A plan that somebody made by hand may say nothing of its nodes.
    const bool knows = report.node_flow.size() == workers.size() &&
                       report.node_tokens_per_s.size() == workers.size();
    for (std::size_t i = 0; knows && i < workers.size(); ++i) {
        if (report.placement.layers[i].empty()) continue;
        figures.nodes.push_back({workers[i], report.node_tokens_per_s[i], report.node_flow[i]});
    }
    for (const FlowGraph::Meaning& edge : report.min_cut) {
        figures.cut.push_back(cut_part(edge, cluster, workers));
    }
    return figures;
}

}  // namespace helix::node
