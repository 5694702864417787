// What the coordinator asks for, and what follows from the messages.

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "sim/throughput/loaded_cluster.h"

namespace helix::sim {

void LoadedCluster::post(Event::Kind kind, Message message) {
    message.posted = now_;
    message.passage = network_.send(message.from, message.to, message.bytes, now_);
    const TimePoint arrives = message.passage.arrives;
    std::uint32_t slot = 0;
    if (free_messages_.empty()) {
        slot = static_cast<std::uint32_t>(messages_.size());
        messages_.emplace_back();
    } else {
        slot = free_messages_.back();
        free_messages_.pop_back();
    }
    messages_[slot] = std::move(message);
    at(arrives, kind, slot);
}

LoadedCluster::Message LoadedCluster::take(std::uint32_t slot) {
    Message message = std::move(messages_[slot]);
    free_messages_.push_back(slot);
    if (setup_.observer != nullptr) tell_carried(message);
    return message;
}

void LoadedCluster::perform(core::CoordinatorAction& action) {
    if (auto* out = std::get_if<core::SendToWorker>(&action)) {
        double bytes = kHeaderBytes;
        if (const auto* inputs = std::get_if<core::StageInputs>(&out->message)) {
            for (const core::StageInput& input : inputs->inputs) {
                bytes += kHeaderBytes + static_cast<double>(input.tokens.size()) *
                                            static_cast<double>(setup_.model.token_bytes);
            }
        }
        const std::int32_t node = machines_[out->worker.value].node;
        post(Event::Kind::to_worker,
             {out->worker.value, std::move(out->message), spec::kCoordinator, node, bytes, {}, {}});
    } else if (const auto* token = std::get_if<core::StreamToken>(&action)) {
        on_token(*token);
    } else if (const auto* end = std::get_if<core::FinishRequest>(&action)) {
        const bool whole = end->reason == core::FinishReason::length;
        ++(whole ? counts_.finished : counts_.rejected);
        note_resident(-1);
        if (setup_.observer != nullptr && whole) {
            setup_.observer->request_finished(end->id.value, now_);
        } else if (setup_.observer != nullptr) {
            setup_.observer->request_rejected(end->id.value, now_);
        }
        feed();
    } else if (const auto* no = std::get_if<core::RejectRequest>(&action)) {
        ++counts_.rejected;
        --n_waiting_;
        if (setup_.observer != nullptr) setup_.observer->request_rejected(no->id.value, now_);
    } else if (const auto* move = std::get_if<core::MigrationEnded>(&action)) {
        const bool committed = move->phase == core::MigrationPhase::committed;
        ++(committed ? counts_.migrated : counts_.migrations_given_up);
    } else if (std::holds_alternative<core::AddWorker>(action)) {
        ask_for_node();
    } else if (const auto* drained = std::get_if<core::WorkerDrained>(&action)) {
        if (drained->remove) dismiss(drained->worker);
    } else if (const auto* plan = std::get_if<core::PlanCluster>(&action)) {
        step_coordinator(answer(*plan));
    } else if (const auto* question = std::get_if<core::ProposeDrafts>(&action)) {
        // There is no draft model here: it never has a guess.
        const auto known = static_cast<std::int32_t>(question->tokens.size());
        if (question->count > 0) {
            step_coordinator(core::Drafted{question->id, question->first + known, {}});
        }
    } else if (const auto* said = std::get_if<core::Report>(&action)) {
        if (!serving_ && said->cause == core::ReportCause::placement_in_force) {
            serving_ = true;
            counts_.ready_s = base::Duration{now_.ns}.seconds();
        }
        if (said->warning) trouble_ = said->text;
    }
}

std::vector<PipelineStage> LoadedCluster::stages(const core::Pipeline& pipeline) const {
    std::vector<PipelineStage> out;
    for (const core::Stage& stage : pipeline) {
        out.push_back({machines_[stage.worker.value].node, stage.layers});
    }
    return out;
}

void LoadedCluster::on_routed(const core::RequestRouted& routed, bool moved) {
    Observer* observer = setup_.observer;
    if (moved) {
        if (observer != nullptr) {
            observer->request_migrated(routed.id.value, now_, stages(routed.pipeline));
        }
        return;
    }
    if (observer != nullptr) {
        if (routed.attempt > 1) observer->request_preempted(routed.id.value, now_);
        observer->request_admitted(routed.id.value, now_, stages(routed.pipeline));
    }
    if (routed.attempt > 1) {
        ++counts_.preempted;
        return;
    }
    ++counts_.admitted;
    stages_ += routed.pipeline.size();
    note_resident(1);
    --n_waiting_;
}

void LoadedCluster::note_resident(std::int64_t change) {
    const TimePoint from = std::max(resident_since_, window_begin_);
    if (now_ > from) resident_s_ += static_cast<double>(n_resident_) * (now_ - from).seconds();
    resident_since_ = now_;
    n_resident_ += change;
}

void LoadedCluster::on_token(const core::StreamToken& token) {
    Live& live = requests_[token.id.value];
    ++counts_.iterations;
    counts_.digest = base::mix64(counts_.digest ^ static_cast<std::uint64_t>(now_.ns)) ^
                     (token.id.value << 16) ^ static_cast<std::uint64_t>(token.index);
    const bool first = token.index == 0 && token.choice == 0;
    if (in_window()) {
        if (first) {
            ttft_.add((now_ - live.arrived).seconds());
            prompt_tokens_ += static_cast<std::uint64_t>(live.prompt_tokens);
        } else {
            tpot_.add((now_ - live.last_token).seconds());
            ++decode_tokens_;
        }
    }
    live.last_token = now_;
    if (setup_.observer != nullptr) setup_.observer->token(token.id.value, now_);
    if (first) feed();
}

// Offline: one more after every finished prompt and every finished request, while none waits.
void LoadedCluster::feed() {
    if (setup_.online || n_waiting_ > 0) return;
    at(now_ + base::from_seconds(setup_.offline.delay_s), Event::Kind::arrival, 0);
}

}  // namespace helix::sim
