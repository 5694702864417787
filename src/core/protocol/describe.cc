#include "core/protocol/describe.h"

#include "core/protocol/batch_plan.h"

namespace helix::core {
namespace {

template <typename T>
std::string num(T value) {
    return std::to_string(value);
}

std::string key_text(const SequenceKey& key) {
    const std::string member = key.member == 0 ? "" : "/" + num(key.member);
    return "r" + num(key.request.value) + "." + num(key.attempt) + member;
}

std::string range_text(LayerRange layers) {
    return "[" + num(layers.begin) + "," + num(layers.end) + ")";
}

std::string rows_text(std::int32_t first, std::size_t count) {
    const std::string from = "@" + num(first);
    return count == 1 ? from : from + ".." + num(first + static_cast<std::int32_t>(count) - 1);
}

std::string reason_text(FinishReason reason) {
    switch (reason) {
        case FinishReason::stop:
            return "stop";
        case FinishReason::length:
            return "length";
        case FinishReason::cancelled:
            return "cancelled";
        case FinishReason::error:
            return "error";
        case FinishReason::invalid_request:
            return "invalid request";
        case FinishReason::kills_workers:
            return "kills workers";
    }
    return "?";
}

std::string phase_text(MigrationPhase phase) {
    switch (phase) {
        case MigrationPhase::reserving:
            return "given up while reserving";
        case MigrationPhase::copying:
            return "given up while copying";
        case MigrationPhase::last_round:
            return "given up in the last round";
        case MigrationPhase::committed:
            return "committed";
    }
    return "?";
}

std::string reason_text(RejectReason reason) {
    switch (reason) {
        case RejectReason::too_long:
            return "too long";
        case RejectReason::queue_full:
            return "queue full";
        case RejectReason::never_fits:
            return "never fits";
        case RejectReason::unavailable:
            return "unavailable";
    }
    return "?";
}

// rows is a StageInput or a BatchChunk.
template <typename Rows>
std::string sample_text(const Rows& rows) {
    std::string text = "+sample";
    if (rows.drafts > 0) text += " " + num(rows.drafts) + " guesses";
    if (rows.draws > 1) text += " x" + num(rows.draws);
    return text;
}

std::string inputs_text(const StageInputs& message) {
    std::string text;
    for (const StageInput& input : message.inputs) {
        text += " " + key_text(input.key) + rows_text(input.first_position, input.tokens.size());
        if (input.parent >= 0) text += "<" + num(input.parent);
        if (input.sample) text += sample_text(input);
    }
    return text;
}

std::string keys_text(const std::vector<SequenceKey>& keys) {
    std::string text;
    for (const SequenceKey& key : keys) text += " " + key_text(key);
    return text;
}

std::string spans_text(const std::vector<KvSpan>& spans) {
    std::string text;
    for (const KvSpan& span : spans) {
        text += " " + (span.member == 0 ? "" : "/" + num(span.member) + " ") + "block " +
                num(span.first_block) + " to @" + num(span.tokens);
    }
    return text;
}

std::string blocks_text(const KvBlocks& blocks) {
    return "KV for " + key_text(blocks.key) + " " + range_text(blocks.layers) + " round " +
           num(blocks.round) + " part " + num(blocks.part + 1) + "/" + num(blocks.parts) + ", " +
           num(blocks.places.size()) + " blocks";
}

std::string message_text(const WorkerMessage& message) {
    if (const auto* assign = std::get_if<AssignLayers>(&message)) {
        return "assign " + range_text(assign->layers) + " epoch " + num(assign->epoch);
    }
    if (const auto* inputs = std::get_if<StageInputs>(&message))
        return "rows" + inputs_text(*inputs);
    if (const auto* fork = std::get_if<ForkSequences>(&message)) {
        std::string text = "fork " + key_text(fork->parent) + "@" + num(fork->tokens) + " into";
        for (const std::uint32_t member : fork->members) text += " " + num(member);
        return text;
    }
    if (const auto* reserve = std::get_if<ReserveKv>(&message)) {
        return "reserve " + num(reserve->blocks) + " blocks of " + range_text(reserve->layers) +
               " for " + key_text(reserve->key);
    }
    if (const auto* send = std::get_if<SendKv>(&message)) {
        return "send KV of " + key_text({send->request, send->attempt}) + " " +
               range_text(send->layers) + spans_text(send->spans) + " to w" + num(send->to.value) +
               " as ." + num(send->next_attempt) + " round " + num(send->round) +
               (send->held ? " held" : "");
    }
    if (const auto* blocks = std::get_if<KvBlocks>(&message)) return blocks_text(*blocks);
    if (const auto* swap = std::get_if<SwapSequences>(&message)) {
        return (swap->out ? "swap out" : "swap in") + keys_text(swap->keys);
    }
    return "free" + keys_text(std::get<FreeSequences>(message).keys);
}

std::string message_text(const CoordinatorMessage& message) {
    if (const auto* tokens = std::get_if<TokensProduced>(&message)) {
        std::string text = "tokens";
        for (const ProducedToken& token : tokens->tokens) {
            text += " " + key_text(token.key) + "@" + num(token.position);
        }
        for (const ProducedToken& token : tokens->scored) {
            text += " score " + key_text(token.key) + "@" + num(token.position);
        }
        return text;
    }
    if (const auto* ready = std::get_if<LayersReady>(&message)) {
        return "ready " + range_text(ready->layers) + " with " + num(ready->total_pages) + " pages";
    }
    if (const auto* failed = std::get_if<LayersFailed>(&message)) {
        return "not loaded: " + failed->reason;
    }
    if (const auto* stuck = std::get_if<SequenceStuck>(&message)) {
        return "stuck " + key_text(stuck->key) + ": " + stuck->reason;
    }
    if (const auto* reserved = std::get_if<KvReserved>(&message)) {
        return "reserved for " + key_text(reserved->key);
    }
    if (const auto* arrived = std::get_if<KvArrived>(&message)) {
        return "KV arrived for " + key_text(arrived->key) + " " + range_text(arrived->layers) +
               " round " + num(arrived->round);
    }
    if (const auto* refused = std::get_if<KvRefused>(&message)) {
        return "no KV for " + key_text(refused->key) + ": " + refused->reason;
    }
    if (const auto* lost = std::get_if<PeerLost>(&message)) {
        return "link to w" + num(lost->peer.value) + (lost->down ? " is down" : " broke");
    }
    const auto& report = std::get<WorkerReport>(message);
    return "report " + num(report.used_pages) + "/" + num(report.total_pages) + " pages, " +
           num(report.held.size()) + " sequences";
}

std::string plan_text(const BatchPlan& plan) {
    std::string text;
    for (const PageSwap& swap : plan.swap_out) text += " " + num(swap.page) + ">" + num(swap.slot);
    for (const PageSwap& swap : plan.swap_in) text += " " + num(swap.page) + "<" + num(swap.slot);
    for (const PageCopy& copy : plan.copies) text += " " + num(copy.from) + "=>" + num(copy.to);
    for (const BatchChunk& chunk : plan.chunks) {
        text += " " + key_text(chunk.key) + rows_text(chunk.first_position, chunk.tokens.size()) +
                range_text(chunk.layers);
        if (chunk.sample) text += sample_text(chunk);
        if (!chunk.scored.empty()) text += "+score " + num(chunk.scored.size());
    }
    return text;
}

}  // namespace

std::string describe(const Pipeline& pipeline) {
    std::string text;
    for (const Stage& stage : pipeline) {
        text += (text.empty() ? "w" : " w") + num(stage.worker.value) + range_text(stage.layers);
    }
    return text;
}

std::string describe(const CoordinatorAction& action) {
    if (const auto* a = std::get_if<SendToWorker>(&action)) {
        return "to w" + num(a->worker.value) + ": " + message_text(a->message);
    }
    if (const auto* a = std::get_if<AcceptRequest>(&action)) return "accept r" + num(a->id.value);
    if (const auto* a = std::get_if<StreamToken>(&action)) {
        const std::string choice = a->choice == 0 ? "" : "/" + num(a->choice);
        return "stream r" + num(a->id.value) + choice + " #" + num(a->index);
    }
    if (const auto* a = std::get_if<ScoreTokens>(&action)) {
        return "score r" + num(a->id.value) +
               rows_text(a->tokens.front().position, a->tokens.size());
    }
    if (const auto* a = std::get_if<FinishChoice>(&action)) {
        return "finish r" + num(a->id.value) + "/" + num(a->choice) + " " + reason_text(a->reason);
    }
    if (const auto* a = std::get_if<FinishRequest>(&action)) {
        return "finish r" + num(a->id.value) + " " + reason_text(a->reason) +
               (a->error.empty() ? "" : ": " + a->error);
    }
    if (const auto* a = std::get_if<RejectRequest>(&action)) {
        return "reject r" + num(a->id.value) + " " + reason_text(a->reason) + ": " + a->message;
    }
    if (const auto* a = std::get_if<RequestRouted>(&action)) {
        return "route r" + num(a->id.value) + "." + num(a->attempt) + " over " +
               describe(a->pipeline) +
               (a->cached_tokens > 0 ? " behind " + num(a->cached_tokens) + " cached" : "");
    }
    if (const auto* a = std::get_if<PlanCluster>(&action)) {
        return "plan " + num(a->plan) + " for " + num(a->workers.size()) + " workers";
    }
    if (const auto* a = std::get_if<ProposeDrafts>(&action)) {
        return "draft " + num(a->count) + " for r" + num(a->id.value) +
               rows_text(a->first, a->tokens.size());
    }
    if (const auto* a = std::get_if<ForgetDrafts>(&action)) {
        return "no more drafts for r" + num(a->id.value);
    }
    if (const auto* a = std::get_if<MigrationEnded>(&action)) {
        return "migration of r" + num(a->id.value) + " (" + std::string(name_of(a->begun_for)) +
               ") " + phase_text(a->phase) + (a->reason.empty() ? "" : ": " + a->reason);
    }
    if (std::holds_alternative<AddWorker>(action)) return "add a worker";
    if (const auto* a = std::get_if<CutOffWorker>(&action)) {
        return "cut off w" + num(a->worker.value) + ": it " + a->reason;
    }
    if (const auto* a = std::get_if<WorkerDrained>(&action)) {
        return "w" + num(a->worker.value) + " is drained";
    }
    const auto& report = std::get<Report>(action);
    return (report.warning ? "warn: " : "say: ") + report.text;
}

std::string_view name_of(MigrationReason reason) {
    switch (reason) {
        case MigrationReason::asked:
            return "asked";
        case MigrationReason::balance:
            return "balance";
        case MigrationReason::room:
            return "room";
        case MigrationReason::drain:
            return "drain";
        case MigrationReason::transition:
            return "transition";
        case MigrationReason::handover:
            return "handover";
    }
    return "?";
}

std::string_view name_of(MigrationPhase phase) {
    switch (phase) {
        case MigrationPhase::reserving:
            return "reserving";
        case MigrationPhase::copying:
            return "copying";
        case MigrationPhase::last_round:
            return "last_round";
        case MigrationPhase::committed:
            return "committed";
    }
    return "?";
}

std::string describe(const WorkerAction& action) {
    if (const auto* a = std::get_if<ConnectPeers>(&action)) {
        return "connect " + num(a->peers.size()) + " peers";
    }
    if (const auto* a = std::get_if<LoadLayers>(&action)) return "load " + range_text(a->layers);
    if (const auto* a = std::get_if<RunBatch>(&action)) {
        return "batch " + num(a->plan.id - kFirstBatch) + ":" + plan_text(a->plan);
    }
    if (const auto* a = std::get_if<SendToPeer>(&action)) {
        return "to w" + num(a->peer.value) + ":" + inputs_text(a->inputs);
    }
    if (const auto* a = std::get_if<SendToCoordinator>(&action)) {
        return "to coordinator: " + message_text(a->message);
    }
    if (const auto* a = std::get_if<ExportKv>(&action)) {
        return "export to w" + num(a->to.value) + ": " + blocks_text(a->message);
    }
    if (const auto* a = std::get_if<ImportKv>(&action)) {
        return "import " + num(a->pages.size()) + " pages of frame " + num(a->buffer);
    }
    if (std::holds_alternative<WakeAt>(action)) return "wait for rows on their way back";
    const std::uint64_t buffer = std::get<ReleaseBuffer>(action).buffer;
    return buffer >= kFirstBatch ? "release output of batch " + num(buffer - kFirstBatch)
                                 : "release frame " + num(buffer);
}

}  // namespace helix::core
