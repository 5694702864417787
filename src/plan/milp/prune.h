#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "spec/cluster_spec.h"

namespace helix::plan {

struct PruneOptions {
    std::int32_t min_keep = 12;  // of each node, and of the coordinator in each direction
    std::int32_t max_keep = 12;  // beyond min_keep only links of threshold or more
    double threshold_bytes_per_s = 0;
};

// The paper's first speed-up of its program: every node keeps its fastest links to other nodes; a
// link stays, both ways, if either end keeps it. The coordinator keeps its fastest links out and
// in. Equal links are taken by name ("link-3-17", smaller node first) in reverse alphabetical
// order, as the published plans had it: in a uniform network what survives is arbitrary. A link
// whose directions differ counts as its slower one. `keep`: (from, to) that stay besides, both ways
// between nodes: what a known placement needs. Result: (from, to), ascending.
std::vector<std::pair<std::int32_t, std::int32_t>> prune_links(
    const spec::ClusterSpec& cluster, const PruneOptions& options,
    const std::vector<std::pair<std::int32_t, std::int32_t>>& keep = {});

}  // namespace helix::plan
