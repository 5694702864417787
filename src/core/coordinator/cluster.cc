// Workers that come and go, and the placements that follow.

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"
#include "base/random.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {
namespace {

std::string going_on_text(std::size_t requests) {
    if (requests == 0) return "";
    return "; " + std::to_string(requests) +
           (requests == 1 ? " request goes on elsewhere" : " requests go on elsewhere");
}

// Is there such a sequence at the workers?
bool runs(const RequestState& state, const SequenceKey& key) {
    const bool moves = state.migration && state.migration->attempt == key.attempt;
    if (moves) return key.member == 0;
    if (!state.running || state.attempt != key.attempt) return false;
    if (state.moved && key.member == 0) return true;
    if (!state.group || !state.group->forked) return key.member == 0;
    return state.group->find(key.member) != nullptr;
}

}  // namespace

bool Coordinator::Impl::usable(WorkerId worker, LayerRange layers) const {
    const auto it = workers.find(worker);
    return it != workers.end() && it->second.ready && !closed(worker) &&
           it->second.layers.contains(layers);
}

bool Coordinator::Impl::closed(WorkerId worker) const {
    if (pending && pending->step.contains(worker)) return true;
    return drains_closed && workers.at(worker).draining;
}

bool Coordinator::Impl::in_router(WorkerId worker) const {
    if (router == nullptr) return false;
    const PipelineGraph& graph = router->graph();
    const std::int32_t node = graph.node_of(worker);
    return node >= 0 && !graph.nodes()[static_cast<std::size_t>(node)].layers.empty();
}

// ---- joining and leaving
// --------------------------------------------------------------------------

void Coordinator::Impl::on(TimePoint now, const WorkerJoined& event,
                           std::vector<CoordinatorAction>& actions) {
    std::uint64_t& newest = incarnations[event.worker];
    const bool old = event.incarnation <= newest;  // a hello that comes late
    if (old && !base::planted(base::PlantedBug::old_incarnation_joins)) return;
    newest = event.incarnation;
    if (workers.contains(event.worker))
        lose_worker(now, event.worker, "was restarted", Loss::death, actions);
    WorkerState state;
    state.joined = event;
    actions.push_back(Report{"worker " + event.node.name + " joined", false});
    drain_as_before(now, state, actions);
    workers.emplace(event.worker, std::move(state));
    note_roles();
    forget_failed_moves();
    want_plan(now);
}

void Coordinator::Impl::on(TimePoint now, const WorkerLost& event,
                           std::vector<CoordinatorAction>& actions) {
    const auto it = workers.find(event.worker);
    if (it == workers.end()) return;
    const WorkerState& gone = it->second;
    const bool missed = !gone.drained;
    const bool dismissed = gone.drained && gone.remove;
    lose_worker(now, event.worker, dismissed ? "left" : event.reason,
                event.left ? Loss::left : Loss::death, actions);
    if (missed) want_plan(now);
}

// Its requests go on elsewhere: what they computed is computed again, what was streamed stands.
void Coordinator::Impl::lose_worker(TimePoint now, WorkerId worker, const std::string& reason,
                                    Loss how, std::vector<CoordinatorAction>& actions) {
    const WorkerState& gone = workers.at(worker);
    const std::string name = gone.joined.node.name;
    workers.at(worker).gone = true;
    abort_migrations_to(step_at, worker, "worker " + name + " " + reason, actions);
    std::vector<RequestId> hit;
    for (const auto& [id, pages] : gone.kv.charges()) hit.push_back(id);
    const bool dismissed = gone.drained && gone.remove;
    actions.push_back(
        Report{"worker " + name + " " + reason + going_on_text(hit.size()), !dismissed});
    if (how == Loss::death) acquit(worker);
    for (const RequestId id : hit) {
        RequestState& state = requests.at(id);
        if (how == Loss::death) note_death(now, state, worker);
        fail_over(now, state, actions);
    }
    prefixes.clear();
    if (in_router(worker)) flow_in_force = 0;  // whatever can replace it is a gain
    capacity_cache.reset();
    keep_drain(gone, how == Loss::left);
    workers.erase(worker);
    link_health.forget(worker);
    note_roles();
    forget_failed_moves();
    last_preemption.erase(worker);
    outbox.erase(worker);
    if (pending && std::find(pending->workers.begin(), pending->workers.end(), worker) !=
                       pending->workers.end()) {
        pending.reset();
    }
    if (pending) pending->waits_for.reset();  // what it lost it need not wait for
}

void Coordinator::Impl::on(TimePoint now, const FromWorker& event,
                           std::vector<CoordinatorAction>& actions) {
    const auto it = workers.find(event.worker);
    if (it == workers.end()) return;  // lost meanwhile
    const std::string wrong = std::visit(
        [&](const auto& message) { return contradiction(event.worker, message); }, event.message);
    if (!wrong.empty() && !base::planted(base::PlantedBug::lies_believed)) {
        return cut_off(now, event.worker, wrong, actions);
    }
    WorkerState& worker = it->second;
    if (const auto* tokens = std::get_if<TokensProduced>(&event.message)) {
        on_tokens(now, event.worker, *tokens, actions);
    } else if (const auto* ready = std::get_if<LayersReady>(&event.message)) {
        if (ready->epoch != worker.assigned_epoch || ready->layers != worker.layers) return;
        if (worker.kv.requests() == 0) {
            worker.kv.reset(ready->total_pages);
            worker.swap_total = ready->swap_pages;
        }
        worker.ready = true;
        worker.said = *ready;
        worker.kv_format = ready->kv_format;
        worker.kv_page_bytes = ready->kv_page_bytes;
        worker.kv_bytes_per_s = ready->kv_bytes_per_s;
        capacity_cache.reset();
    } else if (const auto* failure = std::get_if<LayersFailed>(&event.message)) {
        if (failure->epoch != worker.assigned_epoch) return;
        actions.push_back(Report{"worker " + worker.joined.node.name + " could not load " +
                                     layers_text(worker.layers) + ": " + failure->reason,
                                 true});
        worker.failed = true;
        worker.ready = false;
        worker.layers = {};
        pending.reset();
        capacity_cache.reset();
        want_plan(now);
    } else if (const auto* stuck = std::get_if<SequenceStuck>(&event.message)) {
        on_stuck(now, event.worker, *stuck, actions);
    } else if (const auto* reserved = std::get_if<KvReserved>(&event.message)) {
        on_reserved(now, event.worker, *reserved, actions);
    } else if (const auto* arrived = std::get_if<KvArrived>(&event.message)) {
        on_arrived(now, event.worker, *arrived, actions);
    } else if (const auto* refused = std::get_if<KvRefused>(&event.message)) {
        on_refused(now, event.worker, *refused, actions);
    } else if (const auto* lost = std::get_if<PeerLost>(&event.message)) {
        on_peer_lost(now, event.worker, *lost, actions);
    } else {
        on_report(now, event.worker, std::get<WorkerReport>(event.message), actions);
    }
}

void Coordinator::Impl::on_report(TimePoint now, WorkerId worker, const WorkerReport& message,
                                  std::vector<CoordinatorAction>& actions) {
    WorkerState& state = workers.at(worker);
    state.last_report = message;
    state.reported_at = now;
    if (state.slowness.observe(now, message, state.joined.node, state.layers.size(),
                               config.slowdown)) {
        on_slowness(now, worker, actions);
    }
    if (router != nullptr) router->on_report(worker, message);
    if (state.kv.requests() > 0) state.kv.set_reported(message.used_pages);
    FreeSequences strays;
    for (const SequenceKey& key : message.held) {
        const auto it = requests.find(key.request);
        const bool ours = it != requests.end() && runs(it->second, key);
        if (!ours) strays.keys.push_back(key);
    }
    if (!strays.keys.empty()) actions.push_back(SendToWorker{worker, std::move(strays)});
}

void Coordinator::Impl::on_slowness(TimePoint now, WorkerId worker,
                                    std::vector<CoordinatorAction>& actions) {
    const WorkerState& state = workers.at(worker);
    const double factor = state.slowness.factor();
    std::string text = "worker " + state.joined.node.name;
    if (factor > 1) {
        text += " takes " + std::to_string(std::llround(factor * 100)) + " % of its usual time";
    } else {
        text += " is as fast as usual again";
    }
    actions.push_back(Report{text, factor > 1});
    if (in_router(worker)) flow_in_force = 0;  // it was for another speed
    want_plan(now);
}

// ---- planning
// -------------------------------------------------------------------------------------

void Coordinator::Impl::want_plan(TimePoint now) {
    plan_wanted = true;
    plan_wanted_since = now;
}

void Coordinator::Impl::on(TimePoint now, const CoordinatorTick&,
                           std::vector<CoordinatorAction>& actions) {
    maybe_plan(now, actions);
    empty_step(now, actions);
    advance_drains(now, actions);
    repeat_assignments(now, actions);
    end_late_drafts(now);
    balance(now, actions);
    scale(now, actions);
    end_late_migrations(now, actions);
    forget_old_complaints(now, actions);
    send_lost_rows_again(now, actions);
    end_stalled(now, actions);
    end_unserved(now, actions);
    pass_verdicts(now, actions);
    tell_roles(actions);
}

void Coordinator::Impl::maybe_plan(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (!plan_wanted || plan_running || (pending && pending->loading)) return;
    if (awaits_remembered(now, actions)) return;
    if (now - plan_wanted_since < config.settle) return;
    PlanCluster plan;
    std::set<WorkerId> without;
    std::map<std::int32_t, std::int32_t> index;  // worker id -> node index
    index[spec::kCoordinator] = spec::kCoordinator;
    for (const auto& [id, worker] : workers) {
        if (worker.failed) continue;
        if (worker.draining) {
            without.insert(id);
            continue;
        }
        index[static_cast<std::int32_t>(id.value)] = static_cast<std::int32_t>(plan.workers.size());
        plan.workers.push_back(id);
        plan.cluster.nodes.push_back(slowed(worker.joined.node, worker.slowness.factor()));
        plan.current.layers.push_back(worker.ready ? worker.layers : held_before(worker));
    }
    // Those that are drained have joined, too.
    const auto joined = static_cast<std::int32_t>(plan.workers.size() + without.size());
    const bool enough = epoch_in_force != 0 || joined >= config.min_workers;
    if (plan.workers.empty() || !enough) {
        plan_without = std::move(without);
        refuse_drains("no other worker is left", actions);
        return;
    }
    for (const auto& [id, worker] : workers) {
        for (spec::LinkSpec link : worker.joined.links) {
            const auto from = index.find(link.from);
            const auto to = index.find(link.to);
            if (from == index.end() || to == index.end()) continue;  // a peer that left
            if (link_down(link)) continue;
            link.from = from->second;
            link.to = to->second;
            plan.cluster.links.push_back(link);
        }
    }
    plan_wanted = false;
    plan.plan = next_plan++;
    plan_running = plan.plan;
    plan_workers = plan.workers;
    plan_without = std::move(without);
    actions.push_back(std::move(plan));
}

void Coordinator::Impl::on(TimePoint, const NotPlanned& event,
                           std::vector<CoordinatorAction>& actions) {
    if (plan_running != event.plan) return;
    plan_running.reset();
    actions.push_back(Report{"no placement: " + event.reason, true});
    refuse_drains(event.reason, actions);
}

void Coordinator::Impl::on(TimePoint now, const Planned& event,
                           std::vector<CoordinatorAction>& actions) {
    if (plan_running != event.plan) return;
    plan_running.reset();
    CHECK(event.placement.layers.size() == plan_workers.size());
    for (const WorkerId id : plan_without) {
        if (workers.contains(id)) workers.at(id).replaced = true;
    }
    PendingPlacement next;
    next.placement = event.placement;
    next.workers = plan_workers;
    next.flows = event.flows;
    next.kv_pages = event.kv_pages;
    CHECK(next.kv_pages.empty() || next.kv_pages.size() == next.workers.size());
    for (std::size_t i = 0; i < plan_workers.size(); ++i) {
        const auto it = workers.find(plan_workers[i]);
        if (it == workers.end() || it->second.draining) {  // left while we planned
            want_plan(now);
            return;
        }
        if (it->second.layers == event.placement.layers[i] && it->second.ready) continue;
        next.changed.insert(plan_workers[i]);
    }
    const bool leaves = std::any_of(workers.begin(), workers.end(), [&](const auto& worker) {
        return worker.second.draining && in_router(worker.first);
    });
    const bool whole = epoch_in_force != 0 && capacity() > 0 && !leaves && !gains_roles(event);
    if (whole && total_flow(event.flows) < config.switch_gain * flow_in_force) {
        actions.push_back(
            Report{"the placement in force stays: a new one would gain too little", false});
        return;
    }
    pending = std::move(next);
    know_ways();
    capacity_cache.reset();
}

void Coordinator::Impl::flush_outbox(std::vector<CoordinatorAction>& actions) {
    for (auto& [worker, inputs] : outbox) {
        if (!inputs.inputs.empty()) actions.push_back(SendToWorker{worker, std::move(inputs)});
    }
    outbox.clear();
}

}  // namespace helix::core
