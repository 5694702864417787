#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/planning.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/restore.h"
#include "core/coordinator/room.h"
#include "core/coordinator/worker_emptier.h"

namespace helix::core {

// What was said of a worker that is not here (DrainWorker).
struct DrainToCome {
    bool remove = false;
    bool needed = false;          // as WorkerState::needed was when it was lost
    bool before_restart = false;  // the drain began before the coordinator's restart
};
// Drains empties workers while they serve: nothing new goes there, what runs there moves away, and
// the placement is planned anew without them. A drain holds by the worker's name until it is called
// off: neither a connection that breaks nor a restart, of a worker or of the coordinator, brings a
// drained worker back into service.
class Drains {
  public:
    Drains(const CoordinatorConfig& config, Outbox& out, Fleet& fleet, const RequestTable& requests,
           Placements& placements, const Restore& restore, const Room& room, WorkerEmptier& emptier,
           Planning& planning)
        : out_(out),
          fleet_(fleet),
          requests_(requests),
          placements_(placements),
          restore_(restore),
          room_(room),
          emptier_(emptier),
          planning_(planning) {
        for (const RememberedDrain& drain : config.remembered_drains) {
            const DrainToCome known = {drain.remove, false, true};
            CHECK(drains_to_come_.emplace(drain.worker, known).second);
        }
    }

    void on(TimePoint now, const DrainWorker& event);
    void refuse_drains(const std::string& reason);
    void keep_drain(const WorkerState& gone, bool left);
    void drain_as_before(TimePoint now, WorkerState& worker);
    void advance_drains(TimePoint now);
    // Returns the request that the drain of this worker waits for, in words; empty: it waits for
    // none.
    std::string drain_waits(const WorkerState& worker) const;

    // Returns all workers that are drained, by name, those that are not here included.
    std::vector<RememberedDrain> all() const;
    const std::map<std::string, DrainToCome>& to_come() const { return drains_to_come_; }

  private:
    Outbox& out_;
    Fleet& fleet_;
    const RequestTable& requests_;
    Placements& placements_;
    const Restore& restore_;
    const Room& room_;
    WorkerEmptier& emptier_;
    Planning& planning_;
    // These are the drains of workers that are not here, by their names.
    std::map<std::string, DrainToCome> drains_to_come_;
};

}  // namespace helix::core
