// KV that moves between workers (FEATURES L2-L5, L18, L19).

#include "core/worker_state.h"

namespace helix::core {

void Worker::Impl::on(const KvExported&, std::vector<WorkerAction>&) {}

void Worker::Impl::on(const KvImported&, std::vector<WorkerAction>&) {}

void Worker::Impl::on(const PeerBroken& event, std::vector<WorkerAction>& actions) {
    actions.push_back(SendToCoordinator{PeerLost{event.peer}});
}

}  // namespace helix::core
