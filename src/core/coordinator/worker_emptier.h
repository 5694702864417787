#pragma once

#include <cstdint>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// What runs on a worker moves away or ends: before it leaves, and before it loads other layers.
class WorkerEmptier {
  public:
    WorkerEmptier(const CoordinatorConfig& config, const Fleet& fleet, RequestTable& requests,
                  Migrations& migrations, RequestLife& life)
        : config_(config),
          fleet_(fleet),
          requests_(requests),
          migrations_(migrations),
          life_(life) {}

    // What runs there moves away or finishes; after empty_timeout it is set back.
    void empty_worker(TimePoint now, WorkerId worker, TimePoint since, MigrationReason reason);

  private:
    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    RequestTable& requests_;
    Migrations& migrations_;
    RequestLife& life_;
};

}  // namespace helix::core
