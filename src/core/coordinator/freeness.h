#pragma once

#include <cstdint>
#include <vector>

#include "core/coordinator/virtual_usage.h"
#include "core/routing/pipeline_graph.h"

// This says how free a node is, and a pipeline: F = (M - sum V) / B, the tokens that every sequence
// there can still grow by before the memory is full. The unit is tokens everywhere.
//
// Llumnix has one number per instance, which holds the whole model. Here a request's KV is spread
// over the stages of its pipeline, each running some of its node's layers. So M and V count tokens
// x layers, and B counts the layers that grow by a token in one step of all sequences: their
// quotient is tokens again, whatever share of a node a stage uses. A pipeline is as free as its
// fullest node, since the first stage without a page stops the request.
//
// The plan's weights say how much of the traffic each way is to carry, which is a matter of compute
// and links; freeness is a matter of memory. While all stages have plenty, only the weights decide.
// Among ways whose freeness is alike they decide, too. Freeness rules out ways only where a stage
// is near full.

namespace helix::core {

// NodeLoad is the load of one node, exact in whole numbers.
class NodeLoad {
  public:
    NodeLoad() = default;
    // Both memory, and headroom for requests of high priority, are in tokens x layers.
    NodeLoad(std::int32_t layers, std::int64_t memory, std::int64_t headroom)
        : layers_(layers), memory_(memory), headroom_(headroom) {}

    void add(const Usage& usage) { count(usage, 1); }
    void remove(const Usage& usage) { count(usage, -1); }  // it was added before
    // Adds all that was added to the other.
    void add(const NodeLoad& other) {
        own_ += other.own_;
        batch_ += other.batch_;
        high_ += other.high_;
        draining_ += other.draining_;
    }

    // Returns the freeness in tokens. A node without sequences is treated as if one of all its
    // layers ran there. The result falls with everything that is added. A negative rest is not
    // divided, so that it grows with all that leaves.
    double freeness() const;
    std::int64_t memory() const { return memory_; }
    // Returns the sum of V, of a draining node without the infinite part.
    std::int64_t used() const;
    std::int64_t batch() const { return batch_; }
    bool draining() const { return draining_ > 0; }

  private:
    void count(const Usage& usage, std::int64_t times);

    std::int32_t layers_ = 1;
    std::int64_t memory_ = 0;
    std::int64_t headroom_ = 0;
    std::int64_t own_ = 0;    // of all requests, without headroom
    std::int64_t batch_ = 0;  // layers of running sequences, which grow with each step
    std::int64_t high_ = 0;
    std::int64_t draining_ = 0;
};

// Returns the freeness of the path's fullest node. nodes goes by index in the graph.
double freeness(const PipelineGraph& graph, const Path& path, const std::vector<NodeLoad>& nodes);

}  // namespace helix::core
