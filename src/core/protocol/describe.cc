#include "core/protocol/describe.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
    if (rows.drafts > 0) text += " " + num(rows.drafts) + " drafts";
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

// What is said of each message and action: an alternative without its line does not compile.

std::string line_of(const AssignLayers& message) {
    const std::string model =
        message.model == ModelId{} ? "" : " of model " + num(message.model.value);
    return "assign " + range_text(message.layers) + model + " epoch " + num(message.epoch);
}
std::string line_of(const StageInputs& message) {
    return "rows" + inputs_text(message);
}
std::string line_of(const FreeSequences& message) {
    return "free" + keys_text(message.keys);
}
std::string line_of(const ForkSequences& message) {
    std::string text = "fork " + key_text(message.parent) + "@" + num(message.tokens) + " into";
    for (const std::uint32_t member : message.members) text += " " + num(member);
    return text;
}
std::string line_of(const SwapSequences& message) {
    return (message.out ? "swap out" : "swap in") + keys_text(message.keys);
}
std::string given_back_text(std::int64_t blocks) {
    return blocks == 0 ? "" : " (" + num(blocks) + " given back)";
}
std::string line_of(const ReserveKv& message) {
    return "reserve " + num(message.blocks) + given_back_text(message.given_back) + " blocks of " +
           range_text(message.layers) + " for " + key_text(message.key);
}
std::string line_of(const SendKv& message) {
    return "send KV of " + key_text({message.request, message.attempt}) + " " +
           range_text(message.layers) + spans_text(message.spans) + " to w" +
           num(message.to.value) + " as ." + num(message.next_attempt) + " round " +
           num(message.round) + given_back_text(message.given_back) + (message.held ? " held" : "");
}
std::string line_of(const KvBlocks& blocks) {
    return "KV for " + key_text(blocks.key) + " " + range_text(blocks.layers) + " round " +
           num(blocks.round) + " part " + num(blocks.part + 1) + "/" + num(blocks.parts) + ", " +
           num(blocks.places.size()) + given_back_text(blocks.given_back) + " blocks";
}

std::string line_of(const TokensProduced& message) {
    std::string text = "tokens";
    for (const ProducedToken& token : message.tokens) {
        text += " " + key_text(token.key) + "@" + num(token.position);
    }
    for (const ProducedToken& token : message.scored) {
        text += " score " + key_text(token.key) + "@" + num(token.position);
    }
    for (const PromptEmbedding& one : message.embeddings) text += " embed " + key_text(one.key);
    return text;
}
std::string line_of(const LayersReady& message) {
    return "ready " + range_text(message.layers) + " with " + num(message.total_pages) + " pages";
}
std::string line_of(const LayersFailed& message) {
    return "not loaded: " + message.reason;
}
std::string line_of(const SequenceStuck& message) {
    return "stuck " + key_text(message.key) + ": " + message.reason;
}
std::string line_of(const WorkerReport& message) {
    return "report " + num(message.used_pages) + "/" + num(message.total_pages) + " pages, " +
           num(message.held.size()) + " sequences";
}
std::string line_of(const KvReserved& message) {
    return "reserved for " + key_text(message.key);
}
std::string line_of(const KvArrived& message) {
    return "KV arrived for " + key_text(message.key) + " " + range_text(message.layers) +
           " round " + num(message.round);
}
std::string line_of(const KvRefused& message) {
    return "no KV for " + key_text(message.key) + ": " + message.reason;
}
std::string line_of(const PeerLost& message) {
    return "link to w" + num(message.peer.value) + (message.down ? " is down" : " broke");
}
std::string line_of(const StageTimes& message) {
    return "times of " + key_text(message.key) + ": " + num(message.rows) + " rows in " +
           num(message.batches) + " batches";
}

template <typename... Messages>
std::string message_text(const std::variant<Messages...>& message) {
    return std::visit([](const auto& one) { return line_of(one); }, message);
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
        if (chunk.pooling != spec::Pooling::none) {
            text += std::string("+pool ") + spec::to_string(chunk.pooling);
        }
    }
    return text;
}

std::string pipeline_text(const Pipeline& pipeline) {
    std::string text;
    for (const Stage& stage : pipeline) {
        text += (text.empty() ? "w" : " w") + num(stage.worker.value) + range_text(stage.layers);
    }
    return text;
}

std::string line_of(const SendToWorker& action) {
    return "to w" + num(action.worker.value) + ": " + message_text(action.message);
}
std::string line_of(const AcceptRequest& action) {
    return "accept r" + num(action.id.value);
}
std::string line_of(const StreamToken& action) {
    const std::string choice = action.choice == 0 ? "" : "/" + num(action.choice);
    return "stream r" + num(action.id.value) + choice + " #" + num(action.index);
}
std::string line_of(const ScoreTokens& action) {
    return "score r" + num(action.id.value) +
           rows_text(action.tokens.front().position, action.tokens.size());
}
std::string line_of(const EmbedPrompt& action) {
    return "embed r" + num(action.id.value);
}
std::string line_of(const FinishChoice& action) {
    return "finish r" + num(action.id.value) + "/" + num(action.choice) + " " +
           reason_text(action.reason);
}
std::string line_of(const FinishRequest& action) {
    return "finish r" + num(action.id.value) + " " + reason_text(action.reason) +
           (action.error.empty() ? "" : ": " + action.error);
}
std::string line_of(const RejectRequest& action) {
    return "reject r" + num(action.id.value) + " " + reason_text(action.reason) + ": " +
           action.message;
}
std::string line_of(const RequestRouted& action) {
    return "route r" + num(action.id.value) + "." + num(action.attempt) + " over " +
           pipeline_text(action.pipeline) +
           (action.cached_tokens > 0 ? " behind " + num(action.cached_tokens) + " cached" : "");
}
std::string line_of(const PlanCluster& action) {
    return "plan " + num(action.plan) + " for " + num(action.workers.size()) + " workers";
}
std::string line_of(const ProposeDrafts& action) {
    return "draft " + num(action.count) + " for r" + num(action.id.value) +
           rows_text(action.first, action.tokens.size());
}
std::string line_of(const ForgetDrafts& action) {
    return "no more drafts for r" + num(action.id.value);
}
std::string line_of(const MigrationEnded& action) {
    return "migration of r" + num(action.id.value) + " (" + std::string(name_of(action.begun_for)) +
           ") " + phase_text(action.phase) + (action.reason.empty() ? "" : ": " + action.reason);
}
std::string line_of(const AddWorker&) {
    return "add a worker";
}
std::string line_of(const CutOffWorker& action) {
    return "cut off w" + num(action.worker.value) + ": it " + action.reason;
}
std::string line_of(const StageTimed& action) {
    return "r" + num(action.id.value) + " had " + num(action.rows) + " rows in " +
           num(action.batches) + " batches at w" + num(action.worker.value);
}
std::string line_of(const WorkerDrained& action) {
    return "w" + num(action.worker.value) + " is drained";
}
std::string line_of(const Report& action) {
    return (action.warning ? "warn: " : "say: ") + action.text;
}

std::string line_of(const ConnectPeers& action) {
    return "connect " + num(action.peers.size()) + " peers";
}
std::string line_of(const LoadLayers& action) {
    return "load " + range_text(action.layers);
}
std::string line_of(const RunBatch& action) {
    return "batch " + num(action.plan.id - kFirstBatch) + ":" + plan_text(action.plan);
}
std::string line_of(const SendToPeer& action) {
    return "to w" + num(action.peer.value) + ":" + inputs_text(action.inputs);
}
std::string line_of(const SendToCoordinator& action) {
    return "to coordinator: " + message_text(action.message);
}
std::string line_of(const ReleaseBuffer& action) {
    const std::uint64_t buffer = action.buffer;
    return buffer >= kFirstBatch ? "release output of batch " + num(buffer - kFirstBatch)
                                 : "release frame " + num(buffer);
}
std::string line_of(const ExportKv& action) {
    return "export to w" + num(action.to.value) + ": " + line_of(action.message);
}
std::string line_of(const ImportKv& action) {
    return "import " + num(action.pages.size()) + " pages of frame " + num(action.buffer);
}
std::string line_of(const WakeAt&) {
    return "wait for rows on their way back";
}

}  // namespace

std::string describe(const Pipeline& pipeline) {
    return pipeline_text(pipeline);
}

std::string describe(const CoordinatorAction& action) {
    return std::visit([](const auto& one) { return line_of(one); }, action);
}

std::string describe(const WorkerAction& action) {
    return std::visit([](const auto& one) { return line_of(one); }, action);
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

std::string_view name_of(RouteReason reason) {
    switch (reason) {
        case RouteReason::first:
            return "first";
        case RouteReason::moved:
            return "moved";
        case RouteReason::worker_lost:
            return "worker_lost";
        case RouteReason::link_broke:
            return "link_broke";
        case RouteReason::no_token:
            return "no_token";
        case RouteReason::preempted:
            return "preempted";
        case RouteReason::worker_emptied:
            return "worker_emptied";
        case RouteReason::cache_forgotten:
            return "cache_forgotten";
        case RouteReason::adopted:
            return "adopted";
    }
    return "?";
}

}  // namespace helix::core
