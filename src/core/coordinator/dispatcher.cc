#include "core/coordinator/dispatcher.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"

namespace helix::core {

void Dispatcher::on(TimePoint now, const Submitted& event) {
    const Request& request = event.request;
    CHECK(!requests_.contains(request.id));
    CHECK(request.n >= 1 && (!request.beam || request.beam->width >= request.n));
    CHECK(!request.score_prompt || request.sampling.n_logprobs >= 0);
    CHECK(!request.wants_embedding() ||
          (!request.is_group() && request.max_tokens == 1 && !request.score_prompt));
    const auto prompt = static_cast<std::int32_t>(request.prompt.size());
    const auto refuse = [&](RejectReason reason, const std::string& message,
                            std::int32_t retry_after_s) {
        life_.note_rejected();
        out_.push(RejectRequest{request.id, reason, message, retry_after_s});
    };
    if (event.begun.has_value()) {
        CHECK(prompt > 0);
        RequestState state;
        state.request = request;
        state.last_progress = now;
        return resume(std::move(state), *event.begun);
    }
    if (config_.encoder && !request.wants_embedding()) {
        return refuse(RejectReason::never_fits,
                      "the model is an encoder: it makes embeddings or scores and draws no tokens",
                      0);
    }
    if (prompt == 0) return refuse(RejectReason::never_fits, "the prompt has no tokens", 0);
    if (prompt + std::max(request.max_tokens, 1) > config_.context_length) {
        return refuse(RejectReason::too_long,
                      "the prompt has " + std::to_string(prompt) + " tokens and " +
                          std::to_string(std::max(request.max_tokens, 1)) +
                          " are asked for; the model's context is " +
                          std::to_string(config_.context_length) + " tokens",
                      0);
    }
    const std::string full = queue_.queue_is_full(request);
    if (!full.empty()) return refuse(RejectReason::queue_full, full, 1);
    RequestState state;
    state.request = request;
    state.last_progress = now;
    if (request.is_group()) state.group = std::make_unique<SequenceGroup>(request);
    queue_.enter(state, demand_.tokens_asked(state));
    requests_.emplace(request.id, std::move(state));
}

void Dispatcher::resume(RequestState state, const Begun& begun) {
    const Request& request = state.request;
    const RequestId id = request.id;
    CHECK(begun.choices.size() == static_cast<std::size_t>(request.n));
    state.last_attempt = begun.attempts_before;
    state.scored = begun.scored;
    if (base::planted(base::PlantedBug::scores_repeated)) state.scored = 0;
    if (request.is_group()) state.group = std::make_unique<SequenceGroup>(request);
    const bool forgets = base::planted(base::PlantedBug::begun_forgotten);
    if (!state.group && !forgets) state.output = begun.choices.front().output;
    if (state.group && !state.group->beams) {
        for (GroupMember& member : state.group->members) {
            member.output = begun.choices[member.number].output;
        }
        std::erase_if(state.group->members, [&](const GroupMember& member) {
            return begun.choices[member.number].ended;
        });
    }
    const bool over = state.group && state.group->members.empty();
    if (over) state.group->members.resize(1);  // for the count of what waits
    queue_.enter(state, demand_.tokens_asked(state));
    queue_.forget_unaccepted();
    state.accepted = true;
    requests_.emplace(id, std::move(state));
    if (over) return life_.finish(id, FinishReason::stop);
    tokens_.end_what_is_over(requests_.at(id));
}

void Dispatcher::adopt(TimePoint now, std::int64_t capacity_now, std::int64_t lasting) {
    if (adoption_.empty()) return;
    for (auto it = queue_.waiting().begin(); it != queue_.waiting().end();) {
        RequestState& state = requests_.at(it->second);
        ++it;
        const bool kept = state.accepted && adoption_.knows(state.request.id);
        if (kept && stalls_.still_fits(now, state, capacity_now, lasting)) {
            adoption_.adopt(now, state);
        }
    }
}

// Waiting requests start in order until the first that finds no pipeline with room. A later,
// smaller one does not overtake it, or a large one would starve.
void Dispatcher::dispatch(TimePoint now) {
    preempter_.swap_in(now);
    if (placements_.epoch() == 0 || queue_.waiting().empty()) return;
    const std::int64_t capacity_now = room_.capacity();
    if (capacity_now == 0) return;  // a worker is missing, and a plan is on its way
    const std::int64_t lasting = room_.lasting_capacity(capacity_now);
    stalls_.note_served(now);
    adopt(now, capacity_now, lasting);
    bool blocked = (placements_.pending() && placements_.pending()->disrupts) ||
                   preempter_.preempted_in_step() || !swaps_.all().empty();
    if (!blocked && suspects_.quarantine()) start_suspect(now, capacity_now, lasting);
    std::set<std::uint64_t> held_back;  // these clients' requests wait
    bool groups_held_back = false;
    for (auto it = queue_.waiting().begin();
         it != queue_.waiting().end() && !(blocked && queue_.unaccepted() == 0);) {
        RequestState& state = requests_.at(it->second);
        ++it;
        if (!state.accepted && !admit(state, lasting)) continue;
        // Other groups have to end before this one starts, and groups start in their order.
        // Requests of one sequence need not wait for them.
        if (state.group && (groups_held_back || queue_.over_the_groups_share(state))) {
            groups_held_back = true;
            continue;
        }
        // A client that has its share waits in the same way, while requests of other clients go on.
        const std::uint64_t client = state.request.client;
        if (held_back.contains(client) || queue_.over_its_share(state)) {
            held_back.insert(client);
            continue;
        }
        const std::int64_t more = queue_.sequences_of(state);
        // A request with more sequences than may run at all runs alone.
        blocked = blocked || (queue_.sequences_running() > 0 &&
                              queue_.sequences_running() + more > config_.max_running);
        if (blocked) continue;  // the others are still accepted or refused
        if (!prompts_.open()) {
            prompts_.note_blocked();
            blocked = true;
            continue;
        }
        if (!stalls_.still_fits(now, state, capacity_now, lasting)) continue;
        // A suspect that waits for a place of its own holds up nobody elsewhere.
        if (is_suspect(state) && !suspects_.set_apart(now, state)) continue;
        Path path = paths_.route(now, state);
        blocked = path.empty() && !is_suspect(state);
        if (path.empty()) continue;
        life_.start(now, state, std::move(path));
    }
}

bool Dispatcher::admit(RequestState& state, std::int64_t capacity_now) {
    const std::int64_t wanted = static_cast<std::int64_t>(state.request.prompt.size()) +
                                std::max(state.request.max_tokens, 1);
    if (wanted > capacity_now) {
        life_.reject(state.request.id, RejectReason::never_fits,
                     "prompt and answer may take " + std::to_string(wanted) +
                         " tokens; the KV memory of this placement holds " +
                         std::to_string(capacity_now) + " for one request");
        return false;
    }
    const std::int32_t least = std::max(state.request.max_tokens, 1);
    const BlockDemand all = KvDemand::of(state, demand_.blocks_needed(state, least));
    if (state.group && (!room_.holds(all) || !room_.holds_later(all))) {
        life_.reject(state.request.id, RejectReason::never_fits,
                     "prompt and " + std::to_string(state.group->sequences(state.request)) +
                         (state.group->beams ? " beams" : " answers") + " of up to " +
                         std::to_string(least) +
                         " tokens are more than the KV memory of this placement" +
                         " holds for one request; ask for fewer or shorter ones");
        return false;
    }
    state.accepted = true;
    queue_.forget_unaccepted();
    out_.push(AcceptRequest{state.request.id});
    return true;
}

void Dispatcher::start_suspect(TimePoint now, std::int64_t capacity_now, std::int64_t lasting) {
    RequestState& state = requests_.at(suspects_.quarantine()->id);
    const bool full = queue_.sequences_running() > 0 &&
                      queue_.sequences_running() + queue_.sequences_of(state) > config_.max_running;
    if (state.running || full || !prompts_.open()) return;
    if (!stalls_.still_fits(now, state, capacity_now, lasting) || !suspects_.set_apart(now, state))
        return;
    Path path = paths_.route(now, state);
    if (!path.empty()) life_.start(now, state, std::move(path));
}

}  // namespace helix::core
