#include "core/coordinator/drains.h"

#include <algorithm>
#include <optional>
#include <string>

namespace helix::core {

void Drains::on(TimePoint now, const DrainWorker& event) {
    auto it = fleet_.find(event.worker);
    if (!event.name.empty()) {
        it = std::find_if(fleet_.begin(), fleet_.end(), [&](const auto& worker) {
            return worker.second.joined.node.name == event.name;
        });
    }
    if (it == fleet_.end()) {
        if (!event.off || drains_to_come_.erase(event.name) == 0) return;
        out_.push(Report{"worker " + event.name + " is used again when it comes back", false});
        return;
    }
    WorkerState& worker = it->second;
    const bool remove = event.remove && !event.off;
    if (worker.draining == !event.off && worker.remove == remove) return;
    const std::string name = "worker " + worker.joined.node.name;
    worker.remove = remove;
    worker.drained = false;
    worker.drain_refused.clear();
    if (worker.draining == !event.off) return;  // only what becomes of it afterwards has changed
    fleet_.set_draining(it->first, !event.off);
    worker.needed = restore_.is_placed(it->first);
    worker.replaced = false;
    worker.drain_since = now;
    if (placements_.pending() && !placements_.pending()->loading) {
        // It was planned with this worker if that is drained now, and without if it is used again.
        placements_.drop_pending();
    }
    planning_.want_plan(now);
    out_.push(Report{name + (event.off ? " is used again" : " is being drained"), false});
    advance_drains(now);
}

// No placement without the drained workers was found, so they go on serving.
void Drains::refuse_drains(const std::string& reason) {
    for (const WorkerId id : planning_.take_without()) {
        const auto it = fleet_.find(id);
        if (it == fleet_.end() || !it->second.draining || it->second.replaced) continue;
        if (!restore_.is_placed(id) && !it->second.needed) continue;
        fleet_.set_draining(id, false);
        it->second.remove = false;
        it->second.drain_refused = reason;
        planning_.want_now();
        out_.push(Report{
            "worker " + it->second.joined.node.name + " is not drained: without it " + reason, true,
            ReportCause::drain_refused});
    }
}

// A worker that was to be removed and has left is not expected back.
void Drains::keep_drain(const WorkerState& gone, bool left) {
    const bool over = gone.remove && (gone.drained || left);
    if (!gone.draining || over) return;
    const bool needed = gone.needed && !gone.replaced;
    drains_to_come_.insert_or_assign(gone.joined.node.name,
                                     DrainToCome{gone.remove, needed, false});
}

void Drains::drain_as_before(TimePoint now, WorkerState& worker) {
    const auto known = drains_to_come_.find(worker.joined.node.name);
    if (known == drains_to_come_.end()) return;
    worker.draining = true;
    worker.remove = known->second.remove;
    worker.needed = known->second.needed;
    worker.drain_since = now;
    const bool restarted = known->second.before_restart;
    drains_to_come_.erase(known);
    out_.push(Report{"worker " + worker.joined.node.name + " is drained, as before" +
                         (restarted ? " the restart" : " it was lost"),
                     false,
                     restarted ? ReportCause::drained_as_before_the_restart
                               : ReportCause::drained_as_before_it_was_lost});
}

void Drains::advance_drains(TimePoint now) {
    const bool any = std::any_of(fleet_.begin(), fleet_.end(),
                                 [](const auto& worker) { return worker.second.draining; });
    bool serve = any && placements_.router() != nullptr &&
                 placements_.router()->can_route([&](WorkerId id, LayerRange layers) {
                     const auto it = fleet_.find(id);  // it may have been lost meanwhile
                     if (it == fleet_.end() || it->second.draining || !it->second.ready)
                         return false;
                     const bool changes =
                         placements_.pending() && placements_.pending()->step.contains(id);
                     return !changes && it->second.layers.contains(layers);
                 });
    const bool waited = fleet_.drain_waits_for().has_value();
    std::optional<RequestId> waits_for;
    if (serve) {
        waits_for = room_.left_without_room(
            [this](const BlockDemand& demand) { return room_.holds_now(demand, false); });
        serve = !waits_for;
    }
    if (waits_for && !waited) {
        out_.push(Report{"draining waits: " + room_.waits_text(*waits_for), false});
    }
    for (auto& [id, worker] : fleet_) {
        if (!worker.draining || worker.drained) continue;
        if (serve && !fleet_.drained_closed()) worker.drain_since = now;
    }
    fleet_.close_drained(serve, waits_for);
    for (auto& [id, worker] : fleet_) {
        if (!worker.draining || worker.drained) continue;
        if (serve) emptier_.empty_worker(now, id, worker.drain_since, MigrationReason::drain);
        const bool undecided = worker.needed && !worker.replaced;
        if (worker.kv.requests() > 0 || restore_.is_placed(id) || undecided) continue;
        worker.drained = true;
        out_.push(Report{"worker " + worker.joined.node.name + " holds nothing any more" +
                             (worker.remove ? " and leaves" : ""),
                         false});
        out_.push(WorkerDrained{id, worker.remove});
    }
}

std::string Drains::drain_waits(const WorkerState& worker) const {
    if (!worker.draining || worker.drained) return "";
    for (const auto& id :
         {fleet_.drain_waits_for(),
          placements_.pending() ? placements_.pending()->waits_for : std::nullopt}) {
        if (id && requests_.contains(*id)) return room_.waits_text(*id);
    }
    return "";
}

std::vector<RememberedDrain> Drains::all() const {
    std::map<std::string, bool> all;
    for (const auto& [name, drain] : drains_to_come_) all[name] = drain.remove;
    for (const auto& [id, worker] : fleet_) {
        if (worker.draining) all[worker.joined.node.name] = worker.remove;
    }
    std::vector<RememberedDrain> drains;
    for (const auto& [name, remove] : all) drains.push_back({name, remove});
    return drains;
}

}  // namespace helix::core
