#pragma once

#include <cstdint>
#include <optional>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"

namespace helix::core {

// Restore puts the placement in force again that the coordinator before us had in force, without
// planning, as soon as those that held it are back.
class Restore {
  public:
    Restore(const CoordinatorConfig& config, Outbox& out, const Fleet& fleet,
            Placements& placements)
        : config_(config),
          out_(out),
          fleet_(fleet),
          placements_(placements),
          remembered_(config.remembered) {}

    // A worker that joined was told of this placement by the coordinator before us. The newest that
    // workers know counts, before any that was written down.
    void learn(const Holding& holding);
    // Returns the layers that the worker had before the restart and was not told to give up since.
    LayerRange held_before(const WorkerState& worker) const;
    // Says whether the worker is in the placement in force or, before the first, in the one from
    // before the restart.
    bool is_placed(WorkerId id) const;
    struct Progress {
        // Nothing is planned, because it is restored or workers are still waited for.
        bool awaits = false;
        bool restored = false;    // it is the pending placement now
        bool improvable = false;  // a plan may make it better
    };
    Progress advance(TimePoint now);
    void remember_in_force();  // remembers the pending placement as in force

    // Returns the placement that was put in force last; null before the first.
    const RememberedPlacement* in_force() const { return in_force_ ? &*in_force_ : nullptr; }

  private:
    bool restore();  // returns true if a plan may make it better

    const CoordinatorConfig& config_;
    Outbox& out_;
    const Fleet& fleet_;
    Placements& placements_;
    // This is the placement from before the restart, without those that have a part in a placement
    // of ours.
    std::optional<RememberedPlacement> remembered_;
    std::uint64_t learnt_epoch_ = 0;          // of the workers that know of it; 0: it was written
    std::optional<TimePoint> restore_until_;  // set while workers are waited for
    bool restore_over_ = false;               // a placement is in force, or it was given up
    std::optional<RememberedPlacement> in_force_;
};

// Returns the placement in terms that outlive this coordinator.
RememberedPlacement remember(const PendingPlacement& placement, const Fleet& fleet);

}  // namespace helix::core
