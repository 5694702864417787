#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/restore.h"
#include "core/coordinator/roles.h"
#include "core/coordinator/room.h"

namespace helix::core {

// Planning says when a placement is asked for, and of which workers, and whether the answer is
// taken.
class Planning {
  public:
    Planning(const CoordinatorConfig& config, Outbox& out, Fleet& fleet, Placements& placements,
             Restore& restore, const Room& room, const Roles& roles)
        : config_(config),
          out_(out),
          fleet_(fleet),
          placements_(placements),
          restore_(restore),
          room_(room),
          roles_(roles) {}

    void want_plan(TimePoint now);
    // Asks for a plan if one is due. Returns why there can be none without the drained workers, or
    // nothing.
    std::string maybe_plan(TimePoint now);
    // Returns false where the message answers an older question.
    bool on(const NotPlanned& event);
    void on(TimePoint now, const Planned& event);

    void want_now() { plan_wanted_ = true; }  // it is due when it was due before
    bool is_idle() const { return !plan_wanted_ && !plan_running_; }
    // Sets from when on a plan may be asked for; with wanted false nobody waits for one.
    void want_from(TimePoint now, bool wanted) {
        plan_wanted_ = wanted;
        plan_wanted_since_ = now;
    }
    // Returns, once, the drained workers that the last plan did without.
    std::set<WorkerId> take_without() { return std::exchange(plan_without_, {}); }

  private:
    const CoordinatorConfig& config_;
    Outbox& out_;
    Fleet& fleet_;
    Placements& placements_;
    Restore& restore_;
    const Room& room_;
    const Roles& roles_;
    bool plan_wanted_ = false;
    TimePoint plan_wanted_since_;
    std::optional<std::uint64_t> plan_running_;
    std::vector<WorkerId> plan_workers_;
    std::set<WorkerId> plan_without_;  // drained workers that the plan is made without
    std::uint64_t next_plan_ = 1;
};

}  // namespace helix::core
