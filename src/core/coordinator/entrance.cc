#include "core/coordinator/entrance.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace helix::core {
namespace {

// This is more than any machine has or does, and sums of a few such numbers do not overflow.
constexpr std::int64_t kMostPages = std::int64_t{1} << 40;
constexpr std::int64_t kMostCount = std::int64_t{1} << 60;
constexpr double kMostBytes = 1e15;

bool is_count(std::int64_t value, std::int64_t most) {
    return 0 <= value && value <= most;
}

bool is_amount(double value) {
    return std::isfinite(value) && 0 <= value && value <= kMostBytes;
}

// Returns how many members the attempt that runs may have.
std::uint32_t members_of(const RequestState& state) {
    if (!state.group) return 1;
    if (!state.group->beams) return static_cast<std::uint32_t>(state.request.n);
    return state.group->forked ? state.group->next_number : 1;
}

}  // namespace

std::string Entrance::contradiction(WorkerId worker, const TokensProduced& message) const {
    for (const ProducedToken& token : message.tokens) {
        const RequestState* state = running_as(token.key);
        std::string wrong = state == nullptr ? "" : wrong_token(worker, *state, token);
        if (!wrong.empty()) return wrong;
    }
    for (const ProducedToken& token : message.scored) {
        const RequestState* state = running_as(token.key);
        if (state == nullptr) continue;
        std::string wrong = wrong_token(worker, *state, token);
        if (!wrong.empty()) return wrong;
        const std::vector<Token>& prompt = state->request.prompt;
        const auto at = static_cast<std::size_t>(token.position);
        if (token.position < 1 || at >= prompt.size() || prompt[at] != token.token) {
            return "scored a token that is not the prompt's" + of_request(token.key);
        }
    }
    for (const PromptEmbedding& one : message.embeddings) {
        const RequestState* state = running_as(one.key);
        std::string wrong = state == nullptr ? "" : wrong_embedding(worker, *state, one);
        if (!wrong.empty()) return wrong;
    }
    return "";
}

std::string Entrance::contradiction(WorkerId worker, const SequenceStuck& message) const {
    if (message.cause > kLastStuckCause) return "gave a cause that there is not";
    const RequestState* state = running_as(message.key);
    if (state == nullptr) return "";
    if (message.key.member >= members_of(*state)) {
        return "was stuck with a member that there never was" + of_request(message.key);
    }
    if (stage_at(state->pipeline, worker) == nullptr) {
        return "was stuck with a request that does not run there" + of_request(message.key);
    }
    if (message.cause == StuckCause::prefix_lost && state->prefix.cached == 0 && !state->moved) {
        return "lost a prefix that it was not believed to have" + of_request(message.key);
    }
    return "";
}

std::string Entrance::contradiction(WorkerId worker, const LayersReady& message) const {
    const WorkerState& state = fleet_.at(worker);
    if (message.epoch > state.assigned_epoch) return "answered an assignment that it never got";
    if (!is_count(message.total_pages, kMostPages) || !is_count(message.swap_pages, kMostPages)) {
        return "has a number of KV pages that cannot be";
    }
    if (!is_amount(message.kv_page_bytes) || !is_amount(message.kv_bytes_per_s)) {
        return "says of its KV pages what cannot be";
    }
    const bool again = state.ready && message.epoch == state.assigned_epoch &&
                       state.said.epoch == message.epoch && state.said.layers == message.layers;
    if (again && (state.said.total_pages != message.total_pages ||
                  state.said.swap_pages != message.swap_pages ||
                  state.said.kv_format != message.kv_format)) {
        return "has other KV pages than it said before";
    }
    return "";
}

std::string Entrance::contradiction(WorkerId worker, const LayersFailed& message) const {
    const WorkerState& state = fleet_.at(worker);
    if (message.epoch > state.assigned_epoch) return "answered an assignment that it never got";
    // A worker that is ready was given no other layers since.
    if (state.ready && message.epoch >= state.said.epoch) {
        return "could not load what it had loaded";
    }
    return "";
}

std::string Entrance::contradiction(WorkerId, const WorkerReport& message) const {
    const bool counts = is_count(message.total_pages, kMostPages) &&
                        is_count(message.used_pages, message.total_pages) &&
                        is_count(message.cached_pages, message.total_pages) &&
                        is_count(message.swapped_pages, kMostPages) &&
                        is_count(message.waiting_rows, kMostPages) &&
                        is_count(message.batches, kMostCount) &&
                        is_count(message.rows, kMostCount) && is_count(message.busy_ns, kMostCount);
    return counts ? "" : "reported numbers that cannot be";
}

std::string Entrance::contradiction(WorkerId worker, const KvReserved& message) const {
    return wrong_move(worker, message.key, false);
}

std::string Entrance::contradiction(WorkerId worker, const KvArrived& message) const {
    // Of layers with a window the sender may have had nothing left to send, and says so itself.
    std::string wrong = wrong_move(worker, message.key, config_.window.any());
    if (!wrong.empty()) return wrong;
    const RequestState* state = requests_.by_id(message.key.request);
    if (state == nullptr || !state->migration || state->migration->attempt != message.key.attempt) {
        return "";
    }
    const Migration& move = *state->migration;
    const bool asked =
        message.round >= 1 && message.round <= move.round &&
        std::any_of(move.transfers.begin(), move.transfers.end(),
                    [&](const Migration::Transfer& one) {
                        return one.may_tell(worker, config_.window) && one.layers == message.layers;
                    });
    return asked ? "" : "received KV that nobody sent" + of_request(message.key);
}

std::string Entrance::contradiction(WorkerId worker, const KvRefused& message) const {
    return wrong_move(worker, message.key, true);
}

std::string Entrance::contradiction(WorkerId worker, const PeerLost& message) const {
    return message.peer == worker ? "does not reach itself" : "";
}

std::string Entrance::contradiction(WorkerId, const StageTimes& message) const {
    const RequestState* state = requests_.by_id(message.key.request);
    if (state != nullptr && !state->request.timed) {
        return "timed what nobody asked it to time" + of_request(message.key);
    }
    const bool counts =
        message.batches >= 1 && message.rows >= 1 && is_count(message.batches, kMostCount) &&
        is_count(message.rows, kMostCount) && is_count(message.busy.ns, kMostCount) &&
        is_count(message.since_first.ns, kMostCount) && is_count(message.since_last.ns, kMostCount);
    const bool ordered = message.since_first >= message.since_last;
    return counts && ordered ? "" : "reported times that cannot be" + of_request(message.key);
}

std::string Entrance::contradiction(const Holding& holding) const {
    const LayerRange layers = holding.layers;
    const bool in_model = layers.empty() || (layers.begin >= 0 && layers.end <= config_.n_layers);
    if (holding.epoch > static_cast<std::uint64_t>(kMostCount) || !in_model) {
        return "holds layers that there are not";
    }
    const auto sound = [&](const SequenceHeld& held) {
        return held.certain >= 0 && held.certain <= held.arrived &&
               held.arrived <= config_.context_length;
    };
    const bool all = std::all_of(holding.sequences.begin(), holding.sequences.end(), sound);
    return all ? "" : "holds sequences that cannot be";
}

// Returns the request if it runs as this attempt. What is said of any other attempt has come too
// late, or somebody made the worker believe that there is such a one, so it is ignored.
const RequestState* Entrance::running_as(const SequenceKey& key) const {
    const RequestState* state = requests_.by_id(key.request);
    return state != nullptr && state->running && state->attempt == key.attempt ? state : nullptr;
}

std::string Entrance::wrong_token(WorkerId worker, const RequestState& state,
                                  const ProducedToken& token) const {
    const auto known = [&](Token id) {
        return id >= 0 && (config_.vocab_size == 0 || id < config_.vocab_size);
    };
    if (state.pipeline.back().worker != worker) {
        return "drew a token for a request that does not end there" + of_request(token.key);
    }
    if (token.key.member >= members_of(state)) {
        return "drew a token for a member that there never was" + of_request(token.key);
    }
    if (state.request.wants_embedding()) {
        return "drew a token where an embedding is wanted" + of_request(token.key);
    }
    if (!known(token.token)) return "drew a token that the vocabulary does not have";
    for (const spec::TokenLogprob& one : token.top) {
        if (!known(one.token)) return "listed a token that the vocabulary does not have";
    }
    return "";
}

std::string Entrance::wrong_embedding(WorkerId worker, const RequestState& state,
                                      const PromptEmbedding& one) const {
    if (state.pipeline.back().worker != worker || one.key.member != 0 ||
        !state.request.wants_embedding()) {
        return "answered an embedding that nobody asked it for" + of_request(one.key);
    }
    const bool numbers = std::all_of(one.values.begin(), one.values.end(),
                                     [](float value) { return std::isfinite(value); });
    if (one.values.empty() || !numbers) {
        return "answered an embedding that is none" + of_request(one.key);
    }
    if (state.request.pooling != spec::Pooling::rank) return "";
    if (one.values.size() != 1 || one.values[0] < 0 || one.values[0] > 1) {
        return "answered a score that is none" + of_request(one.key);
    }
    return "";
}

std::string Entrance::wrong_move(WorkerId worker, const SequenceKey& key, bool source_too) const {
    const RequestState* state = requests_.by_id(key.request);
    const bool moves =
        state != nullptr && state->migration && state->migration->attempt == key.attempt;
    if (!moves || stage_at(state->migration->pipeline, worker) != nullptr) return "";
    if (source_too && stage_at(state->pipeline, worker) != nullptr) return "";
    return "answered for a migration that it has no part in" + of_request(key);
}

}  // namespace helix::core
