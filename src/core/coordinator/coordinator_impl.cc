#include "core/coordinator/coordinator_impl.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "base/planted_bug.h"
#include "core/coordinator/failed_moves.h"

namespace helix::core {
namespace {

std::string going_on_text(std::size_t requests) {
    if (requests == 0) return "";
    return "; " + std::to_string(requests) +
           (requests == 1 ? " request goes on elsewhere" : " requests go on elsewhere");
}

// Says whether the workers should have such a sequence.
bool runs(const RequestState& state, const SequenceKey& key) {
    const bool moves = state.migration && state.migration->attempt == key.attempt;
    if (moves) return key.member == 0;
    if (!state.running || state.attempt != key.attempt) return false;
    if (state.moved && key.member == 0) return true;
    if (!state.group || !state.group->forked) return key.member == 0;
    return state.group->find(key.member) != nullptr;
}

}  // namespace

// ---- the order of a step
// --------------------------------------------------------------------------

void Coordinator::Impl::step(TimePoint now, const CoordinatorEvent& event) {
    preempter.begin_step();
    std::visit(base::Overloaded{
                   [&](const Submitted& e) { dispatcher.on(now, e); },
                   [&](const Ended& e) { tokens.on(e); },
                   [&](const WorkerJoined& e) { worker_joined(now, e); },
                   [&](const WorkerLost& e) { worker_lost(now, e); },
                   [&](const FromWorker& e) { worker_said(now, e); },
                   [&](const Planned& e) { planning.on(now, e); },
                   [&](const NotPlanned& e) {
                       if (planning.on(e)) drains.refuse_drains(e.reason);
                   },
                   [&](const PlanAnew&) { planning.want_plan(now); },
                   [&](const CoordinatorTick&) { tick(now); },
                   [&](const Drafted& e) { speculation.on(e); },
                   [&](const MoveRequest& e) { migrations.on(now, e); },
                   [&](const DrainWorker& e) { drains.on(now, e); },
                   [&](const WorkerNotAdded& e) { scaling.on(now, e); },
                   [&](const LinksMeasured& e) { breaks.on(now, e); },
               },
               event);
    rollout.advance_pending(now);
    handover.hand_over(now);
    dispatcher.dispatch(now);
}

void Coordinator::Impl::tick(TimePoint now) {
    const std::string not_without = planning.maybe_plan(now);
    if (!not_without.empty()) drains.refuse_drains(not_without);
    rollout.empty_step(now);
    drains.advance_drains(now);
    rollout.repeat_assignments(now);
    speculation.end_late_drafts(now);
    balancer.balance(now);
    if (const auto drain = scaling.scale(now)) drains.on(now, *drain);
    migrations.end_late_migrations(now);
    breaks.forget_old_complaints(now);
    breaks.send_lost_rows_again(now);
    stalls.end_stalled(now);
    stalls.end_unserved(now);
    stalls.pass_verdicts(now);
    adoption.end_late(now);
    roles.tell_roles();
}

// ---- joining and leaving
// --------------------------------------------------------------------------

void Coordinator::Impl::take_planned_role(spec::NodeSpec& node) {
    const auto planned = config.roles.find(node.name);
    if (planned == config.roles.end()) return;
    const spec::NodeRole own = std::exchange(node.role, planned->second);
    if (own == spec::NodeRole::both || own == node.role) return;
    out.push(Report{"worker " + node.name + " was started with the role " + spec::to_string(own) +
                        ", but the placement has it for " + spec::to_string(node.role),
                    true});
}

void Coordinator::Impl::worker_joined(TimePoint now, const WorkerJoined& event) {
    if (!fleet.is_newest(event.worker, event.incarnation)) return;
    if (fleet.contains(event.worker)) lose_worker(now, event.worker, "was restarted", Loss::death);
    WorkerState state;
    state.joined = event;
    state.joined.holding.reset();
    if (event.holding.has_value()) {
        const std::string wrong = entrance.contradiction(*event.holding);
        if (!wrong.empty()) return out.push(CutOffWorker{event.worker, wrong});
        state.kept_layers = event.holding->layers;
        if (!base::planted(base::PlantedBug::epochs_begin_anew)) {
            placements.skip_epochs(event.holding->epoch);
        }
        restore.learn(*event.holding);
        adoption.note(event.worker, event.holding->sequences);
    }
    out.push(Report{"worker " + event.node.name + " joined", false});
    take_planned_role(state.joined.node);
    drains.drain_as_before(now, state);
    fleet.add(std::move(state));
    roles.note_workers();
    forget_failed_moves(fleet, requests);
    planning.want_plan(now);
}

void Coordinator::Impl::worker_lost(TimePoint now, const WorkerLost& event) {
    const auto it = fleet.find(event.worker);
    if (it == fleet.end()) return;
    const WorkerState& gone = it->second;
    const bool missed = !gone.drained;
    const bool dismissed = gone.drained && gone.remove;
    lose_worker(now, event.worker, dismissed ? "left" : event.reason,
                event.left ? Loss::left : Loss::death);
    if (missed) planning.want_plan(now);
}

// The worker's requests go on elsewhere: what they computed is computed again, and what was
// streamed stands.
void Coordinator::Impl::lose_worker(TimePoint now, WorkerId worker, const std::string& reason,
                                    Loss how) {
    WorkerState& gone = fleet.at(worker);
    const std::string name = gone.joined.node.name;
    gone.gone = true;
    migrations.abort_migrations_to(now, worker,
                                   {MigrationCause::worker_lost, "worker " + name + " " + reason});
    std::vector<RequestId> hit;
    for (const auto& [id, pages] : gone.kv.charges()) hit.push_back(id);
    const bool dismissed = gone.drained && gone.remove;
    out.push(Report{"worker " + name + " " + reason + going_on_text(hit.size()), !dismissed});
    if (how == Loss::death) suspects.acquit(worker);
    for (const RequestId id : hit) {
        RequestState& state = requests.at(id);
        if (how == Loss::death) suspects.note_death(now, state, worker);
        life.fail_over(now, state, RouteReason::worker_lost);
    }
    prefixes.clear();
    if (placements.in_router(worker)) placements.expect_no_flow();
    drains.keep_drain(gone, how == Loss::left);
    fleet.remove(worker);
    links.forget(worker);
    stages.forget(worker);
    adoption.forget(worker);
    roles.note_workers();
    forget_failed_moves(fleet, requests);
    preempter.forget(worker);
    out.forget(worker);
    placements.forget(worker);
}

void Coordinator::Impl::cut_off(TimePoint now, WorkerId worker, const std::string& why) {
    out.push(CutOffWorker{worker, why});
    lose_worker(now, worker, "was cut off: it " + why, Loss::cut_off);
    planning.want_plan(now);
}

// ---- what workers say
// -----------------------------------------------------------------------------

void Coordinator::Impl::worker_said(TimePoint now, const FromWorker& event) {
    const WorkerId worker = event.worker;
    if (!fleet.contains(worker)) return;  // it was lost meanwhile
    if (const auto* drawn = std::get_if<TokensProduced>(&event.message)) {
        for (const ProducedToken& token : drawn->tokens) requests.prefetch_place(token.key.request);
        for (const ProducedToken& token : drawn->tokens) requests.prefetch(token.key.request);
    }
    const std::string wrong =
        std::visit([&](const auto& message) { return entrance.contradiction(worker, message); },
                   event.message);
    if (!wrong.empty() && !base::planted(base::PlantedBug::lies_believed)) {
        return cut_off(now, worker, wrong);
    }
    std::visit(base::Overloaded{
                   [&](const TokensProduced& message) {
                       adoption.note_drawn(worker, message.tokens);
                       const std::string unasked = tokens.on_tokens(now, worker, message);
                       if (!unasked.empty()) cut_off(now, worker, unasked);
                   },
                   [&](const LayersReady& message) { layers_loaded(worker, message); },
                   [&](const LayersFailed& message) { layers_failed(now, worker, message); },
                   [&](const SequenceStuck& message) { preempter.on_stuck(now, worker, message); },
                   [&](const KvReserved& message) { migrations.on_reserved(now, worker, message); },
                   [&](const KvArrived& message) { migrations.on_arrived(now, worker, message); },
                   [&](const KvRefused& message) { migrations.on_refused(now, worker, message); },
                   [&](const PeerLost& message) { breaks.on_peer_lost(now, worker, message); },
                   [&](const WorkerReport& message) { worker_reported(now, worker, message); },
                   [&](const StageTimes& said) {
                       out.push(StageTimed{said.key.request, said.key.attempt, worker, said.batches,
                                           said.rows, said.busy, now - said.since_first,
                                           now - said.since_last});
                   },
               },
               event.message);
}

void Coordinator::Impl::layers_loaded(WorkerId worker, const LayersReady& message) {
    const WorkerState& state = fleet.at(worker);
    if (message.epoch != state.assigned_epoch || message.layers != state.layers) return;
    fleet.loaded(worker, message);
}

void Coordinator::Impl::layers_failed(TimePoint now, WorkerId worker, const LayersFailed& message) {
    const WorkerState& state = fleet.at(worker);
    if (message.epoch != state.assigned_epoch) return;
    out.push(Report{"worker " + state.joined.node.name + " could not load " +
                        layers_text(state.layers) + ": " + message.reason,
                    true});
    fleet.could_not_load(worker);
    placements.drop_pending();
    planning.want_plan(now);
}

void Coordinator::Impl::worker_reported(TimePoint now, WorkerId worker,
                                        const WorkerReport& message) {
    WorkerState& state = fleet.at(worker);
    state.last_report = message;
    state.reported_at = now;
    if (state.slowness.observe(now, message, state.joined.node, state.layers.size(),
                               config.slowdown)) {
        speed_changed(now, worker);
    }
    if (placements.router() != nullptr) placements.router()->on_report(worker, message);
    if (state.kv.requests() > 0) state.kv.set_reported(message.used_pages);
    FreeSequences strays;
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = 0; i < message.held.size(); ++i) {
        if (i + 2 * kAhead < message.held.size()) {
            requests.prefetch_place(message.held[i + 2 * kAhead].request);
        }
        if (i + kAhead < message.held.size()) {
            requests.prefetch_attempt(message.held[i + kAhead].request);
        }
        const SequenceKey& key = message.held[i];
        const RequestState* request = requests.by_id(key.request);
        const bool ours = request != nullptr && runs(*request, key);
        if (!ours && !adoption.is_kept(worker, key)) strays.keys.push_back(key);
    }
    if (!strays.keys.empty()) out.to_worker(worker, std::move(strays));
}

void Coordinator::Impl::speed_changed(TimePoint now, WorkerId worker) {
    const WorkerState& state = fleet.at(worker);
    const double factor = state.slowness.factor();
    std::string text = "worker " + state.joined.node.name;
    if (factor > 1) {
        text += " takes " + std::to_string(std::llround(factor * 100)) + " % of its usual time";
    } else {
        text += " is as fast as usual again";
    }
    out.push(Report{text, factor > 1});
    if (placements.in_router(worker)) placements.expect_no_flow();
    planning.want_plan(now);
}

}  // namespace helix::core
