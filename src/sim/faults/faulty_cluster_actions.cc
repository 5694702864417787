// What the coordinator tells clients and people, and what is watched of messages and batches.

#include <algorithm>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "base/random.h"
#include "sim/faults/faulty_gateway.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {

// ---- answers
// --------------------------------------------------------------------------------------

// As in node, the planner says how much KV memory each worker will have.
core::CoordinatorEvent FaultyCluster::plan(const core::PlanCluster& question) {
    core::CoordinatorEvent event = plan_(question);
    if (auto* planned = std::get_if<core::Planned>(&event)) {
        for (std::size_t i = 0; i < question.workers.size(); ++i) {
            const bool holds = !planned->placement.layers[i].empty();
            planned->kv_pages.push_back(holds ? machines_.at(question.workers[i])->kv_pages : 0);
        }
    }
    return event;
}

std::optional<core::Drafted> FaultyCluster::draft(const core::ProposeDrafts& question) {
    return drafts_.answer(question);
}

void FaultyCluster::on(const core::ForgetDrafts& action) {
    drafts_.forget(action.id);
}

// ---- messages and batches
// -------------------------------------------------------------------------

void FaultyCluster::sends(SimMachine& to, const core::WorkerMessage& message) {
    Machine& machine = ours(to);
    std::visit(
        base::Overloaded{
            [&](const core::AssignLayers& assign) {
                if (machine.epoch_sent == assign.epoch) probes_.hit(Probe::assignment_resent);
                machine.epoch_sent = assign.epoch;
            },
            [&](const core::FreeSequences& freed) {
                for (const core::SequenceKey& key : freed.keys) {
                    const auto found = outcomes_.find(key.request);
                    if (found != outcomes_.end()) found->second.freed_attempt = key.attempt;
                }
            },
            [&](const core::SwapSequences& swap) {
                probes_.hit(swap.out ? Probe::swapped_out : Probe::swapped_in);
                if (swap.out) ++outcomes_.at(swap.keys.front().request).swaps_out;
            },
            [&](const core::ReserveKv& reserve) { check(moves_.reserve(machine.id, reserve)); },
            [&](const core::StageInputs& inputs) {
                for (const core::StageInput& input : inputs.inputs) {
                    const Outcome& outcome = outcomes_.at(input.key.request);
                    if (outcome.ended || input.key.attempt != outcome.attempt) {
                        check("rows were sent for an attempt that does not run");
                    }
                }
            },
            [](const base::OneOf<core::ForkSequences, core::SendKv, core::KvBlocks> auto&) {},
        },
        message);
}

bool FaultyCluster::says(SimMachine& machine, core::CoordinatorMessage& message) {
    if (ours(machine).alone) return false;  // nobody is there
    if (ours(machine).lies == 0) return true;
    std::optional<core::CoordinatorMessage> said = twist(ours(machine), std::move(message));
    if (!said.has_value()) return false;
    message = std::move(*said);
    return true;
}

bool FaultyCluster::takes(SimMachine& machine, const SimMessage& message) {
    const auto& content = std::get<core::WorkerMessage>(message.content);
    const auto* rows = std::get_if<core::StageInputs>(&content);
    if (const auto* blocks = std::get_if<core::KvBlocks>(&content)) probe_kv(*blocks);
    if (!machine.alive() || !machine.welcome) return false;
    const bool newer = machine.incarnation != message.incarnation;
    if (newer && !config_.peers_keep_address) return false;
    if (rows == nullptr) return true;
    if (newer) probes_.hit(Probe::rows_for_a_newer_incarnation);
    const bool older = std::any_of(rows->inputs.begin(), rows->inputs.end(), [&](const auto& one) {
        return one.key.request.value < first_request_;
    });
    if (older) probes_.hit(Probe::rows_of_an_older_coordinator);
    return true;
}

bool FaultyCluster::begins_batch(SimMachine& machine, const core::BatchPlan& plan) {
    return !dies_of(ours(machine), plan);
}

void FaultyCluster::batch_begun(SimMachine& /*machine*/, const core::BatchPlan& /*plan*/,
                                base::TimePoint end) {
    last_batch_end_ = std::max(last_batch_end_, end);
}

// ---- clients and people
// ---------------------------------------------------------------------------

void FaultyCluster::on(const core::AcceptRequest& action) {
    if (direct_watch() != nullptr) watch_->accepted(now(), action.id);
    pass_on(action.id, action);
    outcomes_.at(action.id).accepted = true;
}

void FaultyCluster::on(const core::RejectRequest& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (direct_watch() != nullptr) watch_->rejected(now(), action);
    pass_on(action.id, action, true);
    if (outcome.ended || outcome.accepted) return check("rejected after acceptance");
    outcome.ended = outcome.rejected = true;
    outcome.error = action.message;
    outcome.ended_at = now();
    static constexpr Probe kProbeOf[] = {Probe::rejected_too_long, Probe::rejected_queue_full,
                                         Probe::rejected_never_fits, Probe::rejected_unavailable};
    probes_.hit(kProbeOf[static_cast<std::size_t>(action.reason)]);
    if (gateways_.empty()) --open_;
}

// Nobody scales here.
void FaultyCluster::on(const core::AddWorker& /*action*/) {}

void FaultyCluster::on(const core::Report& action) {
    switch (action.cause) {
        case core::ReportCause::placement_in_force:
            if (!lost_since_placement_) probes_.hit(Probe::placement_replaced_while_serving);
            lost_since_placement_ = false;
            break;
        case core::ReportCause::placement_taken_up_again:
            return probes_.hit(Probe::placement_taken_up_again);
        case core::ReportCause::roles_not_kept:
            return probes_.hit(Probe::roles_not_kept);
        case core::ReportCause::drain_refused:
            return probes_.hit(Probe::drain_refused);
        case core::ReportCause::drained_as_before_the_restart:
            return probes_.hit(Probe::drained_as_before_the_restart);
        case core::ReportCause::drained_as_before_it_was_lost:
            return probes_.hit(Probe::drained_as_before_it_was_lost);
        case core::ReportCause::other:
            break;
    }
}

void FaultyCluster::on(const core::StreamToken& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (direct_watch() != nullptr) watch_->token(now(), action);
    pass_on(action.id, action);
    if (!outcome.accepted || outcome.ended) return check("a token of no open request");
    if (action.choice < 0 || action.choice >= outcome.n) return check("no such choice");
    // Groups keep what earlier attempts said of their members.
    if (!outcome.is_group && action.token.key.attempt != outcome.attempt) {
        return check("a token of an attempt that is over was streamed");
    }
    if (outcome.choices_ended.contains(action.choice)) {
        return check("a token of a choice that has ended");
    }
    outcome.killed = outcome.losses = 0;
    std::vector<core::Token>& tokens = outcome.choices[action.choice];
    if (action.index != static_cast<std::int32_t>(tokens.size())) {
        return check("a token was skipped or repeated");
    }
    if (outcome.choices.size() == 1 && tokens.empty()) outcome.first_token_at = now();
    tokens.push_back(action.token.token);
    if (action.choice == 0) outcome.tokens.push_back(action.token.token);
    digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(action.token.token));
}

void FaultyCluster::on(const core::ScoreTokens& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (direct_watch() != nullptr) watch_->scored(now(), action);
    pass_on(action.id, action);
    if (!outcome.accepted || outcome.ended || !outcome.choices.empty())
        return check("a prompt was scored that was not being computed");
    for (const core::ProducedToken& token : action.tokens) {
        if (token.key.attempt != outcome.attempt)
            return check("a prompt was scored by an attempt that is over");
        if (token.position != static_cast<std::int32_t>(outcome.scored.size()) + 1)
            return check("a token of a prompt was skipped or scored twice");
        outcome.scored.push_back(token);
        digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(token.token));
    }
}

void FaultyCluster::on(const core::EmbedPrompt& action) {
    Outcome& outcome = outcomes_.at(action.id);
    pass_on(action.id, action);
    if (!outcome.accepted || outcome.ended || !outcome.choices.empty())
        return check("a prompt was embedded that was not being computed");
    if (!outcome.embedding.empty() || action.values.empty())
        return check("a prompt was embedded twice, or as nothing");
    outcome.embedding = action.values;
    for (const float value : action.values)
        digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(value * 65536));
}

void FaultyCluster::on(const core::FinishChoice& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (direct_watch() != nullptr) watch_->choice_finished(now(), action);
    pass_on(action.id, action);
    const bool open = outcome.accepted && !outcome.ended && outcome.is_group;
    if (!open || !outcome.choices_ended.emplace(action.choice, action.reason).second) {
        return check("a choice ended that was not open");
    }
    probes_.hit(Probe::choice_finished);
}

void FaultyCluster::on(const core::FinishRequest& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (direct_watch() != nullptr) watch_->finished(now(), action);
    if (ledger_->roster.has(action.id)) note_losses(outcome);
    pass_on(action.id, action, true);
    if (outcome.ended) return check("a request ended twice");
    const bool whole = core::is_whole(action.reason);
    if (whole && outcome.is_group &&
        outcome.choices_ended.size() != static_cast<std::size_t>(outcome.n)) {
        return check("a request ended before its choices");
    }
    outcome.ended = true;
    outcome.reason = action.reason;
    outcome.cause = action.cause;
    outcome.error = action.error;
    outcome.ended_at = now();
    if (gateways_.empty()) --open_;
    probe_end(outcome);
}

// ---- rare paths
// -----------------------------------------------------------------------------------

void FaultyCluster::probe_tokens(const core::TokensProduced& message) {
    for (const core::ProducedToken& token : message.tokens) {
        const auto found = outcomes_.find(token.key.request);
        if (found == outcomes_.end()) continue;  // a lie
        const Outcome& outcome = found->second;
        if (outcome.is_group) continue;
        const auto next = outcome.prompt_tokens + static_cast<std::int32_t>(outcome.tokens.size());
        if (outcome.ended) {
            probes_.hit(Probe::token_of_ended_request_ignored);
        } else if (token.key.attempt < outcome.attempt) {
            probes_.hit(Probe::token_of_older_attempt_ignored);
        } else if (token.position < next) {
            probes_.hit(Probe::duplicate_token_ignored);
        }
    }
}

void FaultyCluster::probe_end(const Outcome& outcome) {
    if (outcome.reason == core::FinishReason::stop) probes_.hit(Probe::ended_by_stop_token);
    if (core::is_whole(outcome.reason)) {
        if (outcome.pipelines.size() > 1) probes_.hit(Probe::finished_after_preemption);
        if (outcome.was_stuck) probes_.hit(Probe::stuck_then_finished);
    } else if (outcome.reason == core::FinishReason::kills_workers) {
        probes_.hit(Probe::error_poison);
    } else if (outcome.reason == core::FinishReason::error) {
        if (outcome.cause == core::FailureCause::stalled) probes_.hit(Probe::error_stalled);
        if (outcome.cause == core::FailureCause::unserved) probes_.hit(Probe::error_unserved);
    }
}

}  // namespace helix::sim
