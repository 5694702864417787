#include "core/coordinator/worker_emptier.h"

#include <algorithm>
#include <utility>

namespace helix::core {
namespace {

constexpr int kMostTries = 8;  // so many requests look for another way in one step

}  // namespace

void WorkerEmptier::empty_worker(TimePoint now, WorkerId worker, TimePoint since,
                                 MigrationReason reason) {
    std::vector<RequestId> here;
    for (const auto& [id, pages] : fleet_.at(worker).kv.charges()) here.push_back(id);
    migrations_.abort_migrations_to(
        now, worker, {MigrationCause::destination_emptied, "a worker there is being emptied"});
    // One of them moves; those that could not begin yet have their turn later.
    bool moving = false;
    for (const RequestId id : here) {
        const auto it = requests_.find(id);
        moving = moving || (it != requests_.end() && it->second.migration);
    }
    int tries = kMostTries;
    for (const RequestId id : here) {
        const auto it = requests_.find(id);
        if (it == requests_.end() || it->second.migration) continue;
        if (stage_at(it->second.pipeline, worker) == nullptr)
            continue;  // it only moved here, and that was given up
        if (it->second.swapped) {
            life_.restart(it->second, RouteReason::worker_emptied);
        } else if (migrations_.moves_now(it->second) && tries-- > 0) {
            const Path path = migrations_.other_path(now, it->second);
            if (!path.empty()) moving |= migrations_.begin_migration(now, it->second, path, reason);
        }
    }
    if (moving || now - since <= config_.empty_timeout) return;
    for (const RequestId id : here) {
        const auto it = requests_.find(id);
        if (it != requests_.end() && stage_at(it->second.pipeline, worker) != nullptr)
            life_.restart(it->second, RouteReason::worker_emptied);
    }
}

}  // namespace helix::core
