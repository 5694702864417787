// Workers that are emptied while they serve (FEATURES L11): nothing new goes there, what runs there
// moves away, and the placement is planned anew without them.

#include <algorithm>

#include "core/coordinator_state.h"

namespace helix::core {
namespace {

constexpr int kMostTries = 8;  // to find another way, in one step

}  // namespace

void Coordinator::Impl::on(TimePoint now, const DrainWorker& event,
                           std::vector<CoordinatorAction>& actions) {
    const auto it = workers.find(event.worker);
    if (it == workers.end()) return;
    WorkerState& worker = it->second;
    const bool remove = event.remove && !event.off;
    if (worker.draining == !event.off && worker.remove == remove) return;
    const std::string name = "worker " + worker.joined.node.name;
    worker.remove = remove;
    worker.drained = false;
    worker.drain_refused.clear();
    if (worker.draining == !event.off) return;  // only what becomes of it then
    worker.draining = !event.off;
    worker.replaced = false;
    worker.drain_since = now;
    capacity_cache.reset();
    if (pending && !pending->loading) pending.reset();  // planned with it, or without
    want_plan(now);
    actions.push_back(Report{name + (event.off ? " is used again" : " is being drained"), false});
    advance_drains(now, actions);
}

// No placement without them was found: they go on.
void Coordinator::Impl::refuse_drains(const std::string& reason,
                                      std::vector<CoordinatorAction>& actions) {
    for (const WorkerId id : plan_without) {
        const auto it = workers.find(id);
        if (it == workers.end() || !it->second.draining || it->second.replaced) continue;
        if (!is_placed(id)) continue;
        it->second.draining = it->second.remove = false;
        it->second.drain_refused = reason;
        plan_wanted = true;
        capacity_cache.reset();
        actions.push_back(Report{
            "worker " + it->second.joined.node.name + " is not drained: without it " + reason,
            true});
    }
    plan_without.clear();
}

void Coordinator::Impl::advance_drains(TimePoint now, std::vector<CoordinatorAction>& actions) {
    const bool any = std::any_of(workers.begin(), workers.end(),
                                 [](const auto& worker) { return worker.second.draining; });
    bool serve = any && router != nullptr && router->can_route([&](WorkerId id, LayerRange layers) {
        const auto it = workers.find(id);  // not there: it was lost
        if (it == workers.end() || it->second.draining || !it->second.ready) return false;
        const bool changes = pending && pending->step.contains(id);
        return !changes && it->second.layers.contains(layers);
    });
    const bool waited = drains_wait_for.has_value();
    drains_wait_for.reset();
    if (serve) {
        drains_wait_for =
            left_without_room([this](std::int64_t blocks) { return holds_now(blocks, false); });
        serve = !drains_wait_for;
    }
    if (drains_wait_for && !waited) {
        actions.push_back(Report{"draining waits: " + waits_text(*drains_wait_for), false});
    }
    if (serve != drains_closed) capacity_cache.reset();
    for (auto& [id, worker] : workers) {
        if (!worker.draining || worker.drained) continue;
        if (serve && !drains_closed) worker.drain_since = now;
    }
    drains_closed = serve;
    for (auto& [id, worker] : workers) {
        if (!worker.draining || worker.drained) continue;
        if (serve) empty_worker(now, id, worker.drain_since, MigrationReason::drain, actions);
        if (worker.kv.requests() > 0 || is_placed(id)) continue;
        worker.drained = true;
        actions.push_back(Report{"worker " + worker.joined.node.name + " holds nothing any more" +
                                     (worker.remove ? " and leaves" : ""),
                                 false});
        actions.push_back(WorkerDrained{id, worker.remove});
    }
}

std::string Coordinator::Impl::drain_waits(const WorkerState& worker) const {
    if (!worker.draining || worker.drained) return "";
    for (const auto& id : {drains_wait_for, pending ? pending->waits_for : std::nullopt}) {
        if (id && requests.contains(*id)) return waits_text(*id);
    }
    return "";
}

void Coordinator::Impl::empty_worker(TimePoint now, WorkerId worker, TimePoint since,
                                     MigrationReason reason,
                                     std::vector<CoordinatorAction>& actions) {
    std::vector<RequestId> here;
    for (const auto& [id, pages] : workers.at(worker).kv.charges()) here.push_back(id);
    abort_migrations_to(now, worker, "a worker there is being emptied", actions);
    bool moving = false;  // one of them; those that could not begin yet have their turn later
    for (const RequestId id : here) {
        const auto it = requests.find(id);
        moving = moving || (it != requests.end() && it->second.migration);
    }
    int tries = kMostTries;
    for (const RequestId id : here) {
        const auto it = requests.find(id);
        if (it == requests.end() || it->second.migration) continue;
        if (stage_at(it->second.pipeline, worker) == nullptr)
            continue;  // a move that came here was given up
        if (it->second.swapped) {
            restart(it->second, actions);
        } else if (moves_now(it->second) && tries-- > 0) {
            const Path path = other_path(now, it->second);
            if (!path.empty()) moving |= begin_migration(now, it->second, path, reason, actions);
        }
    }
    if (moving || now - since <= config.empty_timeout) return;
    for (const RequestId id : here) {
        const auto it = requests.find(id);
        if (it != requests.end() && stage_at(it->second.pipeline, worker) != nullptr)
            restart(it->second, actions);
    }
}

}  // namespace helix::core
