#include "plan/problem/roles.h"

#include <algorithm>

#include "base/index.h"

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::NodeRole;
using spec::Placement;

using Links = std::vector<std::pair<std::int32_t, std::int32_t>>;

using base::at;

constexpr std::int32_t kOutside = -2;

RolePart part_of(const ClusterSpec& cluster, bool prefill) {
    RolePart part;
    part.cluster = cluster;
    part.cluster.name += prefill ? " (prefill)" : " (decode)";
    part.cluster.nodes.clear();
    part.cluster.links.clear();
    std::vector<std::int32_t> index(cluster.nodes.size() + 1, kOutside);  // [node + 1]
    index[0] = spec::kCoordinator;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        if ((cluster.nodes[i].role == NodeRole::prefill) != prefill) continue;
        index[i + 1] = static_cast<std::int32_t>(part.origin.size());
        part.origin.push_back(static_cast<std::int32_t>(i));
        part.cluster.nodes.push_back(cluster.nodes[i]);
        part.cluster.nodes.back().role = NodeRole::both;  // among themselves they are alike
    }
    for (spec::LinkSpec link : cluster.links) {
        link.from = index[static_cast<std::size_t>(link.from + 1)];
        link.to = index[static_cast<std::size_t>(link.to + 1)];
        if (link.from != kOutside && link.to != kOutside) part.cluster.links.push_back(link);
    }
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

std::vector<RolePart> role_parts(const ClusterSpec& cluster) {
    const auto prefill = std::count_if(cluster.nodes.begin(), cluster.nodes.end(),
                                       [](const auto& n) { return n.role == NodeRole::prefill; });
    if (prefill == 0 || prefill == static_cast<std::ptrdiff_t>(cluster.nodes.size())) return {};
    return {part_of(cluster, true), part_of(cluster, false)};
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

Links links_of_part(const Links& links, const RolePart& part) {
    const auto index = [&](std::int32_t node) {
        const auto it = std::find(part.origin.begin(), part.origin.end(), node);
        return it == part.origin.end() ? spec::kCoordinator
                                       : static_cast<std::int32_t>(it - part.origin.begin());
    };
    Links own;
    for (const auto& [from, to] : links) {
        const bool known_from = from == spec::kCoordinator || index(from) != spec::kCoordinator;
        const bool known_to = to == spec::kCoordinator || index(to) != spec::kCoordinator;
        if (known_from && known_to) own.emplace_back(index(from), index(to));
    }
    return own;
}

CapacityTable capacities_of_part(const CapacityTable& capacities, const RolePart& part) {
    CapacityTable own;
    for (const std::int32_t i : part.origin) own.nodes.push_back(capacities.nodes[at(i)]);
    return own;
}

Placement placement_of_part(const Placement& placement, const RolePart& part) {
    Placement own;
    for (const std::int32_t i : part.origin) own.layers.push_back(placement.layers[at(i)]);
    return own;
}

}  // namespace helix::plan
