// Workers that are emptied while they serve (FEATURES L11): nothing new goes there, what runs there
// moves away, and the placement is planned anew without them. That holds by their names until it is
// called off: neither a connection that breaks nor a restart, of a worker or of the coordinator,
// brings one back into service.

#include <algorithm>

#include "core/coordinator/coordinator_state.h"

namespace helix::core {
namespace {

constexpr int kMostTries = 8;  // to find another way, in one step

}  // namespace

void Coordinator::Impl::on(TimePoint now, const DrainWorker& event,
                           std::vector<CoordinatorAction>& actions) {
    auto it = workers.find(event.worker);
    if (!event.name.empty()) {
        it = std::find_if(workers.begin(), workers.end(), [&](const auto& worker) {
            return worker.second.joined.node.name == event.name;
        });
    }
    if (it == workers.end()) {
        if (!event.off || drains_to_come.erase(event.name) == 0) return;
        actions.push_back(
            Report{"worker " + event.name + " is used again when it comes back", false});
        return;
    }
    WorkerState& worker = it->second;
    const bool remove = event.remove && !event.off;
    if (worker.draining == !event.off && worker.remove == remove) return;
    const std::string name = "worker " + worker.joined.node.name;
    worker.remove = remove;
    worker.drained = false;
    worker.drain_refused.clear();
    if (worker.draining == !event.off) return;  // only what becomes of it then
    worker.draining = !event.off;
    worker.needed = is_placed(it->first);
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
        if (!is_placed(id) && !it->second.needed) continue;
        it->second.draining = it->second.remove = false;
        it->second.drain_refused = reason;
        plan_wanted = true;
        capacity_cache.reset();
        actions.push_back(Report{
            "worker " + it->second.joined.node.name + " is not drained: without it " + reason, true,
            ReportCause::drain_refused});
    }
    plan_without.clear();
}

// One that was to be removed and has left is not expected back.
void Coordinator::Impl::keep_drain(const WorkerState& gone, bool left) {
    const bool over = gone.remove && (gone.drained || left);
    if (!gone.draining || over) return;
    const bool needed = gone.needed && !gone.replaced;
    drains_to_come.insert_or_assign(gone.joined.node.name, DrainToCome{gone.remove, needed, false});
}

void Coordinator::Impl::drain_as_before(TimePoint now, WorkerState& worker,
                                        std::vector<CoordinatorAction>& actions) {
    const auto known = drains_to_come.find(worker.joined.node.name);
    if (known == drains_to_come.end()) return;
    worker.draining = true;
    worker.remove = known->second.remove;
    worker.needed = known->second.needed;
    worker.drain_since = now;
    const bool restarted = known->second.before_restart;
    drains_to_come.erase(known);
    actions.push_back(Report{"worker " + worker.joined.node.name + " is drained, as before" +
                                 (restarted ? " the restart" : " it was lost"),
                             false,
                             restarted ? ReportCause::drained_as_before_the_restart
                                       : ReportCause::drained_as_before_it_was_lost});
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
        const bool undecided = worker.needed && !worker.replaced;
        if (worker.kv.requests() > 0 || is_placed(id) || undecided) continue;
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
