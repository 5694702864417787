#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spec/cluster_spec.h"
#include "spec/layer_range.h"

namespace helix::spec {

// Which layers each node holds, parallel to ClusterSpec::nodes. A node with an empty range is left
// out.
struct Placement {
    std::vector<LayerRange> layers;
    // What the nodes are to compute, whatever they were started for; parallel to layers. Empty:
    // what NodeSpec::role says.
    std::vector<NodeRole> roles = {};
};

// For a cluster of so many nodes; further ones are left out.
inline void resize_placement(Placement& placement, std::size_t n_nodes) {
    placement.layers.resize(n_nodes);
    if (!placement.roles.empty()) placement.roles.resize(n_nodes);
}

// Tokens per second planned over one directed link.
struct LinkFlow {
    std::int32_t from = kCoordinator;
    std::int32_t to = kCoordinator;
    double tokens_per_s = 0;
};

}  // namespace helix::spec
