#pragma once

#include <cstdint>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// WorkerEmptier makes what runs on a worker move away or end, before the worker leaves or loads
// other layers.
class WorkerEmptier {
  public:
    WorkerEmptier(const CoordinatorConfig& config, const Fleet& fleet, RequestTable& requests,
                  Migrations& migrations, RequestLife& life)
        : config_(config),
          fleet_(fleet),
          requests_(requests),
          migrations_(migrations),
          life_(life) {}

    // What runs there moves away or finishes. After empty_timeout it goes back to the queue.
    void empty_worker(TimePoint now, WorkerId worker, TimePoint since, MigrationReason reason);

  private:
    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    RequestTable& requests_;
    Migrations& migrations_;
    RequestLife& life_;
};

}  // namespace helix::core
