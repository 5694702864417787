#pragma once

#include <cstdint>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/prompt_window.h"
#include "core/coordinator/restore.h"
#include "core/coordinator/room.h"
#include "core/coordinator/worker_emptier.h"

namespace helix::core {

// Rollout puts a placement in force, step by step, so that service goes on where that is possible
// (core/coordinator/transition_steps.h).
//
// The workers of a step are closed: nothing new goes there, and what runs there moves away or
// finishes. Then they load their new layers while the others serve, by a router over what all hold
// at that time. Where no order of steps keeps a complete pipeline, nothing is started while the
// last of them change together, and requests wait in the queue.
class Rollout {
  public:
    Rollout(const CoordinatorConfig& config, Outbox& out, Fleet& fleet, PromptWindow& prompts,
            Placements& placements, Restore& restore, Room& room, WorkerEmptier& emptier)
        : config_(config),
          out_(out),
          fleet_(fleet),
          prompts_(prompts),
          placements_(placements),
          restore_(restore),
          room_(room),
          emptier_(emptier) {}

    void advance_pending(TimePoint now);
    void empty_step(TimePoint now);
    // Sends the assignment again to those that have not answered, since assignment or answer may
    // have been lost.
    void repeat_assignments(TimePoint now);

  private:
    void begin_step(TimePoint now);
    void end_step();
    void send_assignments(TimePoint now);
    void tell_others(AssignLayers message, const PendingPlacement& next);
    void use_router(PipelineParts parts);
    void put_in_force();

    const CoordinatorConfig& config_;
    Outbox& out_;
    Fleet& fleet_;
    PromptWindow& prompts_;
    Placements& placements_;
    Restore& restore_;
    Room& room_;
    WorkerEmptier& emptier_;
};

}  // namespace helix::core
