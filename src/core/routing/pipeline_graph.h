#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/protocol/types.h"
#include "spec/placement.h"

namespace helix::core {

// Says whether this worker may run these layers for the request that is being routed.
using StageFits = std::function<bool(WorkerId, LayerRange)>;

struct PipelineNode {
    WorkerId worker;
    LayerRange layers;  // that it holds; empty = it takes no part
};

// A planned flow of no more tokens/s than this counts as none.
inline constexpr double kMinFlow = 1e-9;

// A link that a request may take. from, to: indices into the graph's nodes, or kCoordinator.
struct PipelineEdge {
    std::int32_t from = spec::kCoordinator;
    std::int32_t to = spec::kCoordinator;
    double flow_tokens_per_s = 0;      // planned; 0 = the plan does not use it
    double bandwidth_bytes_per_s = 0;  // 0 = not known
    double latency_s = 0;
};

// A request's way as edge indices, from the coordinator to the coordinator; empty = none.
using Path = std::vector<std::int32_t>;

// PipelineGraph has the ways that requests can take through a placement. A stage runs all its
// worker's layers that are not run yet, so what a stage runs follows from the edge into it.
//
// It promises that every path's stages concatenate to exactly [0, L).
class PipelineGraph {
  public:
    PipelineGraph() = default;
    // Edges that cannot be part of a pipeline are left out: the second node's layers must begin no
    // later than where the first one's end, and must end after it. Of several edges between the
    // same two nodes the first stays, with the flow of all.
    PipelineGraph(std::int32_t n_layers, std::vector<PipelineNode> nodes,
                  const std::vector<PipelineEdge>& edges);
    // Returns the same nodes with only the edges that the plan uses.
    PipelineGraph planned() const;

    std::int32_t n_layers() const { return n_layers_; }
    const std::vector<PipelineNode>& nodes() const { return nodes_; }
    const std::vector<PipelineEdge>& edges() const { return edges_; }
    const PipelineEdge& edge(std::int32_t e) const { return edges_[static_cast<std::size_t>(e)]; }
    // Returns the edges out of a node or of kCoordinator, in the order they were given.
    const std::vector<std::int32_t>& out(std::int32_t node) const {
        return out_[static_cast<std::size_t>(node + 1)];
    }
    // Returns node indices by falling end. Ends rise along every edge, so in this order whatever a
    // pipeline meets after a node comes before that node.
    const std::vector<std::int32_t>& last_first() const { return last_first_; }
    // Returns the index of the worker's node, or -1 for a worker that is not here.
    std::int32_t node_of(WorkerId worker) const;

    // Returns what the edge's head runs for a request that comes over it. It is not for an edge
    // that ends a pipeline.
    Stage stage(const PipelineEdge& edge) const;
    // Says whether these edges join, from the coordinator to the coordinator.
    bool is_path(const Path& path) const;
    // Needs is_path(path).
    Pipeline pipeline(const Path& path) const;
    // Returns the pipeline's edges; empty if the pipeline is no way through this graph.
    Path path(const Pipeline& pipeline) const;

    // Returns the stages of the shortest pipeline; 0 when there is none.
    std::int32_t min_depth() const;
    // Says whether there is a pipeline all of whose stages fit.
    bool reachable(const StageFits& fits) const;

  private:
    std::int32_t position_after(std::int32_t node) const;  // the first layer not run yet
    bool possible(const PipelineEdge& edge) const;

    std::int32_t n_layers_ = 0;
    std::vector<PipelineNode> nodes_;
    std::vector<PipelineEdge> edges_;
    std::vector<std::vector<std::int32_t>> out_ = {{}};  // by node + 1
    std::vector<std::int32_t> last_first_;
    std::vector<std::int32_t> node_of_worker_;  // by worker id
};

// LookAhead says which edges a request may take so that it never meets a dead end: those whose
// stage fits and from whose head the end can be reached through stages that fit. It is good for one
// request, because it remembers what it has found. Graph and fits must outlive it.
class LookAhead {
  public:
    LookAhead(const PipelineGraph& graph, const StageFits& fits);
    bool open(std::int32_t edge);

  private:
    enum class Reach : char { unknown, yes, no };
    bool leads_to_end(std::int32_t node);

    const PipelineGraph& graph_;
    const StageFits& fits_;
    std::vector<Reach> reach_;  // by node
};

}  // namespace helix::core
