#include "plan/roles.h"

#include <fmt/format.h>

#include <algorithm>

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::NodeRole;
using spec::Placement;

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

std::string names(const RolePart& part) {
    constexpr std::size_t kMost = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(kMost, part.cluster.nodes.size()); ++i) {
        text += (text.empty() ? "" : ", ") + part.cluster.nodes[i].name;
    }
    if (part.cluster.nodes.size() <= kMost) return text;
    return fmt::format("{} and {} more", text, part.cluster.nodes.size() - kMost);
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

RolePlans plan_parts(const std::vector<RolePart>& parts, const PlanPart& plan_part) {
    RolePlans made;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        auto report = plan_part(parts[p], static_cast<int>(p));
        if (report.ok() && report->max_flow_tokens_per_s > 0) {
            made.reports.push_back(std::move(*report));
            continue;
        }
        const std::string why = report.ok() ? "no pipeline connects them" : report.error().message;
        made.reports.clear();
        made.warnings.push_back(
            fmt::format("roles are not kept: the machines that {} ({}) cannot hold the model by "
                        "themselves: {}. "
                        "All machines are planned together and compute prompts and what follows",
                        p == 0 ? "prefill" : "may decode", names(parts[p]), why));
        return made;
    }
    return made;
}

Placement join_placements(const std::vector<RolePart>& parts,
                          const std::vector<PlanReport>& reports, std::size_t n_nodes) {
    Placement all;
    all.layers.resize(n_nodes);
    for (std::size_t p = 0; p < parts.size(); ++p) {
        for (std::size_t i = 0; i < parts[p].origin.size(); ++i) {
            all.layers[static_cast<std::size_t>(parts[p].origin[i])] =
                reports[p].placement.layers[i];
        }
    }
    return all;
}

std::vector<spec::LinkFlow> join_flows(const std::vector<RolePart>& parts,
                                       const std::vector<PlanReport>& reports) {
    std::vector<spec::LinkFlow> all;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const auto whole = [&](std::int32_t node) {
            return node == spec::kCoordinator ? node
                                              : parts[p].origin[static_cast<std::size_t>(node)];
        };
        for (spec::LinkFlow flow : reports[p].flows) {
            flow.from = whole(flow.from);
            flow.to = whole(flow.to);
            all.push_back(flow);
        }
    }
    return all;
}

}  // namespace helix::plan
