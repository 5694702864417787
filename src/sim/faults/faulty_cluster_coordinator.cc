// The coordinator dies and starts again: clients see their streams end,
// workers notice that the link is down, give everything up and join the new one, which knows of its
// predecessor at most the placement.

#include <utility>

#include "base/random.h"
#include "core/protocol/request_numbers.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kNoticeAgainSeconds = 0.1;  // of one that stands still

}  // namespace

void FaultyCluster::kill_coordinator(double told_after_s) {
    if (!cluster_.coordinator_up()) return;
    const core::ClusterView view = coordinator().view();
    ++counts_.coordinator_kills;
    counts_.failovers += view.failovers;
    if (view.running > 0) probes_.hit(Probe::coordinator_killed_while_serving);
    if (view.migrating > 0) probes_.hit(Probe::coordinator_killed_while_migrating);
    if (carrier_.network().any_cut()) probes_.hit(Probe::coordinator_killed_while_cut);
    for (const core::WorkerView& worker : view.workers) {
        if (!worker.ready && !worker.layers.empty())
            probes_.hit(Probe::coordinator_killed_while_loading);
        if (worker.draining) probes_.hit(Probe::coordinator_killed_while_draining);
    }
    // What it has written down; some begin without.
    if (const core::RememberedPlacement* last = coordinator().placement_in_force()) {
        remembered_ = *last;
    }
    core::CoordinatorConfig next = config_.coordinator;
    if (choices_.chance(0.5)) {
        next.remembered = remembered_;
        next.remembered_drains = coordinator().drains();
    }
    cluster_.kill_coordinator(next);
    moves_.forget();
    lost_since_placement_ = true;
    for (auto& [id, outcome] : outcomes_) {
        if (outcome.ended) continue;
        if (config_.gateway) {
            wait_at_gateway(outcome);
        } else {
            cut_off(id, outcome);
        }
    }
    for (auto& [id, machine] : machines_) {
        machine->session = 0;
        machine->epoch_sent = 0;
        machine->falsely_lost = false;
        machine->last_hello.reset();
        if (!machine->alive() || !machine->welcome) continue;
        const double after_s = told_after_s * choices_.uniform();
        after(after_s, [this, worker = id, incarnation = machine->incarnation] {
            lose_coordinator(worker, incarnation);
        });
    }
}

// Its connection is gone.
void FaultyCluster::cut_off(core::RequestId id, Outcome& outcome) {
    outcome.ended = outcome.cut_off = true;
    outcome.ended_at = now();
    ++counts_.cut_off;
    --open_;
    drafts_.forget(id);
    if (watch_ != nullptr) watch_->cut_off(now(), id);
}

void FaultyCluster::start_coordinator() {
    if (cluster_.coordinator_up()) return;
    cluster_.start_coordinator();
    next_request_ = core::first_request((now() - core::TimePoint{}).ns / 1000).value;
    first_request_ = next_request_;
    if (trace_) trace("c", "starts again");
    for (const auto& [id, outcome] : outcomes_) {
        if (outcome.waits) hand_over_later(id);
    }
}

// The worker hears that the link is down. All that it has it had for the one that is gone: it keeps
// that for the next, or starts again.
void FaultyCluster::lose_coordinator(core::WorkerId id, std::uint64_t incarnation) {
    Machine& machine = *machines_.at(id);
    if (!machine.alive() || machine.incarnation != incarnation || machine.alone) return;
    if (machine.reign == cluster_.coordinator_deaths()) return;  // it knows the next one
    if (machine.pauses > 0) {
        return after(kNoticeAgainSeconds,
                     [this, id, incarnation] { lose_coordinator(id, incarnation); });
    }
    probes_.hit(Probe::coordinator_missed);
    if (!keeps_for_next()) return start_again(machine);
    machine.alone = true;
    worker_event(id, incarnation, core::CoordinatorLost{});
    hello(id, incarnation);
}

void FaultyCluster::start_again(Machine& machine) {
    stop(machine);
    after(kRestartSeconds, [this, id = machine.id] {
        Machine& again = *machines_.at(id);
        if (!again.alive() && again.kills == 0) start(again);
    });
}

}  // namespace helix::sim
