#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/types.h"
#include "spec/placement.h"

namespace helix::core {

// May this worker run these layers for the request that is being routed?
using StageFits = std::function<bool(WorkerId, LayerRange)>;

// Picks a pipeline per request: at every hop interleaved weighted round robin over the out-edges,
// weight = planned flow (FEATURES H13, H14), over those next workers only from which the end can be
// reached through stages that fit: no dead end is ever entered. A stage runs all its worker's
// layers that are not run yet.
//
// Promises: the stages of a returned pipeline concatenate to exactly [0, L); over many requests the
// share of an edge among its node's edges goes to its share of the flow when every stage fits.
class PipelineRouter {
  public:
    struct Node {
        WorkerId worker;
        LayerRange layers;
    };
    // flows: node indices are indices into nodes, kCoordinator is the coordinator. Edges that
    // cannot be part of a pipeline (FEATURES H3) or carry no flow are left out.
    PipelineRouter() = default;
    PipelineRouter(std::int32_t n_layers, std::vector<Node> nodes,
                   const std::vector<spec::LinkFlow>& flows);

    // A pipeline for a request of that weight (its prompt tokens); empty when none fits now.
    Pipeline route(double weight, const StageFits& fits);
    // One more token went round this pipeline: load on its edges (FEATURES H14).
    void add_load(const Pipeline& pipeline, double weight);

    const std::vector<Node>& nodes() const { return nodes_; }
    // Stages of the shortest pipeline; 0 when there is none.
    std::int32_t min_depth() const;
    // Is there any pipeline all of whose stages fit?
    bool reachable(const StageFits& fits) const;

  private:
    struct Edge {
        std::int32_t to = 0;  // index into nodes_, or kEnd
        double flow = 0;
        double load = 0;  // routed weight / flow
    };
    static constexpr std::int32_t kEnd = -2;

    std::vector<Edge>& edges_from(std::int32_t node);
    const std::vector<Edge>& edges_from(std::int32_t node) const;
    std::int32_t position_after(std::int32_t node) const;  // first layer not run yet
    // reach[node]: from its end, the end of the model can be reached through fitting stages.
    std::vector<bool> reachability(const StageFits& fits) const;
    bool may_enter(std::int32_t from, const Edge& edge, const StageFits& fits,
                   const std::vector<bool>& reach) const;

    std::int32_t n_layers_ = 0;
    std::vector<Node> nodes_;
    // Nodes by falling end. Ends rise along every edge, so one pass in this order settles what
    // depends on all that comes after a node.
    std::vector<std::int32_t> last_first_;
    std::vector<Edge> from_coordinator_;
    std::vector<std::vector<Edge>> from_node_;
};

}  // namespace helix::core
