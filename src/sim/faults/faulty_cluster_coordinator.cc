// The coordinator dies and starts again, or is replaced by the next one and comes back: clients see
// their streams end, workers notice that the link is down, give everything up and join the new one,
// which knows of its predecessor at most the placement.

#include <fmt/format.h>

#include <type_traits>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "base/random.h"
#include "core/protocol/describe.h"
#include "core/protocol/request_numbers.h"
#include "sim/faults/faulty_gateway.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kNoticeAgainSeconds = 0.1;  // of one that stands still

}  // namespace

void FaultyCluster::kill_coordinator(double told_after_s) {
    if (!cluster_.coordinator_up()) return;
    ++counts_.coordinator_kills;
    cluster_.kill_coordinator(prepare_next());
    note_coordinator_gone(told_after_s);
}

void FaultyCluster::replace_coordinator(double told_after_s, double back_after_s) {
    if (!cluster_.coordinator_up()) return;
    ++counts_.coordinators_replaced;
    standing_.emplace(cluster_.term(), back_after_s);
    former_ledgers_.emplace(cluster_.term(), std::move(ledger_));
    cluster_.replace_coordinator(prepare_next());
    note_coordinator_gone(told_after_s);
}

// What the next coordinator begins with.
core::CoordinatorConfig FaultyCluster::prepare_next() {
    const core::ClusterView view = coordinator().view();
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
    return next;
}

void FaultyCluster::note_coordinator_gone(double told_after_s) {
    ledger_ = std::make_unique<GatewayLedger>();
    moves_.forget();
    lost_since_placement_ = true;
    for (auto& [id, outcome] : outcomes_) {
        if (outcome.ended) continue;
        if (gateways_.empty()) {
            cut_off(id, outcome);
        } else {
            outcome.ended = true;  // until its gateway gives it to the next one
        }
    }
    for (const auto& gateway : gateways_) {
        miss_coordinator(*gateway, told_after_s * gateway_.uniform());
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
    for (const auto& [term, back_after_s] : std::exchange(standing_, {})) {
        after(back_after_s, [this, former = term] {
            if (cluster_.formers().at(former).state != SimCluster::Former::State::stands_still)
                return;
            probes_.hit(Probe::former_back);
            if (trace_) trace("c", fmt::format("of term {} is back", former));
            cluster_.bring_back(former);
        });
    }
}

// Who looks for a coordinator may find one that was replaced. It does not join that one, which
// hears of the later one from it.
bool FaultyCluster::finds_former(const core::FollowedTerm& followed) {
    for (const auto& [term, former] : cluster_.formers()) {
        const bool acts = former.state == SimCluster::Former::State::acts;
        if (!acts || followed.may_join(term) || !formers_.chance(0.5)) continue;
        if (!core::is_replaced(term, followed.highest())) continue;
        ++counts_.formers_stopped;
        probes_.hit(Probe::former_stopped);
        cluster_.stop_former(term);
        return true;
    }
    return false;
}

void FaultyCluster::former_does(std::uint64_t term, const core::CoordinatorAction& action) {
    digest_ = base::hash_pair(digest_, action.index());
    if (trace_) trace(fmt::format("c{}", term), core::describe(action));
    if (std::holds_alternative<core::SendToWorker>(action)) ++counts_.former_orders;
    if (const auto* routed = std::get_if<core::RequestRouted>(&action)) {
        Outcome& outcome = outcomes_.at(routed->id);
        outcome.ran[routed->attempt] = routed->pipeline;
        outcome.unheard.insert(routed->attempt);
        note_touched(routed->id, outcome);
    }
    if (const auto* cut = std::get_if<core::CutOffWorker>(&action)) {
        const auto& sessions = cluster_.formers().at(term).sessions;
        const auto session = sessions.find(cut->worker);
        const bool lied = session != sessions.end() &&
                          machines_.at(cut->worker)->lied_before.contains(session->second);
        if (!lied) check("a sound worker was cut off by a former coordinator: it " + cut->reason);
    }
    std::visit(base::Overloaded{
                   [&](const base::OneOf<core::AcceptRequest, core::RejectRequest,
                                         core::ScoreTokens, core::EmbedPrompt, core::StreamToken,
                                         core::FinishChoice, core::FinishRequest> auto& word) {
                       using Word = std::decay_t<decltype(word)>;
                       constexpr bool kLast = std::is_same_v<Word, core::RejectRequest> ||
                                              std::is_same_v<Word, core::FinishRequest>;
                       GatewayLedger& ledger = *former_ledgers_.at(term);
                       if (!ledger.roster.has(word.id)) return;
                       if constexpr (std::is_same_v<Word, core::FinishRequest>) {
                           note_losses(outcomes_.at(word.id));
                       }
                       ledger.roster.tell(word.id, word, kLast);
                       flush(ledger, term);
                   },
                   [](const auto&) {},
               },
               action);
}

// The worker hears that the link is down. All that it has it had for the one that is gone: it keeps
// that for the next, or starts again.
void FaultyCluster::lose_coordinator(core::WorkerId id, std::uint64_t incarnation) {
    Machine& machine = *machines_.at(id);
    if (!machine.alive() || machine.incarnation != incarnation || machine.alone) return;
    if (machine.term.hears(cluster_.term())) return;  // it knows the next one
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
