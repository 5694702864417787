#include "plan/block_types.h"

#include <algorithm>

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

std::vector<NodeType> node_types(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                                 const CapacityTable& capacities, bool by_region) {
    CHECK(capacities.nodes.size() == cluster.nodes.size());
    std::vector<NodeType> types;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        NodeType type = type_of(cluster.nodes[i], model, capacities.nodes[i]);
        if (type.most() < 1) continue;
        if (by_region) type.region = cluster.nodes[i].region;
        const auto same = [&](const NodeType& known) {
            return known.region == type.region && known.tokens_per_s == type.tokens_per_s &&
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

}  // namespace helix::plan
