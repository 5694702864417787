#pragma once

#include <cstdint>
#include <vector>

#include "core/coordinator/admission_queue.h"
#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/link_health.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/room.h"
#include "core/coordinator/suspects.h"

namespace helix::core {

// Stalls has the requests whose pipeline stands still or is not there any more. They are tried
// again, and end with an error only when that does not help.
class Stalls {
  public:
    Stalls(const CoordinatorConfig& config, const Fleet& fleet, RequestTable& requests,
           const LinkHealth& links, const AdmissionQueue& queue, const Placements& placements,
           const Room& room, const KvDemand& demand, RequestLife& life, const Suspects& suspects)
        : config_(config),
          fleet_(fleet),
          requests_(requests),
          links_(links),
          queue_(queue),
          placements_(placements),
          room_(room),
          demand_(demand),
          life_(life),
          suspects_(suspects) {}

    // Says whether the request can run in a placement of this capacity. Ends it when none of the
    // placements of a long time could hold it.
    bool still_fits(TimePoint now, RequestState& state, std::int64_t capacity_now,
                    std::int64_t lasting);
    void end_stalled(TimePoint now);
    void end_unserved(TimePoint now);
    void pass_verdicts(TimePoint now);

    // Requests wait, and a placement serves.
    void note_served(TimePoint now) { served_last_ = now; }

  private:
    bool lost_rows(TimePoint now, const RequestState& state) const;
    std::vector<RequestId> stalled(TimePoint now);  // by rising id

    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    RequestTable& requests_;
    const LinkHealth& links_;
    const AdmissionQueue& queue_;
    const Placements& placements_;
    const Room& room_;
    const KvDemand& demand_;
    RequestLife& life_;
    const Suspects& suspects_;
    // When requests waited last while a placement served or was on its way.
    TimePoint served_last_;
    // When to look again at all requests, and those that are looked at until then: they have made
    // no progress for long, but their rows may still come.
    TimePoint no_stall_before_;
    std::vector<RequestId> overdue_;
};

}  // namespace helix::core
