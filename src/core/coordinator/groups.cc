// Requests that take several sequences: parallel sampling and beam search (FEATURES V14-V17).

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {
namespace {

std::int32_t prompt_tokens(const RequestState& state) {
    return static_cast<std::int32_t>(state.request.prompt.size());
}

SequenceKey key_of(const RequestState& state, std::uint32_t member) {
    return {state.request.id, state.attempt, member};
}

}  // namespace

// ---- at the workers
// -------------------------------------------------------------------------------

void Coordinator::Impl::to_stages(const RequestState& state, const WorkerMessage& message,
                                  std::vector<CoordinatorAction>& actions) const {
    for (const Stage& stage : state.pipeline) {
        if (workers.at(stage.worker).gone) continue;
        actions.push_back(SendToWorker{stage.worker, message});
    }
}

std::vector<SequenceKey> Coordinator::Impl::keys_at_workers(const RequestState& state) {
    if (!state.group || !state.group->forked) return {key_of(state, 0)};
    std::vector<SequenceKey> keys;
    for (const GroupMember& member : state.group->members) {
        keys.push_back(key_of(state, member.number));
    }
    // What a migration brought waits under the name of member 0.
    if (state.moved && state.group->find(0) == nullptr) keys.push_back(key_of(state, 0));
    return keys;
}

spec::SamplingParams Coordinator::Impl::sampling_of(const RequestState& state) {
    spec::SamplingParams sampling = state.request.sampling;
    if (state.request.beam) {
        sampling.n_logprobs = std::max(sampling.n_logprobs, 2 * state.request.beam->width);
    }
    return sampling;
}

void Coordinator::Impl::begin_group(RequestState& state, StageInput& input) {
    state.group->restart(state.request);
    if (state.group->beams) {
        state.group->beams->set_max_output(state.max_output);
    } else {
        // Choices that have ended are drawn, too: the others stay what they were.
        input.draws = state.request.n;
    }
}

void Coordinator::Impl::fork_group(TimePoint now, RequestState& state,
                                   std::vector<CoordinatorAction>& actions) {
    SequenceGroup& group = *state.group;
    group.forked = true;
    ForkSequences fork{key_of(state, 0), prompt_tokens(state), {}};
    for (const GroupMember& member : group.members) {
        if (member.number != 0) fork.members.push_back(member.number);
    }
    if (!fork.members.empty()) to_stages(state, fork, actions);
    if (group.find(0) == nullptr) to_stages(state, FreeSequences{{key_of(state, 0)}}, actions);
    for (GroupMember& member : group.members) {
        if (!member.output.empty()) send_member(now, state, member);
    }
}

StageInput& Coordinator::Impl::send_member(TimePoint now, RequestState& state,
                                           GroupMember& member) {
    const std::int32_t prompt = prompt_tokens(state);
    const auto all = prompt + static_cast<std::int32_t>(member.output.size());
    CHECK(member.sent >= prompt && member.sent < all);
    StageInput input;
    input.key = key_of(state, member.number);
    input.first_position = member.sent;
    input.tokens.assign(member.output.begin() + (member.sent - prompt), member.output.end());
    input.sample = true;
    input.parent = std::exchange(member.parent, -1);
    member.rows_going = all - member.sent;
    member.sent = all;
    member.sent_at = now;
    state.rows_going += member.rows_going;
    router->on_sent(state.path, member.rows_going);
    std::vector<StageInput>& box = outbox[state.pipeline.front().worker].inputs;
    box.push_back(std::move(input));
    return box.back();
}

// ---- tokens
// ---------------------------------------------------------------------------------------

void Coordinator::Impl::on_group_token(TimePoint now, RequestState& state,
                                       const ProducedToken& token,
                                       std::vector<CoordinatorAction>& actions) {
    SequenceGroup& group = *state.group;
    if (!group.forked) {
        if (came_unscored(now, state, actions)) return;
        prompts.finish(state.prompt_rows, now - state.started);
        state.prompt_rows = 0;
        note_first_token(state);
        router->on_returned(state.path, state.rows_going, now - state.started);
        state.rows_going = 0;
        fork_group(now, state, actions);
        note_prefilled(now, state);
    }
    GroupMember* member = group.find(token.key.member);
    if (member == nullptr) return;  // its choice has ended
    // Twice, or drawn anew after a preemption: the same token, streamed before.
    const auto next = prompt_tokens(state) + static_cast<std::int32_t>(member->output.size());
    if (token.position != next || !member->top.empty()) return;
    if (member->rows_going > 0) {
        router->on_returned(state.path, member->rows_going, now - member->sent_at);
        state.rows_going -= std::exchange(member->rows_going, 0);
    }
    state.last_progress = now;
    note_progress(state);
    if (!group.beams) return on_choice_token(now, state, *member, token, actions);
    member->top = token.top;
    advance_beams(now, state, actions);
}

void Coordinator::Impl::on_choice_token(TimePoint now, RequestState& state, GroupMember& member,
                                        const ProducedToken& token,
                                        std::vector<CoordinatorAction>& actions) {
    member.output.push_back(token.token);
    const auto n_output = static_cast<std::int32_t>(member.output.size());
    actions.push_back(StreamToken{state.request.id, n_output - 1, token,
                                  static_cast<std::int32_t>(member.number)});
    const auto& stops = state.request.stop_tokens;
    const bool is_stop = std::find(stops.begin(), stops.end(), token.token) != stops.end();
    if (is_stop && n_output > state.request.min_tokens) {
        end_choice(state, member, FinishReason::stop, actions);
    } else if (n_output >= state.max_output) {
        end_choice(state, member, FinishReason::length, actions);
    } else if (!state.swapped && !hold(now, state, actions)) {
        send_member(now, state, member);
    }
}

void Coordinator::Impl::end_choice(RequestState& state, const GroupMember& member,
                                   FinishReason reason, std::vector<CoordinatorAction>& actions) {
    SequenceGroup& group = *state.group;
    const std::uint32_t number = member.number;
    actions.push_back(FinishChoice{state.request.id, static_cast<std::int32_t>(number), reason});
    if (reason != FinishReason::cancelled) note_output(member.output.size());
    if (group.members.size() == 1) return finish(state.request.id, reason, "", actions);
    const SequenceKey key = key_of(state, number);
    if (group.forked && state.running) {
        to_stages(state, FreeSequences{{key}}, actions);
        drop_unsent(state, [&](const StageInput& input) { return input.key == key; });
    }
    std::erase_if(group.members, [&](const GroupMember& m) { return m.number == number; });
    if (!state.running) return;
    add_running(state, -1);
    if (!state.swapped) charge(state);
    if (is_held(state)) {
        abort_migration(step_at, state, "a choice of it ended", actions);
    } else {
        hold(step_at, state, actions);  // the others may have waited for this one
    }
}

// ---- beams
// ----------------------------------------------------------------------------------------

void Coordinator::Impl::advance_beams(TimePoint now, RequestState& state,
                                      std::vector<CoordinatorAction>& actions) {
    SequenceGroup& group = *state.group;
    if (state.swapped) return;  // when it is back
    std::vector<std::vector<spec::TokenLogprob>> likely;
    for (GroupMember& member : group.members) {
        if (member.top.empty()) return;
    }
    for (GroupMember& member : group.members) likely.push_back(std::move(member.top));
    const std::vector<std::size_t> parents = group.beams->advance(likely);
    if (group.beams->over()) return finish_beams(state, actions);

    std::vector<ForkSequences> forks(group.members.size());
    std::vector<char> continued(group.members.size(), 0);
    std::vector<GroupMember> next(parents.size());
    for (std::size_t i = 0; i < parents.size(); ++i) {
        const GroupMember& parent = group.members[parents[i]];
        next[i].output = group.beams->tokens(i);
        next[i].sent = parent.sent;
        if (std::exchange(continued[parents[i]], 1) == 0) {
            next[i].number = parent.number;
            continue;
        }
        next[i].number = group.next_number++;
        next[i].parent = static_cast<std::int32_t>(parent.number);
        ForkSequences& fork = forks[parents[i]];
        fork.parent = key_of(state, parent.number);
        fork.tokens = parent.sent;
        fork.members.push_back(next[i].number);
    }
    FreeSequences dead;
    for (std::size_t p = 0; p < group.members.size(); ++p) {
        if (!forks[p].members.empty()) to_stages(state, forks[p], actions);
        if (continued[p] == 0) dead.keys.push_back(key_of(state, group.members[p].number));
    }
    if (!dead.keys.empty()) to_stages(state, dead, actions);
    group.members = std::move(next);
    if (hold(now, state, actions)) return;
    for (GroupMember& member : group.members) send_member(now, state, member);
}

void Coordinator::Impl::finish_beams(RequestState& state, std::vector<CoordinatorAction>& actions) {
    const RequestId id = state.request.id;
    const auto best = state.group->beams->best(static_cast<std::size_t>(state.request.n));
    FinishReason reason = FinishReason::length;
    for (std::int32_t choice = 0; choice < state.request.n; ++choice) {
        reason = FinishReason::length;
        if (static_cast<std::size_t>(choice) < best.size()) {
            const Beams::Finished& one = best[static_cast<std::size_t>(choice)];
            std::int32_t index = 0;
            for (const Beams::Step& step : one.steps) {
                const ProducedToken token{key_of(state, 0), prompt_tokens(state) + index,
                                          step.token, step.logprob, step.top};
                actions.push_back(StreamToken{id, index++, token, choice});
            }
            reason = one.reason;
            note_output(one.steps.size());
        }
        actions.push_back(FinishChoice{id, choice, reason});
    }
    finish(id, reason, "", actions);
}

void Coordinator::Impl::resume_group(TimePoint now, RequestState& state,
                                     std::vector<CoordinatorAction>& actions) {
    if (state.group->beams) return advance_beams(now, state, actions);
    for (GroupMember& member : state.group->members) {
        if (member.rows_going == 0) send_member(now, state, member);
    }
}

}  // namespace helix::core
