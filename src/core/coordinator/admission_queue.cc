#include "core/coordinator/admission_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"

namespace helix::core {

namespace {

// One client alone leaves this part of all that there is to the other clients.
constexpr std::int64_t kKeptFree = 8;   // an eighth of the running sequences
constexpr std::int64_t kKeptQueue = 4;  // a quarter of the queue
// Groups leave this part to requests of one sequence, whichever client these come from.
constexpr std::int64_t kKeptFromGroups = 4;  // a quarter of the running sequences

std::int64_t prompt_of(const RequestState& state) {
    return static_cast<std::int64_t>(state.request.prompt.size());
}

}  // namespace

std::int64_t AdmissionQueue::sequences_of(const RequestState& state) {
    return state.group ? state.group->sequences(state.request) : 1;
}

std::string AdmissionQueue::queue_is_full(const Request& request) const {
    const auto try_later = [](const std::string& what) { return what + "; try again later"; };
    const auto prompt = static_cast<std::int64_t>(request.prompt.size());
    const auto count = static_cast<std::int64_t>(waiting_.size());
    if (count >= config_.max_waiting) {
        return try_later("the queue is full (" + std::to_string(config_.max_waiting) +
                         " requests are waiting)");
    }
    if (count > 0 && queued_tokens_ + prompt > config_.max_waiting_tokens) {
        return try_later("the queue is full (" + std::to_string(queued_tokens_) +
                         " tokens of prompts are waiting, at most " +
                         std::to_string(config_.max_waiting_tokens) + " may)");
    }
    const auto found = clients_.find(request.client);
    if (request.client == 0 || found == clients_.end() || found->second.waiting == 0) return "";
    const std::int64_t requests_share = config_.max_waiting - config_.max_waiting / kKeptQueue;
    if (found->second.waiting >= requests_share) {
        return try_later("your part of the queue is full (" +
                         std::to_string(found->second.waiting) +
                         " requests of yours are waiting, at most " +
                         std::to_string(requests_share) + " of one client may)");
    }
    const std::int64_t tokens_share =
        config_.max_waiting_tokens - config_.max_waiting_tokens / kKeptQueue;
    if (found->second.waiting_tokens + prompt > tokens_share) {
        return try_later("your part of the queue is full (" +
                         std::to_string(found->second.waiting_tokens) +
                         " tokens of your prompts are waiting, at most " +
                         std::to_string(tokens_share) + " of one client may)");
    }
    return "";
}

void AdmissionQueue::enter(RequestState& state, std::int64_t tokens_asked) {
    state.order = next_order_++;
    state.place = shares_.enter(state.request.priority, state.request.client, tokens_asked);
    ++unaccepted_;
    enqueue(state);
}

void AdmissionQueue::start(const RequestState& state) {
    dequeue(state);
    shares_.started(state.request.priority, state.place);
    if (is_high(state)) high_running_.insert(state.request.id);
    add_running(state, sequences_of(state));
}

void AdmissionQueue::stop(const RequestState& state) {
    add_running(state, -sequences_of(state));
    high_running_.erase(state.request.id);
}

void AdmissionQueue::enqueue(const RequestState& state) {
    waiting_.emplace(queue_key(state), state.request.id);
    queued_tokens_ += prompt_of(state);
    ClientUse& use = clients_[state.request.client];
    ++use.waiting;
    use.waiting_tokens += prompt_of(state);
}

void AdmissionQueue::dequeue(const RequestState& state) {
    if (waiting_.erase(queue_key(state)) == 0) return;
    queued_tokens_ -= prompt_of(state);
    ClientUse& use = clients_[state.request.client];
    --use.waiting;
    use.waiting_tokens -= prompt_of(state);
    forget_unused(state.request.client);
}

void AdmissionQueue::add_running(const RequestState& state, std::int64_t sequences) {
    sequences_running_ += sequences;
    if (state.group) group_sequences_running_ += sequences;
    clients_[state.request.client].sequences += sequences;
    forget_unused(state.request.client);
}

bool AdmissionQueue::over_its_share(const RequestState& state) const {
    if (state.request.client == 0) return false;
    const auto found = clients_.find(state.request.client);
    const std::int64_t running = found == clients_.end() ? 0 : found->second.sequences;
    const std::int64_t share = config_.max_running - config_.max_running / kKeptFree;
    return running > 0 && running + sequences_of(state) > share;
}

bool AdmissionQueue::over_the_groups_share(const RequestState& state) const {
    if (!state.group || group_sequences_running_ == 0) return false;
    const std::int64_t share = config_.max_running - config_.max_running / kKeptFromGroups;
    return group_sequences_running_ + sequences_of(state) > share;
}

void AdmissionQueue::forget_unused(std::uint64_t client) {
    const auto found = clients_.find(client);
    if (found->second.waiting == 0 && found->second.sequences == 0) clients_.erase(found);
}

std::string AdmissionQueue::check(const RequestTable& requests) const {
    std::map<std::uint64_t, ClientUse> counted;
    std::int64_t tokens = 0;
    std::int64_t running = 0;
    std::int64_t in_groups = 0;
    std::int64_t unaccepted = 0;
    std::size_t waiting = 0;
    std::size_t high = 0;
    for (const auto& [id, request] : requests) {
        const auto found = waiting_.find(queue_key(request));
        const bool waits = found != waiting_.end() && found->second == id;
        if (waits == request.running) {
            return "request " + std::to_string(id.value) + ": neither or both waiting and running";
        }
        waiting += waits ? 1U : 0U;
        unaccepted += request.accepted ? 0 : 1;
        ClientUse& use = counted[request.request.client];
        if (request.running) {
            use.sequences += sequences_of(request);
            running += sequences_of(request);
            in_groups += request.group ? sequences_of(request) : 0;
            high += is_high(request) ? 1U : 0U;
            continue;
        }
        ++use.waiting;
        use.waiting_tokens += prompt_of(request);
        tokens += prompt_of(request);
    }
    if (waiting != waiting_.size()) return "the queue holds an unknown request";
    if (unaccepted != unaccepted_) return "unaccepted requests miscounted";
    if (running != sequences_running_ || in_groups != group_sequences_running_) {
        return "running sequences miscounted";
    }
    if (high != high_running_.size()) return "high priority miscounted";
    if (tokens != queued_tokens_) return "waiting tokens miscounted";
    return counted == clients_ ? "" : "what a client has is miscounted";
}

}  // namespace helix::core
