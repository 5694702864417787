#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// PlacementAbility is what the workers of the placement in force can do together.
struct PlacementAbility {
    std::int64_t tokens = 0;  // the most that one request can have
    bool roles = false;       // the workers keep to their roles
};
// Room says what one request can have in the placement in force and in what comes next. A worker is
// not emptied, and no placement begins, while that would leave an accepted request without a place.
// New requests are measured by the smaller of the two.
class Room {
  public:
    using HoldsBlocks = std::function<bool(const BlockDemand&)>;  // for one request

    Room(const CoordinatorConfig& config, Outbox& out, const Fleet& fleet,
         const RequestTable& requests, Placements& placements, const KvDemand& demand)
        : config_(config),
          out_(out),
          fleet_(fleet),
          requests_(requests),
          placements_(placements),
          demand_(demand) {}

    // Says whether this worker, however busy it is now, could ever have these layers of one request
    // with this many blocks per layer.
    bool could_hold(WorkerId worker, LayerRange layers, const BlockDemand& demand) const;
    // Returns the stages that could ever hold the whole request. Where workers that prefill could,
    // those that only decode are not among them.
    StageFits could_hold(const RequestState& state) const;
    // Says whether one request could have this many blocks per layer in the placement in force.
    bool holds(const BlockDemand& demand) const;
    const PlacementAbility& ability() const;
    bool roles_kept() const;                    // remembered as capacity() is
    bool only_prefills(WorkerId worker) const;  // says so only while roles are kept
    // Says whether there is a path of workers that may prefill, and that could ever hold the
    // request.
    bool prefilled_apart(const RequestState& state) const;
    std::int64_t expected_pages(const RequestState& state, const Stage& stage) const;
    // Returns the most output that the request can have of what it asks for, where one request can
    // have capacity_now tokens.
    std::int32_t output_limit(const RequestState& state, std::int64_t capacity_now) const;
    // Returns an accepted request that has a place as things are, and would have none if only
    // `later` held.
    std::optional<RequestId> left_without_room(const HoldsBlocks& later) const;
    bool waits_for_room();  // says whether the pending placement waits for a request
    std::string waits_text(RequestId id) const;
    bool holds_later(const BlockDemand& demand) const;
    bool holds_now(const BlockDemand& demand, bool drained_too) const;
    bool pending_holds(const BlockDemand& demand) const;
    // Returns how many of capacity() tokens one request will also have in what comes next.
    std::int64_t lasting_capacity(std::int64_t capacity_now) const;
    // Returns the most tokens (prompt and output) that one request can have in the placement in
    // force; 0 = none.
    std::int64_t capacity() const { return ability().tokens; }

  private:
    std::int64_t capacity_tokens() const;
    std::int64_t pages_in_pending(WorkerId id) const;
    bool find_roles_kept() const;

    const CoordinatorConfig& config_;
    Outbox& out_;
    const Fleet& fleet_;
    const RequestTable& requests_;
    Placements& placements_;
    const KvDemand& demand_;
    struct Derived {
        std::uint64_t fleet = 0;  // it was derived of these versions
        std::uint64_t placements = 0;
        PlacementAbility ability;
    };
    mutable std::optional<Derived> derived_;
};

}  // namespace helix::core
