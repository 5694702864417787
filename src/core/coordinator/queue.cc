// The queue of those that wait: what may be in it, in which order it runs, and how much of the
// cluster one client may have while others wait.

#include <algorithm>

#include "core/coordinator/coordinator_state.h"

namespace helix::core {
namespace {

// One client alone leaves this part of what there is for all to the others.
constexpr std::int64_t kKeptFree = 8;   // an eighth of the running sequences
constexpr std::int64_t kKeptQueue = 4;  // a quarter of the queue
// Groups leave this part to requests of one sequence, whose ever they are.
constexpr std::int64_t kKeptFromGroups = 4;   // a quarter of the running sequences
constexpr std::int64_t kPagesFromGroups = 8;  // an eighth of a worker's KV memory

std::int64_t prompt_of(const RequestState& state) {
    return static_cast<std::int64_t>(state.request.prompt.size());
}

}  // namespace

std::int64_t Coordinator::Impl::sequences_of(const RequestState& state) {
    return state.group ? state.group->sequences(state.request) : 1;
}

// What it asks for, as far as it is known before: its prompt, and what each choice is expected to
// put out.
std::int64_t Coordinator::Impl::tokens_asked(const RequestState& state) const {
    const auto mean = std::max<std::int64_t>(1, static_cast<std::int64_t>(mean_output));
    const std::int64_t most = state.request.max_tokens > 0 ? state.request.max_tokens : mean;
    return prompt_of(state) + sequences_of(state) * std::min(most, mean);
}

std::string Coordinator::Impl::queue_is_full(const Request& request) const {
    const auto try_later = [](const std::string& what) { return what + "; try again later"; };
    const auto prompt = static_cast<std::int64_t>(request.prompt.size());
    const auto count = static_cast<std::int64_t>(waiting.size());
    if (count >= config.max_waiting) {
        return try_later("the queue is full (" + std::to_string(config.max_waiting) +
                         " requests are waiting)");
    }
    if (count > 0 && queued_tokens + prompt > config.max_waiting_tokens) {
        return try_later("the queue is full (" + std::to_string(queued_tokens) +
                         " tokens of prompts are waiting, at most " +
                         std::to_string(config.max_waiting_tokens) + " may)");
    }
    const auto found = clients.find(request.client);
    if (request.client == 0 || found == clients.end() || found->second.waiting == 0) return "";
    const std::int64_t requests_share = config.max_waiting - config.max_waiting / kKeptQueue;
    if (found->second.waiting >= requests_share) {
        return try_later("your part of the queue is full (" +
                         std::to_string(found->second.waiting) +
                         " requests of yours are waiting, at most " +
                         std::to_string(requests_share) + " of one client may)");
    }
    const std::int64_t tokens_share =
        config.max_waiting_tokens - config.max_waiting_tokens / kKeptQueue;
    if (found->second.waiting_tokens + prompt > tokens_share) {
        return try_later("your part of the queue is full (" +
                         std::to_string(found->second.waiting_tokens) +
                         " tokens of your prompts are waiting, at most " +
                         std::to_string(tokens_share) + " of one client may)");
    }
    return "";
}

void Coordinator::Impl::enqueue(const RequestState& state) {
    waiting.emplace(queue_key(state), state.request.id);
    queued_tokens += prompt_of(state);
    ClientUse& use = clients[state.request.client];
    ++use.waiting;
    use.waiting_tokens += prompt_of(state);
}

void Coordinator::Impl::dequeue(const RequestState& state) {
    if (waiting.erase(queue_key(state)) == 0) return;
    queued_tokens -= prompt_of(state);
    ClientUse& use = clients[state.request.client];
    --use.waiting;
    use.waiting_tokens -= prompt_of(state);
    forget_unused(state.request.client);
}

void Coordinator::Impl::add_running(const RequestState& state, std::int64_t sequences) {
    sequences_running += sequences;
    if (state.group) group_sequences_running += sequences;
    clients[state.request.client].sequences += sequences;
    forget_unused(state.request.client);
}

void Coordinator::Impl::forget_unused(std::uint64_t client) {
    const auto found = clients.find(client);
    if (found->second.waiting == 0 && found->second.sequences == 0) clients.erase(found);
}

bool Coordinator::Impl::over_its_share(const RequestState& state) const {
    if (state.request.client == 0) return false;
    const auto found = clients.find(state.request.client);
    const std::int64_t running = found == clients.end() ? 0 : found->second.sequences;
    const std::int64_t share = config.max_running - config.max_running / kKeptFree;
    return running > 0 && running + sequences_of(state) > share;
}

bool Coordinator::Impl::over_the_groups_share(const RequestState& state) const {
    if (!state.group || group_sequences_running == 0) return false;
    const std::int64_t share = config.max_running - config.max_running / kKeptFromGroups;
    return group_sequences_running + sequences_of(state) > share;
}

std::int64_t Coordinator::Impl::pages_left_by_groups(const RequestState& state,
                                                     WorkerId worker) const {
    return state.group ? workers.at(worker).kv.total() / kPagesFromGroups : 0;
}

}  // namespace helix::core
