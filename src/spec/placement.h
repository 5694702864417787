#pragma once

#include <cstdint>
#include <vector>

#include "spec/cluster_spec.h"
#include "spec/layer_range.h"

namespace helix::spec {

// Which layers each node holds, parallel to ClusterSpec::nodes. A node with an empty range is left
// out.
struct Placement {
    std::vector<LayerRange> layers;
};

// Tokens per second planned over one directed link.
struct LinkFlow {
    std::int32_t from = kCoordinator;
    std::int32_t to = kCoordinator;
    double tokens_per_s = 0;
};

}  // namespace helix::spec
