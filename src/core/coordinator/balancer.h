#pragma once

#include <cstdint>
#include <vector>

#include "core/coordinator/admission_queue.h"
#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/migration_pairing.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/node_loads.h"
#include "core/coordinator/path_choice.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/preempter.h"
#include "core/coordinator/prompt_window.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/room.h"
#include "core/coordinator/swaps.h"

namespace helix::core {

// The way that is being cleared for the request that waits first.
struct RoomInMaking {
    RequestId waiting;
    TimePoint since;                // since then it has found no room
    Pipeline pipeline;              // the way; empty: none is chosen yet
    std::vector<RequestId> moving;  // requests that move off that way
};
// Balancer moves running requests so that memory is used evenly and so that what waits finds room.
// It puts the loads as the pure policies want them (core/coordinator/migration_pairing.h,
// core/coordinator/defragment.h), and begins the moves that these choose.
class Balancer {
  public:
    Balancer(const CoordinatorConfig& config, const Fleet& fleet, RequestTable& requests,
             const AdmissionQueue& queue, const PromptWindow& prompts, const Placements& placements,
             const Room& room, const KvDemand& demand, NodeLoads& loads, const PathChoice& paths,
             const Swaps& swaps, Migrations& migrations, const Preempter& preempter)
        : config_(config),
          fleet_(fleet),
          requests_(requests),
          queue_(queue),
          prompts_(prompts),
          placements_(placements),
          room_(room),
          demand_(demand),
          loads_(loads),
          paths_(paths),
          swaps_(swaps),
          migrations_(migrations),
          preempter_(preempter) {}

    void balance(TimePoint now);
    // Returns the request that waits first, if it only waits for room; otherwise returns null.
    RequestState* head_without_room();
    BalanceView node_view(TimePoint now);  // without requests, but for what they are at the nodes

  private:
    // Adds the requests that may leave a source, by rising id.
    void add_requests(BalanceView& view) const;
    // Returns the blocks that a request is expected to have at its end, in the mean of all layers.
    std::int64_t expected_blocks(const RequestState& state) const;
    void make_room(TimePoint now);
    // These are for PairingRule::llumnix. The request that waits first counts its demand at the way
    // that it would be dispatched to; and moves whose source is none any more are given up (whether
    // there were any).
    void add_head(BalanceView& view);
    bool give_up_recovered(TimePoint now, const BalanceView& view);
    MayTake may_move(TimePoint now, MigrationReason reason) const;
    void even_out(TimePoint now, BalanceView view);
    bool as_llumnix() const { return config_.balance.pairing.rule == PairingRule::llumnix; }

    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    RequestTable& requests_;
    const AdmissionQueue& queue_;
    const PromptWindow& prompts_;
    const Placements& placements_;
    const Room& room_;
    const KvDemand& demand_;
    NodeLoads& loads_;
    const PathChoice& paths_;
    const Swaps& swaps_;
    Migrations& migrations_;
    const Preempter& preempter_;
    TimePoint next_balance_;
    RoomInMaking clearing_;
};

}  // namespace helix::core
