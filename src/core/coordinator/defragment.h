#pragma once

#include <cstdint>
#include <vector>

#include "core/coordinator/migration_pairing.h"

namespace helix::core {

// A request in the coordinator's estimate of KV memory (core/kv/kv_estimate.h), which is what
// decides whether another one is let in.
struct PlacedRequest {
    BalanceRequest request;
    std::int64_t blocks = 0;  // it is expected to need at every stage, in each layer
};

struct RoomView {
    const PipelineGraph* graph = nullptr;
    // By node: pages that the estimate still gives away; below 0 where it was exceeded.
    std::vector<std::int64_t> room;
    std::vector<PlacedRequest> requests;
};

struct RoomPlan {
    Path path;  // that has room then
    std::vector<Move> moves;
};

// De-fragmentation : the request that waits first needs so many blocks in each layer,
// and no path has them, though they may be free here and there. The moves that make room for it on
// one path, all of them or none: the path that lacks least, cleared stage by stage of the requests
// of lowest priority, among them the one that just suffices. No moves: it cannot be done with so
// many moves, or nothing has to move. may_hold: could the stage have the waiting request at all?
// may_take: as in plan_moves.
RoomPlan plan_room(const RoomView& view, std::int64_t blocks, std::int32_t most_moves,
                   const StageFits& may_hold, const MayTake& may_take);

}  // namespace helix::core
