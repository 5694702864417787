#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/flow/target_flow.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"

namespace helix::plan {

// The maximum flow of many placements of one problem, by the cheapest way that is exact.
// Where no link can bind (each carries more than its ends compute) and partial inference is
// allowed, the flow is the smallest sum of T over the holders of a layer: a set of nodes cuts all
// pipelines exactly if the others leave a layer uncovered. Without partial inference it is a flow
// over the layer boundaries. Otherwise the full graph is solved.
class Evaluator {
  public:
    // The referenced objects must outlive this one.
    Evaluator(const Problem& problem, const FlowOptions& options);

    double flow(std::span<const spec::LayerRange> layers) const;
    // Writes the sum of T over the holders of each layer, [L]; the smallest bounds the flow from
    // above.
    void coverage(std::span<const spec::LayerRange> layers, std::vector<double>& per_layer) const;
    // Expected number of stages, from sizes alone: each layer costs 1 / (mean size of its holders).
    double depth_estimate(std::span<const spec::LayerRange> layers) const;
    // The tokens whose KV fits at the layer that has least room for it.
    double least_kv_tokens(std::span<const spec::LayerRange> layers) const;
    bool flow_is_least_coverage() const { return partial_ && !links_bind_; }

    std::int32_t n_layers() const { return problem_.model.n_layers; }
    std::int32_t n_nodes() const {
        return static_cast<std::int32_t>(problem_.capacities.nodes.size());
    }
    const CapacityTable& capacities() const { return problem_.capacities; }
    const NodeCapacity& node(std::int32_t i) const {
        return problem_.capacities.nodes[static_cast<std::size_t>(i)];
    }
    // A TargetFlow of this problem; each user needs one of its own.
    TargetFlow target_flow() const { return {problem_, options_}; }

  private:
    double boundary_flow(std::span<const spec::LayerRange> layers) const;
    double node_limit(std::size_t i, spec::LayerRange range) const;

    Problem problem_;
    const FlowOptions& options_;
    bool partial_;
    bool links_bind_;
    std::vector<double> nic_limit_;  // tokens/s a node's NICs carry
};

}  // namespace helix::plan
