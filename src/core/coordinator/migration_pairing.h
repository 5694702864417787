#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/coordinator/freeness.h"

// Which requests move for balance.
//
// A source is a node that is near full; it gives a request that runs there. The destination is a
// path: the freest that the request can take without the source, and among those whose freeness is
// alike the one with the most planned flow. Balance acts only near full memory, so it is rare, and
// what it moves is charged to the new path's edges like all rows: the router's round robin sends as
// much less there afterwards, so each edge's share of the traffic stays what the plan says.
//
// Moves end by themselves. A move makes the source freer and leaves every node that takes part
// freer than the source was: the fullest nodes only ever get emptier. And none goes back in the
// same round: a node that gave takes nothing in it, one that took gives nothing.

namespace helix::core {

// Of the requests at a source the one of the lowest priority moves, among them the ...
enum class MoveChoice : std::uint8_t {
    shortest,  // fewest tokens (Llumnix: SR): the quickest to copy
    longest,   // LR: makes the most room
    latest,    // arrived last (LCR)
};

struct BalanceRequest {
    RequestId id;
    std::int32_t priority = 0;
    std::uint64_t order = 0;  // of arrival
    Path path;
    std::int64_t tokens = 0;  // in each layer, whole blocks, of all its sequences
    std::int32_t sequences = 1;
    bool movable = true;  // it decodes and is not moving already
    bool high() const { return priority > 0; }
};

struct PairingConfig {
    double source_below = 64;        // tokens of freeness
    double destination_above = 128;  // more than that: what it takes must not make it a source
    std::int32_t moves = 4;          // in one round, at most
    std::int32_t tries = 8;          // requests of one source, at most
    MoveChoice choice = MoveChoice::shortest;
};

struct BalanceView {
    const PipelineGraph* graph = nullptr;
    std::vector<NodeLoad> nodes;  // by index in the graph; with all requests below
    std::vector<char> preempts;   // by node: it had to preempt lately, and is a source for that
    std::vector<BalanceRequest> requests;
};

struct Move {
    RequestId id;
    Path to;
    bool operator==(const Move&) const = default;
};

// May the request have this stage (memory as the coordinator estimates it, page format)? Only asked
// about stages that it does not have.
using MayTake = std::function<bool(const BalanceRequest&, WorkerId, LayerRange)>;

// One round: each source gives at most one request, the fullest first; each node takes at most one.
std::vector<Move> plan_moves(BalanceView view, const PairingConfig& config,
                             const MayTake& may_take);

// What a stage of the request's path counts for at its node.
Usage usage_at(const BalanceRequest& request, std::int32_t layers);

}  // namespace helix::core
