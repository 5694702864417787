// What coordinator and workers ask of the world.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "sim/faults/faulty_machine.h"

namespace helix::sim {
namespace {

constexpr double kRowHeaderBytes = 64;
constexpr double kPlanSeconds = 0.01;
constexpr double kSecondCopySeconds = 0.02;  // after the first of a message that comes twice

}  // namespace

FaultyCluster::Kind FaultyCluster::kind_of(const core::CoordinatorMessage& message) {
    if (std::holds_alternative<core::TokensProduced>(message)) return Kind::tokens;
    if (std::holds_alternative<core::SequenceStuck>(message)) return Kind::stuck;
    if (std::holds_alternative<core::WorkerReport>(message)) return Kind::report;
    if (std::holds_alternative<core::KvReserved>(message) ||
        std::holds_alternative<core::KvArrived>(message) ||
        std::holds_alternative<core::KvRefused>(message)) {
        return Kind::kv;
    }
    return Kind::ready;
}

void FaultyCluster::send(std::int32_t from, std::int32_t to, double bytes, Kind kind,
                         std::function<void()> deliver) {
    if (postman_) {
        static constexpr const char* kWords[] = {"assignment", "rows",   "free", "tokens", "ready",
                                                 "stuck",      "report", "fork", "swap",   "KV"};
        const Fate fate = postman_({++letters_, from, to, kWords[static_cast<std::size_t>(kind)]});
        if (fate.lost) return;
        if (fate.late_s > 0) return after(config_.link_latency_s + fate.late_s, deliver);
        if (fate.twice) after(config_.link_latency_s + kSecondCopySeconds, deliver);
    }
    const std::int64_t lost = network_.lost();
    std::vector<FaultNetwork::Arrival> arrivals =
        network_.send(now_, from, to, bytes, std::move(deliver));
    struct Names {
        Probe lost;
        Probe twice;
    };
    static constexpr Names kNames[] = {
        {Probe::assignment_lost, Probe::assignment_duplicated},
        {Probe::rows_lost, Probe::rows_duplicated},
        {Probe::free_lost, Probe::free_duplicated},
        {Probe::tokens_lost, Probe::tokens_duplicated},
        {Probe::ready_lost, Probe::ready_duplicated},
        {Probe::stuck_message_lost, Probe::count_},
        {Probe::report_lost, Probe::count_},
        {Probe::fork_lost, Probe::fork_duplicated},
        {Probe::swap_lost, Probe::swap_duplicated},
        {Probe::kv_lost, Probe::kv_duplicated},
    };
    const Names& names = kNames[static_cast<std::size_t>(kind)];
    if (network_.lost() > lost) probes_.hit(names.lost);
    if (arrivals.size() == 2 && names.twice != Probe::count_) probes_.hit(names.twice);
    release(std::move(arrivals));
}

// ---- what the coordinator asks for
// ----------------------------------------------------------------

void FaultyCluster::perform(const core::CoordinatorAction& action) {
    if (const auto* out = std::get_if<core::SendToWorker>(&action)) {
        perform(*out);
    } else if (const auto* plan = std::get_if<core::PlanCluster>(&action)) {
        after(kPlanSeconds, [this, life = life_, request = *plan] {
            if (life == life_) answer(request);
        });
    } else if (const auto* question = std::get_if<core::ProposeDrafts>(&action)) {
        if (auto answer = drafts_.answer(*question)) {
            after(config_.draft_s, [this, life = life_, answer = *answer] {
                if (life == life_) coordinator_event(answer);
            });
        }
    } else if (const auto* ended = std::get_if<core::ForgetDrafts>(&action)) {
        drafts_.forget(ended->id);
    } else {
        perform_for_client(action);
    }
}

// As in node, the planner says how much KV memory each worker will have.
void FaultyCluster::answer(const core::PlanCluster& request) {
    core::CoordinatorEvent event = plan_(request);
    if (auto* planned = std::get_if<core::Planned>(&event)) {
        for (std::size_t i = 0; i < request.workers.size(); ++i) {
            const bool holds = !planned->placement.layers[i].empty();
            planned->kv_pages.push_back(holds ? machines_.at(request.workers[i])->kv_pages : 0);
        }
    }
    coordinator_event(event);
}

void FaultyCluster::perform(const core::SendToWorker& action) {
    Machine& machine = *machines_.at(action.worker);
    Kind kind = Kind::rows;
    if (const auto* assign = std::get_if<core::AssignLayers>(&action.message)) {
        kind = Kind::assign;
        if (machine.epoch_sent == assign->epoch) probes_.hit(Probe::assignment_resent);
        machine.epoch_sent = assign->epoch;
    } else if (const auto* freed = std::get_if<core::FreeSequences>(&action.message)) {
        kind = Kind::free;
        for (const core::SequenceKey& key : freed->keys) {
            const auto found = outcomes_.find(key.request);
            if (found != outcomes_.end()) found->second.freed_attempt = key.attempt;
        }
    } else if (std::holds_alternative<core::ForkSequences>(action.message)) {
        kind = Kind::fork;
    } else if (const auto* swap = std::get_if<core::SwapSequences>(&action.message)) {
        kind = Kind::swap;
        probes_.hit(swap->out ? Probe::swapped_out : Probe::swapped_in);
        if (swap->out) ++outcomes_.at(swap->keys.front().request).swaps_out;
    } else if (const auto* reserve = std::get_if<core::ReserveKv>(&action.message)) {
        kind = Kind::kv;
        check_sound(moves_.reserve(action.worker, *reserve));
    } else if (std::holds_alternative<core::SendKv>(action.message)) {
        kind = Kind::kv;
    } else if (const auto* inputs = std::get_if<core::StageInputs>(&action.message)) {
        for (const core::StageInput& input : inputs->inputs) {
            const Outcome& outcome = outcomes_.at(input.key.request);
            if (outcome.ended || input.key.attempt != outcome.attempt) {
                check_sound("rows were sent for an attempt that does not run");
            }
        }
    }
    const std::uint64_t session = machine.session;
    send(spec::kCoordinator, vertex(action.worker), kRowHeaderBytes, kind,
         [this, id = action.worker, session, message = action.message] {
             worker_event(id, session, core::MessageArrived{message});
         });
}

void FaultyCluster::perform_for_client(const core::CoordinatorAction& action) {
    if (const auto* token = std::get_if<core::StreamToken>(&action)) {
        stream(*token);
    } else if (const auto* scored = std::get_if<core::ScoreTokens>(&action)) {
        score(*scored);
    } else if (const auto* one = std::get_if<core::FinishChoice>(&action)) {
        finish(*one);
    } else if (const auto* end = std::get_if<core::FinishRequest>(&action)) {
        finish(*end);
    } else if (const auto* no = std::get_if<core::RejectRequest>(&action)) {
        Outcome& outcome = outcomes_.at(no->id);
        if (watch_ != nullptr) watch_->rejected(now_, *no);
        if (outcome.ended || outcome.accepted) return check_sound("rejected after acceptance");
        outcome.ended = outcome.rejected = true;
        outcome.error = no->message;
        outcome.ended_at = now_;
        static constexpr Probe kProbeOf[] = {Probe::rejected_too_long, Probe::rejected_queue_full,
                                             Probe::rejected_never_fits,
                                             Probe::rejected_unavailable};
        probes_.hit(kProbeOf[static_cast<std::size_t>(no->reason)]);
        --open_;
    } else if (const auto* accepted = std::get_if<core::AcceptRequest>(&action)) {
        if (watch_ != nullptr) watch_->accepted(now_, accepted->id);
        outcomes_.at(accepted->id).accepted = true;
    } else if (const auto* routed = std::get_if<core::RequestRouted>(&action)) {
        note_routed(*routed);
    } else if (const auto* over = std::get_if<core::MigrationEnded>(&action)) {
        note_migration(*over);
    } else if (const auto* drained = std::get_if<core::WorkerDrained>(&action)) {
        note_drained(*drained);
    } else if (const auto* liar = std::get_if<core::CutOffWorker>(&action)) {
        cut_off(*liar);
    } else if (const auto* report = std::get_if<core::Report>(&action)) {
        note_report(report->cause);
    }
}

void FaultyCluster::note_report(core::ReportCause cause) {
    switch (cause) {
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

void FaultyCluster::stream(const core::StreamToken& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (watch_ != nullptr) watch_->token(now_, action);
    if (!outcome.accepted || outcome.ended) return check_sound("a token of no open request");
    if (action.choice < 0 || action.choice >= outcome.n) return check_sound("no such choice");
    // Groups keep what earlier attempts said of their members.
    if (!outcome.is_group && action.token.key.attempt != outcome.attempt) {
        return check_sound("a token of an attempt that is over was streamed");
    }
    if (outcome.choices_ended.contains(action.choice)) {
        return check_sound("a token of a choice that has ended");
    }
    outcome.killed = 0;
    std::vector<core::Token>& tokens = outcome.choices[action.choice];
    if (action.index != static_cast<std::int32_t>(tokens.size())) {
        return check_sound("a token was skipped or repeated");
    }
    if (outcome.choices.size() == 1 && tokens.empty()) outcome.first_token_at = now_;
    tokens.push_back(action.token.token);
    if (action.choice == 0) outcome.tokens.push_back(action.token.token);
    digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(action.token.token));
}

void FaultyCluster::score(const core::ScoreTokens& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (watch_ != nullptr) watch_->scored(now_, action);
    if (!outcome.accepted || outcome.ended || !outcome.choices.empty())
        return check_sound("a prompt was scored that was not being computed");
    for (const core::ProducedToken& token : action.tokens) {
        if (token.key.attempt != outcome.attempt)
            return check_sound("a prompt was scored by an attempt that is over");
        if (token.position != static_cast<std::int32_t>(outcome.scored.size()) + 1)
            return check_sound("a token of a prompt was skipped or scored twice");
        outcome.scored.push_back(token);
        digest_ = base::hash_pair(digest_, static_cast<std::uint64_t>(token.token));
    }
}

void FaultyCluster::finish(const core::FinishChoice& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (watch_ != nullptr) watch_->choice_finished(now_, action);
    const bool open = outcome.accepted && !outcome.ended && outcome.is_group;
    if (!open || !outcome.choices_ended.emplace(action.choice, action.reason).second) {
        return check_sound("a choice ended that was not open");
    }
    probes_.hit(Probe::choice_finished);
}

void FaultyCluster::finish(const core::FinishRequest& action) {
    Outcome& outcome = outcomes_.at(action.id);
    if (watch_ != nullptr) watch_->finished(now_, action);
    if (outcome.ended) return check_sound("a request ended twice");
    const bool whole = core::is_whole(action.reason);
    if (whole && outcome.is_group &&
        outcome.choices_ended.size() != static_cast<std::size_t>(outcome.n)) {
        return check_sound("a request ended before its choices");
    }
    outcome.ended = true;
    outcome.reason = action.reason;
    outcome.error = action.error;
    outcome.ended_at = now_;
    --open_;
    probe_end(outcome);
}

// ---- what a worker asks for
// -----------------------------------------------------------------------

void FaultyCluster::perform(Machine& machine, const core::WorkerAction& action) {
    const core::WorkerId id = machine.id;
    const std::uint64_t incarnation = machine.incarnation;
    if (const auto* batch = std::get_if<core::RunBatch>(&action)) {
        run_batch(machine, batch->plan);
    } else if (const auto* peer = std::get_if<core::SendToPeer>(&action)) {
        send_rows(machine, *peer);
    } else if (const auto* out = std::get_if<core::SendToCoordinator>(&action)) {
        std::optional<core::CoordinatorMessage> said = out->message;
        if (machine.lies > 0) said = twist(machine, out->message);
        if (!said) return;
        send(vertex(id), spec::kCoordinator, kRowHeaderBytes, kind_of(*said),
             [this, id, incarnation, message = *said] { from_worker(id, incarnation, message); });
    } else if (const auto* load = std::get_if<core::LoadLayers>(&action)) {
        const std::int64_t pages = load->layers.empty() ? 0 : machine.kv_pages;
        const std::int64_t swap_pages = load->layers.empty() ? 0 : config_.swap_pages;
        machine.engine->load(load->layers, pages, swap_pages);
        after(config_.load_s * std::min(machine.slow, kSlowestLoad), [this, id, incarnation,
                                                                      l = *load, pages,
                                                                      swap_pages] {
            const std::string format =
                "toy " + std::to_string(static_cast<std::int32_t>(id.value) % config_.kv_formats);
            worker_event(id, incarnation,
                         core::LayersLoaded{l.epoch, pages, swap_pages, format,
                                            config_.kv_page_bytes, config_.migration_bytes_per_s});
        });
    } else if (const auto* release = std::get_if<core::ReleaseBuffer>(&action)) {
        if (machine.buffers.erase(release->buffer) != 1) {
            check_sound("released a buffer that is not there");
        }
    } else if (const auto* kv_out = std::get_if<core::ExportKv>(&action)) {
        export_kv(machine, *kv_out);
    } else if (const auto* kv_in = std::get_if<core::ImportKv>(&action)) {
        import_kv(machine, *kv_in);
    } else if (const auto* wake = std::get_if<core::WakeAt>(&action)) {
        after((wake->at - now_).seconds(),
              [this, id, incarnation] { worker_event(id, incarnation, core::WorkerTick{}); });
    }  // ConnectPeers: every machine reaches every other
}

void FaultyCluster::run_batch(Machine& machine, const core::BatchPlan& plan) {
    if (dies_of(machine, plan)) return;
    ToyEngine::Outcome outcome = machine.engine->run(plan, machine.buffers);
    const core::Duration took =
        base::from_seconds(batch_seconds(plan, machine.node, cost_) * machine.slow);
    machine.buffers[plan.id] = std::move(outcome.output);
    last_batch_end_ = std::max(last_batch_end_, now_ + took);
    at(now_ + took, [this, id = machine.id, incarnation = machine.incarnation, batch = plan.id,
                     tokens = std::move(outcome.tokens), scored = std::move(outcome.scored), took] {
        worker_event(id, incarnation, core::BatchFinished{batch, tokens, took, {}, scored});
    });
}

void FaultyCluster::send_rows(Machine& machine, const core::SendToPeer& action) {
    core::StageInputs inputs = action.inputs;
    ToyRows rows;
    for (core::StageInput& input : inputs.inputs) {
        const ToyRows& source = machine.buffers.at(input.payload.buffer);
        const auto first = source.begin() + input.payload.first_row;
        const auto at_row = static_cast<std::uint32_t>(rows.size());
        rows.insert(rows.end(), first, first + input.payload.rows);
        input.payload.first_row = at_row;
    }
    const double bytes = static_cast<double>(rows.size()) * config_.activation_bytes +
                         kRowHeaderBytes * static_cast<double>(inputs.inputs.size());
    const std::uint64_t incarnation = machines_.at(action.peer)->incarnation;
    send(vertex(machine.id), vertex(action.peer), bytes, Kind::rows,
         [this, to = action.peer, incarnation, inputs = std::move(inputs), rows = std::move(rows)] {
             deliver_rows(to, incarnation, inputs, rows);
         });
}

void FaultyCluster::deliver_rows(core::WorkerId to, std::uint64_t incarnation,
                                 core::StageInputs inputs, ToyRows rows) {
    Machine& machine = *machines_.at(to);
    if (!machine.alive || !machine.welcome) return;
    if (machine.incarnation != incarnation) {
        if (!config_.peers_keep_address) return;
        probes_.hit(Probe::rows_for_a_newer_incarnation);
    }
    const bool older =
        std::any_of(inputs.inputs.begin(), inputs.inputs.end(),
                    [&](const auto& one) { return one.key.request.value < first_request_; });
    if (older) probes_.hit(Probe::rows_of_an_older_coordinator);
    const std::uint64_t buffer = machine.next_buffer++;
    machine.buffers[buffer] = std::move(rows);
    for (core::StageInput& input : inputs.inputs) input.payload.buffer = buffer;
    worker_event(to, machine.incarnation, core::MessageArrived{std::move(inputs)});
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
    const std::string& error = outcome.error;
    if (outcome.reason == core::FinishReason::stop) probes_.hit(Probe::ended_by_stop_token);
    if (core::is_whole(outcome.reason)) {
        if (outcome.pipelines.size() > 1) probes_.hit(Probe::finished_after_preemption);
        if (outcome.was_stuck) probes_.hit(Probe::stuck_then_finished);
    } else if (outcome.reason == core::FinishReason::kills_workers) {
        probes_.hit(Probe::error_poison);
    } else if (outcome.reason == core::FinishReason::error) {
        if (error.starts_with("no token for")) probes_.hit(Probe::error_stalled);
        if (error.starts_with("no placement")) probes_.hit(Probe::error_unserved);
    }
}

}  // namespace helix::sim
