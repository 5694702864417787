#include "plan/problem/node_types.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace helix::plan {
namespace {

NodeType type_of(const spec::NodeSpec& node, const spec::ModelSpec& model,
                 const NodeCapacity& capacity) {
    NodeType type;
    type.max_layers = capacity.max_layers;
    const std::int32_t most = std::min(capacity.most(), model.n_layers);
    for (std::int32_t j = 0; j <= most; ++j) {
        double carried = capacity.tokens_per_s[static_cast<std::size_t>(j)];
        for (const double nic : {node.nic_in_bytes_per_s, node.nic_out_bytes_per_s}) {
            if (nic > 0) {
                carried =
                    std::min(carried, nic / static_cast<double>(model.activation_bytes_per_token));
            }
        }
        type.tokens_per_s.push_back(carried);
    }
    return type;
}

}  // namespace

std::vector<NodeType> node_types(const Problem& problem, const std::vector<std::int32_t>& group) {
    CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size());
    CHECK(group.empty() || group.size() == problem.cluster.nodes.size());
    std::vector<NodeType> types;
    for (std::size_t i = 0; i < problem.cluster.nodes.size(); ++i) {
        NodeType type =
            type_of(problem.cluster.nodes[i], problem.model, problem.capacities.nodes[i]);
        if (type.most() < 1) continue;
        if (!group.empty()) type.group = group[i];
        const auto same = [&](const NodeType& known) {
            return known.group == type.group && known.tokens_per_s == type.tokens_per_s &&
                   known.max_layers == type.max_layers;
        };
        auto found = std::find_if(types.begin(), types.end(), same);
        if (found == types.end()) {
            types.push_back(std::move(type));
            found = types.end() - 1;
        }
        found->nodes.push_back(static_cast<std::int32_t>(i));
    }
    return types;
}

std::vector<std::int32_t> link_groups(const spec::ClusterSpec& cluster,
                                      const spec::ModelSpec& model, double tokens_per_s) {
    const auto bytes = static_cast<double>(model.activation_bytes_per_token);
    const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
    std::vector<std::int32_t> parent(cluster.nodes.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](std::int32_t i) {
        while (parent[at(i)] != i) i = parent[at(i)] = parent[at(parent[at(i)])];
        return i;
    };
    for (const spec::LinkSpec& link : cluster.links) {
        if (link.from == spec::kCoordinator || link.to == spec::kCoordinator) continue;
        if (link.bandwidth_bytes_per_s / bytes < tokens_per_s) continue;
        const std::int32_t a = root(link.from);
        const std::int32_t b = root(link.to);
        parent[at(std::max(a, b))] = std::min(a, b);
    }
    std::vector<std::int32_t> group(parent.size());
    std::int32_t groups = 0;
    for (std::int32_t i = 0; at(i) < parent.size(); ++i)
        group[at(i)] = root(i) == i ? groups++ : group[at(root(i))];
    return group;
}

}  // namespace helix::plan
