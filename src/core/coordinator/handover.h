#pragma once

#include <cstdint>
#include <vector>

#include "core/coordinator/fleet.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/roles.h"
#include "core/coordinator/room.h"

namespace helix::core {

// Handover moves requests that have their first token to where decodes are computed
// (core/coordinator/roles.h). A hand-over that finds no room, or that fails, is tried again.
class Handover {
  public:
    Handover(const Fleet& fleet, RequestTable& requests, const Placements& placements,
             const Room& room, Roles& roles, Migrations& migrations)
        : fleet_(fleet),
          requests_(requests),
          placements_(placements),
          room_(room),
          roles_(roles),
          migrations_(migrations) {}

    void hand_over(TimePoint now);
    // Says whether it could move now, if nothing else moved first.
    bool can_hand_over(const RequestState& state) const;

    // Returns the requests that could be handed over now, if nothing else moved first.
    std::vector<RequestId> waiting() const;

  private:
    StageFits decode_fits(const RequestState& state) const;

    const Fleet& fleet_;
    RequestTable& requests_;
    const Placements& placements_;
    const Room& room_;
    Roles& roles_;
    Migrations& migrations_;
};

}  // namespace helix::core
