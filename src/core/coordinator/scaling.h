#pragma once

#include <cstdint>
#include <optional>

#include "core/coordinator/admission_queue.h"
#include "core/coordinator/auto_scale.h"
#include "core/coordinator/balancer.h"
#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/planning.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// Scaling asks for more or fewer workers, by the freeness of all together
// (core/coordinator/auto_scale.h).
class Scaling {
  public:
    Scaling(const CoordinatorConfig& config, Outbox& out, const Fleet& fleet,
            RequestTable& requests, const AdmissionQueue& queue, const Placements& placements,
            const KvDemand& demand, const Planning& planning, Balancer& balancer)
        : config_(config),
          out_(out),
          fleet_(fleet),
          requests_(requests),
          queue_(queue),
          placements_(placements),
          demand_(demand),
          planning_(planning),
          balancer_(balancer),
          scaler_(config.scale ? std::optional<AutoScaler>(*config.scale) : std::nullopt) {}

    void on(TimePoint now, const WorkerNotAdded& event);
    // Asks for workers, or returns how to drain the one that is not needed any more.
    std::optional<DrainWorker> scale(TimePoint now);

  private:
    const CoordinatorConfig& config_;
    Outbox& out_;
    const Fleet& fleet_;
    RequestTable& requests_;
    const AdmissionQueue& queue_;
    const Placements& placements_;
    const KvDemand& demand_;
    const Planning& planning_;
    Balancer& balancer_;
    std::optional<AutoScaler> scaler_;
};

}  // namespace helix::core
