#include "plan/problem/roles.h"

#include <algorithm>

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::NodeRole;
using spec::Placement;

ClusterPart part_of_role(const ClusterSpec& cluster, bool prefill) {
    std::vector<bool> keep;
    for (const spec::NodeSpec& node : cluster.nodes)
        keep.push_back((node.role == NodeRole::prefill) == prefill);
    ClusterPart part = part_of(cluster, keep);
    part.cluster.name += prefill ? " (prefill)" : " (decode)";
    for (spec::NodeSpec& node : part.cluster.nodes)
        node.role = NodeRole::both;  // among themselves they are alike
    return part;
}

bool covers(const ClusterSpec& cluster, std::int32_t n_layers, const Placement& placement,
            bool prefill) {
    std::vector<bool> held(static_cast<std::size_t>(n_layers), false);
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        if ((cluster.nodes[i].role == NodeRole::prefill) != prefill) continue;
        for (std::int32_t l = placement.layers[i].begin; l < placement.layers[i].end; ++l)
            held[static_cast<std::size_t>(l)] = true;
    }
    return std::find(held.begin(), held.end(), false) == held.end();
}

}  // namespace

std::vector<ClusterPart> role_parts(const ClusterSpec& cluster) {
    const auto prefill = std::count_if(cluster.nodes.begin(), cluster.nodes.end(),
                                       [](const auto& n) { return n.role == NodeRole::prefill; });
    if (prefill == 0 || prefill == static_cast<std::ptrdiff_t>(cluster.nodes.size())) return {};
    return {part_of_role(cluster, true), part_of_role(cluster, false)};
}

bool keeps_roles(const ClusterSpec& cluster, const spec::ModelSpec& model,
                 const Placement& placement) {
    const bool any = std::any_of(cluster.nodes.begin(), cluster.nodes.end(),
                                 [](const auto& node) { return node.role == NodeRole::prefill; });
    return any && covers(cluster, model.n_layers, placement, true) &&
           covers(cluster, model.n_layers, placement, false);
}

std::vector<std::string> role_warnings(const ClusterSpec& cluster) {
    const auto all = [&](NodeRole role) {
        return !cluster.nodes.empty() &&
               std::all_of(cluster.nodes.begin(), cluster.nodes.end(),
                           [&](const auto& node) { return node.role == role; });
    };
    if (all(NodeRole::prefill)) {
        return {
            "roles are not kept: every machine is for prompts (prefill), so all of them decode, "
            "too"};
    }
    if (all(NodeRole::decode)) {
        return {
            "roles are not kept: every machine is for decoding, so all of them compute prompts, "
            "too"};
    }
    return {};
}

}  // namespace helix::plan
