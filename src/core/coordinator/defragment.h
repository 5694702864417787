#pragma once

#include <cstdint>
#include <vector>

#include "core/coordinator/migration_pairing.h"

namespace helix::core {

// A running request by the coordinator's estimate of KV memory (core/kv/kv_estimate.h), which
// decides whether another one is let in.
struct PlacedRequest {
    BalanceRequest request;
    std::int64_t blocks = 0;  // that it is expected to need at every stage, per layer
};

struct RoomView {
    const PipelineGraph* graph = nullptr;
    std::int32_t shared_kv_layers = 0;  // as in CoordinatorConfig
    // By node, these are the pages that the estimate still gives away, below 0 where it was
    // exceeded.
    std::vector<std::int64_t> room;
    std::vector<PlacedRequest> requests;
};

struct RoomPlan {
    Path path;  // the path that then has room
    std::vector<Move> moves;
};

// De-fragmentation serves the request that waits first: it needs this many blocks in each layer,
// and no path has them, though they may be free here and there. Returns the moves that make room
// for it on one path, all of them or none. The path is the one that lacks least; it is cleared
// stage by stage of the requests of lowest priority, among them the one that just suffices. There
// are no moves where it cannot be done with so many, or where nothing has to move. may_hold says
// whether a stage could have the waiting request at all; may_take is as in plan_moves.
RoomPlan plan_room(const RoomView& view, std::int64_t blocks, std::int32_t most_moves,
                   const StageFits& may_hold, const MayTake& may_take);

}  // namespace helix::core
