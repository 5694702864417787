#include "core/coordinator/planning.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace helix::core {

void Planning::want_plan(TimePoint now) {
    want_from(now, true);
}

std::string Planning::maybe_plan(TimePoint now) {
    if (!plan_wanted_ || plan_running_ || (placements_.pending() && placements_.pending()->loading))
        return {};
    const Restore::Progress before = restore_.advance(now);
    if (before.restored) want_from(now, before.improvable);
    if (before.awaits) return {};
    if (now - plan_wanted_since_ < config_.settle) return {};
    PlanCluster plan;
    std::set<WorkerId> without;
    std::map<std::int32_t, std::int32_t> index;  // worker id -> node index
    index[spec::kCoordinator] = spec::kCoordinator;
    for (const auto& [id, worker] : fleet_) {
        if (worker.failed) continue;
        if (worker.draining) {
            without.insert(id);
            continue;
        }
        index[static_cast<std::int32_t>(id.value)] = static_cast<std::int32_t>(plan.workers.size());
        plan.workers.push_back(id);
        plan.cluster.nodes.push_back(slowed(worker.joined.node, worker.slowness.factor()));
        plan.current.layers.push_back(worker.ready ? worker.layers : restore_.held_before(worker));
    }
    // Workers that are drained have joined, too.
    const auto joined = static_cast<std::int32_t>(plan.workers.size() + without.size());
    const bool enough = placements_.epoch() != 0 || joined >= config_.min_workers;
    if (plan.workers.empty() || !enough) {
        plan_without_ = std::move(without);
        return "no other worker is left";
    }
    for (const auto& [id, worker] : fleet_) {
        for (spec::LinkSpec link : worker.joined.links) {
            const auto from = index.find(link.from);
            const auto to = index.find(link.to);
            if (from == index.end() || to == index.end()) continue;  // it goes to a peer that left
            if (placements_.link_down(link)) continue;
            link.from = from->second;
            link.to = to->second;
            plan.cluster.links.push_back(link);
        }
    }
    plan_wanted_ = false;
    plan.plan = next_plan_++;
    plan_running_ = plan.plan;
    plan_workers_ = plan.workers;
    plan_without_ = std::move(without);
    out_.push(std::move(plan));
    return {};
}

bool Planning::on(const NotPlanned& event) {
    if (plan_running_ != event.plan) return false;
    plan_running_.reset();
    out_.push(Report{"no placement: " + event.reason, true});
    return true;
}

void Planning::on(TimePoint now, const Planned& event) {
    if (plan_running_ != event.plan) return;
    plan_running_.reset();
    CHECK(event.placement.layers.size() == plan_workers_.size());
    for (const WorkerId id : plan_without_) {
        if (fleet_.contains(id)) fleet_.at(id).replaced = true;
    }
    PendingPlacement next;
    next.placement = event.placement;
    next.workers = plan_workers_;
    next.flows = event.flows;
    next.kv_pages = event.kv_pages;
    CHECK(next.kv_pages.empty() || next.kv_pages.size() == next.workers.size());
    for (std::size_t i = 0; i < plan_workers_.size(); ++i) {
        const auto it = fleet_.find(plan_workers_[i]);
        if (it == fleet_.end() || it->second.draining) {  // it left while we planned
            want_plan(now);
            return;
        }
        if (it->second.layers == event.placement.layers[i] && it->second.ready) continue;
        next.changed.insert(plan_workers_[i]);
    }
    const bool leaves = std::any_of(fleet_.begin(), fleet_.end(), [&](const auto& worker) {
        return worker.second.draining && placements_.in_router(worker.first);
    });
    const bool whole = !event.chosen && placements_.epoch() != 0 && room_.capacity() > 0 &&
                       !leaves && !roles_.gains_roles(plan_workers_, event);
    if (whole && total_flow(event.flows) < config_.switch_gain * placements_.flow_in_force()) {
        out_.push(Report{"the placement in force stays: a new one would gain too little", false});
        return;
    }
    placements_.set_pending(std::move(next));
    placements_.know_ways();
}

}  // namespace helix::core
