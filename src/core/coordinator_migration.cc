// Requests that move to another pipeline while they run (FEATURES L2, L3).

#include "core/coordinator_state.h"

namespace helix::core {

void Coordinator::Impl::on(TimePoint, const MoveRequest& event,
                           std::vector<CoordinatorAction>& actions) {
    actions.push_back(
        MigrationEnded{event.id, MigrationPhase::reserving, "requests do not move yet"});
}

}  // namespace helix::core
