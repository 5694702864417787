#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/problem/problem.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

namespace helix::plan {

// Nodes that no formula can tell apart: bounds and block packing count types, not nodes, so their
// size does not grow with the cluster.
struct NodeType {
    // [j]: what one node carries with j layers, its NICs included (activations both ways); [0] = 0.
    std::vector<double> tokens_per_s;
    std::array<std::array<std::int32_t, 2>, 2> max_layers{};  // as NodeCapacity::max_layers
    std::int32_t group = 0;           // of link_groups(), where types are told apart by it
    std::vector<std::int32_t> nodes;  // indices into ClusterSpec::nodes, ascending

    std::int32_t most() const { return static_cast<std::int32_t>(tokens_per_s.size()) - 1; }
    std::int32_t count() const { return static_cast<std::int32_t>(nodes.size()); }
    double throughput(std::int32_t layers) const {
        return tokens_per_s[static_cast<std::size_t>(layers)];
    }
};

// The types in order of their first node; nodes that can hold no layer are left out. With `group`
// ([node]) nodes of different groups are different types.
std::vector<NodeType> node_types(const Problem& problem,
                                 const std::vector<std::int32_t>& group = {});

// [node]: which group it is in, numbered from 0 in order of first nodes. Groups are what links of
// at least `tokens_per_s` connect, in either direction.
std::vector<std::int32_t> link_groups(const spec::ClusterSpec& cluster,
                                      const spec::ModelSpec& model, double tokens_per_s);

}  // namespace helix::plan
