#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spec/cluster_spec.h"
#include "spec/layer_range.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

// What it takes to get from one placement to another.

namespace helix::plan {

struct NodeMove {
    std::int32_t node = 0;
    spec::LayerRange before;
    spec::LayerRange after;
    std::int32_t loaded = 0;   // layers it has to get
    std::int32_t dropped = 0;  // layers it gives up, with the KV of their sequences
    std::int64_t bytes = 0;    // of what it has to get; embedding and head included
    double seconds = 0;        // to get it; 0 when nothing is known of speeds
};

struct PlacementDiff {
    std::vector<NodeMove> moves;  // nodes whose layers change, by index
    std::int64_t bytes = 0;
    std::int64_t kv_layers = 0;  // dropped, summed over nodes
    double seconds = 0;          // nodes load side by side: the slowest
};

std::int64_t bytes_to_load(const spec::ModelSpec& model, spec::LayerRange before,
                           spec::LayerRange after);

// disk_bytes_per_s: what each node reads from its own copy of the model, 0 = it has none. Over the
// network a node loads from the coordinator or from a node that held one of the layers, whichever
// link is fastest, and no faster than its NIC; the faster of disk and network counts.
PlacementDiff placement_diff(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                             const spec::Placement& before, const spec::Placement& after,
                             double disk_bytes_per_s);

// A line for each node that changes, and a sum: "node7  layers 0-11 -> 4-15  loads 4 (6.12 GB, 6.1
// s), drops 4".
std::string describe_diff(const spec::ClusterSpec& cluster, const PlacementDiff& diff);

}  // namespace helix::plan
