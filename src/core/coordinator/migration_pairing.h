#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/coordinator/freeness.h"

// This chooses which requests move for balance.
//
// A source is a node that is near full; it gives a request that runs there. The destination is a
// path: the freest that the request can take without the source, and among those whose freeness is
// alike the one with the most planned flow. Balance acts only near full memory, so it is rare, and
// what it moves is charged to the new path's edges like all rows: the router's round robin sends as
// much less there afterwards, so each edge's share of the traffic stays what the plan says.
//
// Moves end by themselves. A move makes the source freer and leaves every node that takes part
// freer than the source was: the fullest nodes only ever get emptier. And none goes back in the
// same round: a node that gave takes nothing in it, and one that took gives nothing.

namespace helix::core {

// A source gives a request of its lowest priority. This says which of these goes first.
enum class MoveChoice : std::uint8_t {
    shortest,  // the one with fewest tokens, which is the quickest to copy (Llumnix: SR)
    longest,   // the one that makes the most room (LR)
    latest,    // the one that arrived last (LCR)
};

// Which rule pairs sources with destinations.
enum class PairingRule : std::uint8_t {
    helix,  // as above
    // As Llumnix is published, for comparison. The least free source is paired with the
    // freest destination, the next with the next, and each source gives the first of its choice,
    // whether or not the two are more alike afterwards; what preempted is no source for that. With
    // whole models a path is one node, and this is that rule; with pipelines a destination is the
    // freest path off the source that can take it. A move is given up when its source has recovered
    // (recovered_moves).
    llumnix,
};

struct BalanceRequest {
    RequestId id;
    std::int32_t priority = 0;
    std::uint64_t order = 0;  // of arrival
    Path path;
    // The tokens in each layer, in whole blocks, of all its sequences.
    std::int64_t tokens = 0;
    std::int32_t sequences = 1;
    bool movable = true;  // it decodes and is not moving already
    bool high() const { return priority > 0; }
};

struct PairingConfig {
    PairingRule rule = PairingRule::helix;
    double source_below = 64;  // a node with less freeness, in tokens, gives
    // A node with more freeness takes; it must not become a source by what it takes.
    double destination_above = 128;
    std::int32_t moves = 4;  // the most moves in one round
    std::int32_t tries = 8;  // the most requests of one source that are tried
    MoveChoice choice = MoveChoice::shortest;
};

struct BalanceView {
    const PipelineGraph* graph = nullptr;
    std::int32_t shared_kv_layers = 0;  // as in CoordinatorConfig
    // The loads of all requests, by index in the graph.
    std::vector<NodeLoad> nodes;
    // By node: it had to preempt lately, which makes it a source.
    std::vector<char> preempts;
    // Those that may move off a source, or more.
    std::vector<BalanceRequest> requests;
};

struct Move {
    RequestId id;
    Path to;
    bool operator==(const Move&) const = default;
};

// Says whether the request may have this stage, by memory as the coordinator estimates it and by
// the format of pages. It is only asked about stages that the request does not have.
using MayTake = std::function<bool(const BalanceRequest&, WorkerId, LayerRange)>;

// Says whether the node gives requests, as long as nothing has moved.
bool is_source(const BalanceView& view, std::size_t node, const PairingConfig& config);

// Plans one round. Each source gives at most one request, the fullest source first, and each node
// takes at most one.
std::vector<Move> plan_moves(BalanceView view, const PairingConfig& config,
                             const MayTake& may_take);

// A move that has begun, and what its request has at each node that it leaves.
struct MoveUnderWay {
    RequestId id;
    std::vector<std::pair<std::int32_t, Usage>> leaves;
};
// Returns the moves none of whose nodes would be a source if all of these requests stayed. nodes
// are loads in which they count where they go.
std::vector<RequestId> recovered_moves(std::vector<NodeLoad> nodes,
                                       const std::vector<MoveUnderWay>& moves,
                                       const PairingConfig& config);

// Returns what a stage of the request's path counts for at its node.
Usage usage_at(const BalanceRequest& request, std::int32_t layers);

}  // namespace helix::core
