// What the coordinator tells clients, and what is measured of a cluster under load.

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/random.h"
#include "sim/throughput/loaded_cluster.h"

namespace helix::sim {

void LoadedCluster::check(const std::string& broken) {
    CHECK(broken.empty());
}

// ---- answers
// --------------------------------------------------------------------------------------

// Every worker keeps what the setup gives it, whatever speeds it has.
core::CoordinatorEvent LoadedCluster::plan(const core::PlanCluster& question) {
    core::Planned planned;
    planned.plan = question.plan;
    constexpr std::int32_t kAway = -2;  // or on its way out
    std::vector<std::int32_t> index(machines_.size(), kAway);
    for (std::size_t i = 0; i < question.workers.size(); ++i) {
        const Machine& machine = machines_[question.workers[i].value];
        planned.placement.layers.push_back(machine.layers);
        index[question.workers[i].value] = static_cast<std::int32_t>(i);
    }
    const auto renamed = [&](std::int32_t node) {
        if (node == spec::kCoordinator) return node;
        const std::int32_t worker = worker_of_node_[static_cast<std::size_t>(node)];
        return worker < 0 ? kAway : index[static_cast<std::size_t>(worker)];
    };
    for (const spec::LinkFlow& flow : setup_.flows) {
        const std::int32_t from = renamed(flow.from);
        const std::int32_t to = renamed(flow.to);
        if (from != kAway && to != kAway) planned.flows.push_back({from, to, flow.tokens_per_s});
    }
    return planned;
}

// There is no draft model here: it never has a draft.
std::optional<core::Drafted> LoadedCluster::draft(const core::ProposeDrafts& question) {
    if (question.count == 0) return std::nullopt;
    const auto known = static_cast<std::int32_t>(question.tokens.size());
    return core::Drafted{question.id, question.first + known, {}};
}

// ---- requests
// -------------------------------------------------------------------------------------

void LoadedCluster::on(const core::RejectRequest& action) {
    ++counts_.rejected;
    --n_waiting_;
    if (setup_.observer != nullptr) setup_.observer->request_rejected(action.id.value, now());
}

void LoadedCluster::on(const core::RequestRouted& routed) {
    const auto move = moving_.find(routed.id);
    const bool moved = move != moving_.end() && move->second == routed.attempt;
    Observer* observer = setup_.observer;
    if (moved) {
        if (observer != nullptr) {
            observer->request_migrated(routed.id.value, now(), stages(routed.pipeline));
        }
        return;
    }
    if (observer != nullptr) {
        if (routed.attempt > 1) observer->request_preempted(routed.id.value, now());
        observer->request_admitted(routed.id.value, now(), stages(routed.pipeline));
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
    if (now() > from) resident_s_ += static_cast<double>(n_resident_) * (now() - from).seconds();
    resident_since_ = now();
    n_resident_ += change;
}

void LoadedCluster::on(const core::StreamToken& token) {
    Live& live = requests_[token.id.value];
    ++counts_.iterations;
    counts_.digest = base::mix64(counts_.digest ^ static_cast<std::uint64_t>(now().ns)) ^
                     (token.id.value << 16) ^ static_cast<std::uint64_t>(token.index);
    const bool first = token.index == 0 && token.choice == 0;
    if (in_window()) {
        if (first) {
            ttft_.add((now() - live.arrived).seconds());
            prompt_tokens_ += static_cast<std::uint64_t>(live.prompt_tokens);
        } else {
            tpot_.add((now() - live.last_token).seconds());
            ++decode_tokens_;
        }
    }
    live.last_token = now();
    if (setup_.observer != nullptr) setup_.observer->token(token.id.value, now());
    if (first) feed();
}

void LoadedCluster::on(const core::FinishRequest& action) {
    const bool whole = action.reason == core::FinishReason::length;
    ++(whole ? counts_.finished : counts_.rejected);
    note_resident(-1);
    if (setup_.observer != nullptr && whole) {
        setup_.observer->request_finished(action.id.value, now());
    } else if (setup_.observer != nullptr) {
        setup_.observer->request_rejected(action.id.value, now());
    }
    feed();
}

void LoadedCluster::on(const core::MigrationEnded& action) {
    const bool committed = action.phase == core::MigrationPhase::committed;
    ++(committed ? counts_.migrated : counts_.migrations_given_up);
    moving_.erase(action.id);
}

void LoadedCluster::on(const core::Report& action) {
    if (!serving_ && action.cause == core::ReportCause::placement_in_force) {
        serving_ = true;
        counts_.ready_s = base::Duration{now().ns}.seconds();
    }
    if (action.warning) trouble_ = action.text;
}

// Nothing is measured of these, and no machine lies.
void LoadedCluster::on(const core::AcceptRequest& /*action*/) {}
void LoadedCluster::on(const core::ScoreTokens& /*action*/) {}
void LoadedCluster::on(const core::EmbedPrompt& /*action*/) {}
void LoadedCluster::on(const core::FinishChoice& /*action*/) {}
void LoadedCluster::on(const core::ForgetDrafts& /*action*/) {}
void LoadedCluster::on(const core::CutOffWorker& /*action*/) {}
void LoadedCluster::on(const core::StageTimed& /*action*/) {}

// ---- messages and batches
// -------------------------------------------------------------------------

void LoadedCluster::sends(SimMachine& /*machine*/, const core::WorkerMessage& message) {
    const auto* reserve = std::get_if<core::ReserveKv>(&message);
    if (reserve != nullptr) moving_[reserve->key.request] = reserve->key.attempt;
}

bool LoadedCluster::says(SimMachine& from, core::CoordinatorMessage& message) {
    const auto* said = std::get_if<core::WorkerReport>(&message);
    if (said == nullptr || said->total_pages == 0) return true;
    Machine& machine = ours(from);
    const auto used = static_cast<double>(said->used_pages);
    if (setup_.observer != nullptr) setup_.observer->kv_used(machine.vertex, now(), used);
    machine.kv_peak = std::max(machine.kv_peak, used / static_cast<double>(said->total_pages));
    return true;
}

void LoadedCluster::batch_begun(SimMachine& of, const core::BatchPlan& plan, TimePoint end) {
    Machine& machine = ours(of);
    const TimePoint from = std::max(now(), window_begin_);
    const TimePoint until = std::min(end, window_end_);
    if (until > from) machine.busy_s += (until - from).seconds();
    if (setup_.observer != nullptr) note_batch(machine, plan, end);
}

// ---- what the observer is told
// --------------------------------------------------------------------

std::vector<PipelineStage> LoadedCluster::stages(const core::Pipeline& pipeline) const {
    std::vector<PipelineStage> out;
    for (const core::Stage& stage : pipeline) {
        out.push_back({machines_[stage.worker.value].vertex, stage.layers});
    }
    return out;
}

void LoadedCluster::note_batch(Machine& machine, const core::BatchPlan& plan, TimePoint end) {
    machine.observed = {machine.vertex, now(), end, machine.layers, 0, 0};
    machine.followed.clear();
    for (const core::BatchChunk& chunk : plan.chunks) {
        const auto rows = static_cast<std::int32_t>(chunk.tokens.size());
        const bool decode = rows == 1 + chunk.drafts && chunk.first_position > 0;
        (decode ? machine.observed.decodes : machine.observed.prompt_tokens) += rows;
        const std::uint64_t request = chunk.key.request.value;
        if (!requests_[request].followed) continue;
        machine.followed.push_back({request, machine.vertex, now(), end, chunk.layers, rows});
    }
}

void LoadedCluster::batch_ended(SimMachine& of) {
    if (setup_.observer == nullptr) return;
    const Machine& machine = ours(of);
    setup_.observer->node_computed(machine.observed);
    for (const RequestWork& work : machine.followed) setup_.observer->request_computed(work);
}

void LoadedCluster::tell_carried(const SimMessage& message,
                                 const ModelledCarrier::Journey& journey) {
    const Passage& passage = journey.passage;
    setup_.observer->link_carried({message.from, message.to, passage.begin, passage.left,
                                   journey.bytes, passage.begin - journey.posted});
    const auto moved = [&](core::RequestId id) {
        if (!requests_[id.value].followed) return;
        setup_.observer->request_moved(
            {id.value, message.from, message.to, journey.posted, passage.begin, passage.arrives});
    };
    if (const auto* to_worker = std::get_if<core::WorkerMessage>(&message.content)) {
        const auto* inputs = std::get_if<core::StageInputs>(to_worker);
        if (inputs == nullptr) return;
        for (const core::StageInput& input : inputs->inputs) moved(input.key.request);
        return;
    }
    const auto& said = std::get<core::CoordinatorMessage>(message.content);
    const auto* tokens = std::get_if<core::TokensProduced>(&said);
    if (tokens == nullptr) return;
    for (const core::ProducedToken& token : tokens->tokens) moved(token.key.request);
}

}  // namespace helix::sim
