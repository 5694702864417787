#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/coordinator/fleet.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/room.h"

namespace helix::core {

// Quarantine is where a suspect runs, or will run as soon as nothing else does; nobody else starts
// there.
struct Quarantine {
    RequestId id;
    std::set<WorkerId> workers;
};
// Suspects knows the requests that workers die of. A worker that dies takes what it runs along, and
// a request may be what it died of. One whose workers died again and again, without a token of it
// in between, is a suspect: it is run again on a pipeline of its own, where nothing else runs. If a
// worker dies there, too, it is stopped for a while: when other workers die meanwhile, machines die
// here of something else, and it is run alone again; when none does, it ends with an error that
// says so. A poisonous request costs three workers, and costs no other request anything but time.
class Suspects {
  public:
    Suspects(const Fleet& fleet, RequestTable& requests, const Placements& placements,
             const Room& room)
        : fleet_(fleet), requests_(requests), placements_(placements), room_(room) {}

    // A worker of the request's pipeline has died.
    void note_death(TimePoint now, RequestState& state, WorkerId worker);
    // A worker has died. Who waits for a verdict had no part in it, and is not accused any more.
    void acquit(WorkerId dead);
    void note_progress(RequestState& state);  // it has a new token
    // Says whether the suspect has a place of its own, or soon has. Only one suspect at a time has
    // one.
    bool set_apart(TimePoint now, const RequestState& state);
    // Says whether the request may be at the worker, as far as suspects are concerned.
    bool keeps_apart(const RequestState& state, WorkerId worker) const;

    // Returns the suspect that has a place of its own, or is about to have it.
    const std::optional<Quarantine>& quarantine() const { return quarantine_; }
    // Returns the accused whose time is over and whom nobody has acquitted.
    std::vector<RequestId> guilty(TimePoint now) const;
    void forget(const RequestState& state);  // it has ended

  private:
    void end_quarantine(const RequestState& state);
    const Fleet& fleet_;
    RequestTable& requests_;
    const Placements& placements_;
    const Room& room_;
    std::optional<Quarantine> quarantine_;  // of one suspect at a time
    // They run nowhere until their verdict, which falls at this time.
    std::map<RequestId, TimePoint> accused_;
};

}  // namespace helix::core
