#pragma once

#include <cstdint>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/link_health.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/planning.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// LinkBreaks deals with links between workers that break, stay broken and come back.
//
// A worker says when its link to another broke. If the link is back at once, it has cost the rows
// that were under way: what waits for them is computed anew. While it stays down no request is sent
// over it, the placement is planned without it, and what ran over it goes on elsewhere.
class LinkBreaks {
  public:
    LinkBreaks(const CoordinatorConfig& config, Outbox& out, Fleet& fleet, RequestTable& requests,
               LinkHealth& links, Placements& placements, Migrations& migrations, RequestLife& life,
               Planning& planning)
        : config_(config),
          out_(out),
          fleet_(fleet),
          requests_(requests),
          links_(links),
          placements_(placements),
          migrations_(migrations),
          life_(life),
          planning_(planning) {}

    void on_peer_lost(TimePoint now, WorkerId said_by, const PeerLost& message);
    void send_lost_rows_again(TimePoint now);
    void forget_old_complaints(TimePoint now);
    void on(TimePoint now, const LinksMeasured& event);

  private:
    void on_link_changed(TimePoint now, WorkerId one, WorkerId other);

    const CoordinatorConfig& config_;
    Outbox& out_;
    Fleet& fleet_;
    RequestTable& requests_;
    LinkHealth& links_;
    Placements& placements_;
    Migrations& migrations_;
    RequestLife& life_;
    Planning& planning_;
};

}  // namespace helix::core
