#pragma once

#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/freeness.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/request_loads.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// NodeLoads says how full each node of the router's graph is at this moment, by the KV that running
// requests have there.
class NodeLoads {
  public:
    NodeLoads(const CoordinatorConfig& config, const Fleet& fleet, const RequestTable& requests,
              const Placements& placements, const KvDemand& demand)
        : config_(config),
          fleet_(fleet),
          requests_(requests),
          placements_(placements),
          demand_(demand) {}

    // Returns the loads by index in the graph. A request that moves counts where it goes.
    std::vector<NodeLoad> now();
    // Returns what the router may ask about workers; it is good for one request.
    WorkerLoads for_router();

  private:
    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    const RequestTable& requests_;
    const Placements& placements_;
    const KvDemand& demand_;
    RequestLoads loads_;
};

}  // namespace helix::core
