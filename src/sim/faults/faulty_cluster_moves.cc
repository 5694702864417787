// Requests that are told to move, workers that are emptied, and what is seen of both.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

bool passes(const core::Pipeline& pipeline, core::WorkerId worker) {
    return std::any_of(pipeline.begin(), pipeline.end(),
                       [&](const core::Stage& stage) { return stage.worker == worker; });
}

Probe later(Probe first, core::MigrationPhase phase) {
    return static_cast<Probe>(static_cast<int>(first) + static_cast<int>(phase));
}

}  // namespace

// ---- moves
// ----------------------------------------------------------------------------------------

void FaultyCluster::keep_moving(std::uint64_t fault, double per_second) {
    if (!faults_.contains(fault)) return;
    move_any();
    after(1 / std::max(per_second, 0.01), [=, this] { keep_moving(fault, per_second); });
}

// Mostly one that could move.
void FaultyCluster::move_any() {
    std::vector<core::RequestId> open;
    for (const auto& [id, outcome] : outcomes_) {
        if (!outcome.ended && !outcome.pipelines.empty()) open.push_back(id);
    }
    if (open.empty()) return;
    core::MoveRequest move;
    move.id = choices_.chance(0.02) ? core::RequestId{choices_.below(next_request_ + 1)}
                                    : open[choices_.below(open.size())];
    if (choices_.chance(0.6)) move.to = any_pipeline();
    cluster_.tell(move);
}

// Some way through the layers as the workers hold them; none (the best one) where they hold none.
core::Pipeline FaultyCluster::any_pipeline() {
    const core::ClusterView view = coordinator().view();
    core::Pipeline pipeline;
    for (std::int32_t next = 0; next < config_.coordinator.n_layers;) {
        std::vector<const core::WorkerView*> holders;
        for (const core::WorkerView& worker : view.workers) {
            if (worker.layers.contains({next, next + 1}) && !passes(pipeline, worker.worker))
                holders.push_back(&worker);
        }
        if (holders.empty()) return {};
        const core::WorkerView& one = *holders[choices_.below(holders.size())];
        pipeline.push_back({one.worker, {next, one.layers.end}});
        next = one.layers.end;
    }
    return pipeline;
}

void FaultyCluster::on(const core::RequestRouted& action) {
    Outcome& outcome = outcomes_.at(action.id);
    pass_on(action.id, action);
    if (action.reason == core::RouteReason::adopted) return note_adopted(action, outcome);
    const MoveLedger::Move* move = moves_.of(action.id);
    const bool moved = move != nullptr && move->attempt == action.attempt;
    if (moved &&
        std::any_of(action.pipeline.begin(), action.pipeline.end(), [&](const core::Stage& stage) {
            return passes(outcome.pipelines.back(), stage.worker);
        })) {
        probes_.hit(Probe::migrated_on_a_shared_worker);
    }
    const bool again = !outcome.pipelines.empty();
    outcome.pipelines.push_back(action.pipeline);
    outcome.ran[action.attempt] = action.pipeline;
    outcome.attempt = action.attempt;
    note_touched(action.id, outcome);
    if (!again || moved) return;
    outcome.recomputed = true;
    counts_.recomputed_tokens += outcome.prompt_tokens +
                                 static_cast<std::int64_t>(outcome.tokens.size()) -
                                 action.cached_tokens;
    probes_.hit(Probe::preempted);
    if (carrier_.network().any_cut()) probes_.hit(Probe::preempted_while_cut);
}

void FaultyCluster::on(const core::MigrationEnded& over) {
    const auto found = outcomes_.find(over.id);
    const MoveLedger::Move* open = moves_.of(over.id);
    const MoveLedger::Move move = open == nullptr ? MoveLedger::Move{} : *open;
    const std::int64_t refused = moves_.counts().refused;
    check(moves_.end(over, found == outcomes_.end() ? 0 : found->second.attempt));
    if (moves_.counts().refused > refused) return probes_.hit(Probe::move_refused);
    if (found == outcomes_.end()) return check("a request moved that is not there");
    const Outcome& outcome = found->second;
    const bool handover = over.begun_for == core::MigrationReason::handover;
    if (over.phase != core::MigrationPhase::committed) {
        probes_.hit(Probe::migration_given_up);
        if (handover) probes_.hit(Probe::handover_given_up);
        probes_.hit(later(Probe::given_up_reserving, over.phase));
        probe_cause(over.cause);
        if (!losing_) return;
        const bool source = passes(outcome.pipelines.back(), *losing_);
        const bool destination = move.workers.contains(*losing_);
        if (source && !destination)
            probes_.hit(later(Probe::moved_source_lost_reserving, over.phase));
        if (!source && destination)
            probes_.hit(later(Probe::moved_destination_lost_reserving, over.phase));
        if (source && destination) probes_.hit(later(Probe::moved_both_lost_reserving, over.phase));
        return;
    }
    probes_.hit(Probe::migrated);
    if (carrier_.network().any_cut()) probes_.hit(Probe::migrated_while_cut);
    if (outcome.is_group) {
        probes_.hit(outcome.has_beams ? Probe::migrated_beams : Probe::migrated_group);
    }
    if (handover) {
        probes_.hit(outcome.is_group ? Probe::handed_over_group : Probe::handed_over);
        if (outcome.recomputed) probes_.hit(Probe::handed_over_after_recompute);
    }
    if (moves_.commits(over.id) == 5) probes_.hit(Probe::migrated_five_times);
}

void FaultyCluster::probe_cause(core::MigrationCause cause) {
    switch (cause) {
        case core::MigrationCause::refused:
            return probes_.hit(Probe::given_up_refused);
        case core::MigrationCause::unanswered:
            return probes_.hit(Probe::given_up_unanswered);
        case core::MigrationCause::held_too_long:
            return probes_.hit(Probe::given_up_held_too_long);
        case core::MigrationCause::worker_lost:
            return probes_.hit(Probe::given_up_worker_lost);
        case core::MigrationCause::link_broke:
            return probes_.hit(Probe::given_up_link_broke);
        case core::MigrationCause::pages_needed:
            return probes_.hit(Probe::given_up_pages_needed);
        case core::MigrationCause::destination_emptied:
            return probes_.hit(Probe::given_up_destination_drained);
        case core::MigrationCause::choice_ended:
            return probes_.hit(Probe::given_up_choice_ended);
        case core::MigrationCause::preempted:
            return probes_.hit(Probe::given_up_preempted);
        case core::MigrationCause::left_pipeline:
            return probes_.hit(Probe::given_up_left_pipeline);
        case core::MigrationCause::source_recovered:
            return;  // only under Llumnix' rule, which no fuzz case draws
        case core::MigrationCause::committed:
        case core::MigrationCause::not_begun:
            return check("a migration that began was given up without a cause");
    }
}

void FaultyCluster::probe_kv(const core::KvBlocks& message) {
    const Outcome& outcome = outcomes_.at(message.key.request);
    const MoveLedger::Move* move = moves_.of(message.key.request);
    if (move != nullptr && move->attempt == message.key.attempt) return;
    const bool committed = outcome.attempt == message.key.attempt;
    probes_.hit(committed ? Probe::kv_after_its_commit : Probe::kv_of_a_move_given_up);
}

void FaultyCluster::probe_answer(const core::CoordinatorMessage& message) {
    if (const auto* refused = std::get_if<core::KvRefused>(&message)) {
        if (refused->cause == core::KvRefusal::unheard) probes_.hit(Probe::parcel_orphaned);
    } else if (const auto* stuck = std::get_if<core::SequenceStuck>(&message)) {
        const auto found = outcomes_.find(stuck->key.request);
        const bool here = found != outcomes_.end() && found->second.attempt == stuck->key.attempt;
        if (here && stuck->cause == core::StuckCause::prefix_lost &&
            moves_.commits(stuck->key.request) > 0) {
            probes_.hit(Probe::moved_prefix_lost);
        }
    }
}

// ---- drains
// ---------------------------------------------------------------------------------------

void FaultyCluster::set_drain(Machine& machine) {
    core::DrainWorker drain;
    drain.worker = machine.id;
    drain.remove = machine.removes > 0;
    drain.off = machine.removes + machine.drains == 0;
    drain.name = machine.node.name;
    if (drain.off) probes_.hit(Probe::drain_called_off);
    cluster_.tell(drain);
}

void FaultyCluster::on(const core::WorkerDrained& action) {
    ++counts_.drained;
    probes_.hit(Probe::drained);
    for (const core::WorkerView& worker : coordinator().view().workers) {
        if (worker.worker != action.worker) continue;
        if (worker.running > 0 || worker.estimated_pages > 0)
            return check("a worker was called drained that is not empty");
    }
    const Machine& machine = *machines_.at(action.worker);
    if (!action.remove) return;
    after(config_.link_latency_s, [this, id = action.worker, incarnation = machine.incarnation] {
        dismiss(id, incarnation);
    });
}

void FaultyCluster::dismiss(core::WorkerId id, std::uint64_t incarnation) {
    Machine& machine = *machines_.at(id);
    if (!machine.alive() || machine.incarnation != incarnation || machine.removes == 0) return;
    probes_.hit(Probe::removed);
    stop(machine);
    end_session(id, incarnation, "left");
}

}  // namespace helix::sim
