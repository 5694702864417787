#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/coordinator/admission_queue.h"
#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/node_loads.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/prefix_routing.h"
#include "core/coordinator/roles.h"
#include "core/coordinator/room.h"
#include "core/coordinator/suspects.h"

namespace helix::core {

// PathChoice says which way a waiting request takes: where its beginning is known, else where the
// router says, among the stages that have room for it.
class PathChoice {
  public:
    PathChoice(const CoordinatorConfig& config, const Fleet& fleet, const AdmissionQueue& queue,
               const Placements& placements, const Room& room, const Roles& roles,
               const KvDemand& demand, NodeLoads& loads, PrefixRouting& prefixes,
               const Suspects& suspects)
        : config_(config),
          fleet_(fleet),
          queue_(queue),
          placements_(placements),
          room_(room),
          roles_(roles),
          demand_(demand),
          loads_(loads),
          prefixes_(prefixes),
          suspects_(suspects) {}

    StageFits fits_for(const RequestState& state) const;
    Path route(TimePoint now, RequestState& state);  // returns nothing where no path has room
    // Returns the pages that a worker keeps free of requests that are not of high priority.
    std::int64_t headroom_pages(WorkerId worker) const;

  private:
    // What a request was found to have no way with; it is tried again when any of this is
    // different.
    struct NoWay {
        RequestId id;
        std::int32_t max_output = 0;
        std::uint64_t fleet = 0;       // Fleet::touched()
        std::uint64_t placements = 0;  // Placements::version()
        double mean_output = 0;        // KvDemand::mean_output()
        bool operator==(const NoWay&) const = default;
    };
    // Returns nothing where more than that decides whether there is a way.
    std::optional<NoWay> what_decides(const RequestState& state,
                                      const std::vector<PrefixHit>& hits) const;
    // Returns the pages of a worker in use that a group leaves to what comes after it.
    std::int64_t pages_left_by_groups(const RequestState& state, WorkerId worker) const;

    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    const AdmissionQueue& queue_;
    const Placements& placements_;
    const Room& room_;
    const Roles& roles_;
    const KvDemand& demand_;
    NodeLoads& loads_;
    PrefixRouting& prefixes_;
    const Suspects& suspects_;
    std::optional<NoWay> no_way_;  // of the last request that found none
};

}  // namespace helix::core
