// Workers that are emptied while they serve (FEATURES L11).

#include "core/coordinator_state.h"

namespace helix::core {

void Coordinator::Impl::on(TimePoint, const DrainWorker& event, std::vector<CoordinatorAction>&) {
    const auto it = workers.find(event.worker);
    if (it == workers.end()) return;
    it->second.draining = !event.off;
    it->second.remove = event.remove && !event.off;
}

}  // namespace helix::core
