#include "core/coordinator/token_flow.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/planted_bug.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

constexpr std::int32_t kScoringAttempts = 3;

}  // namespace

std::string TokenFlow::on_tokens(TimePoint now, WorkerId worker, const TokensProduced& message) {
    on_scored(worker, message.scored);
    for (const PromptEmbedding& one : message.embeddings) on_embedding(now, worker, one);
    for (std::size_t i = 0; i < message.tokens.size(); ++i) {
        const ProducedToken& token = message.tokens[i];
        const auto it = requests_.find(token.key.request);
        if (it == requests_.end()) continue;  // it ended meanwhile
        RequestState& state = it->second;
        // This is the fencing: only the running attempt's last stage counts, and only the position
        // that is next.
        if (!state.running) continue;
        const bool stale =
            token.key.attempt != state.attempt || state.pipeline.back().worker != worker;
        if (stale && !planted(PlantedBug::stale_attempt_accepted)) continue;
        if (stale) state.attempt = token.key.attempt;  // only with the planted bug
        const std::string wrong = unasked(state, message.tokens, i);
        if (!wrong.empty()) return wrong;
        if (state.group) {
            on_group_token(now, state, token);
            continue;
        }
        const bool twice =
            planted(PlantedBug::token_streamed_twice) && token.position < length(state);
        if (token.position != length(state) && !twice) continue;
        if (came_unscored(now, state)) continue;
        const bool first = state.prompt_rows > 0;
        if (first) {
            prompts_.finish(state.prompt_rows, now - state.started);
            state.prompt_rows = 0;
            prefixes_.note_first_token(state);
        }
        if (first) roles_.note_prefilled(now, state);
        if (state.rows_going > 0) {  // this is the first token of these rows
            placements_.router()->on_returned(state.path, state.rows_going,
                                              now - state.last_progress);
            state.rows_going = 0;
        }
        // After right drafts several come at once, one after another.
        const bool last = i + 1 == message.tokens.size() || message.tokens[i + 1].key != token.key;
        state.draws_on = speculation_.note_drawn(state, token.token, last) && !last;
        const bool goes_on = take(now, state, token);
        if (goes_on && last && !state.swapped && !migrations_.hold(now, state)) {
            speculation_.continue_decoding(now, state);
        }
    }
    return "";
}

bool TokenFlow::take(TimePoint now, RequestState& state, const ProducedToken& token) {
    state.output.push_back(token.token);
    suspects_.note_progress(state);
    state.last_progress = now;
    const auto index = static_cast<std::int32_t>(state.output.size()) - 1;
    out_.push(StreamToken{state.request.id, index, token});
    const std::optional<FinishReason> end = end_of(state.request, state.output, state.max_output);
    if (end.has_value()) life_.finish(state.request.id, *end);
    return !end.has_value();
}

void TokenFlow::on(const Ended& event) {
    const auto it = requests_.find(event.id);
    if (it == requests_.end()) return;  // it ended by itself at the same time
    RequestState& state = it->second;
    if (!event.choice || !state.group) return life_.finish(event.id, event.reason);
    if (state.group->beams) return;  // its choices are streamed whole, at the end
    const GroupMember* member = state.group->find(static_cast<std::uint32_t>(*event.choice));
    if (member != nullptr) end_choice(state, *member, event.reason);
}

void TokenFlow::end_what_is_over(RequestState& state) {
    const std::int64_t most = state.request.max_tokens > 0
                                  ? state.request.max_tokens
                                  : std::numeric_limits<std::int64_t>::max();
    const auto end = [&](const std::vector<Token>& output) {
        return output.empty() ? std::nullopt : end_of(state.request, output, most);
    };
    if (!state.group) {
        if (const auto reason = end(state.output)) life_.finish(state.request.id, *reason);
        return;
    }
    std::vector<std::pair<std::uint32_t, FinishReason>> over;
    for (const GroupMember& member : state.group->members) {
        if (const auto reason = end(member.output)) over.emplace_back(member.number, *reason);
    }
    for (const auto& [number, reason] : over) end_choice(state, *state.group->find(number), reason);
}

void TokenFlow::resume_group(TimePoint now, RequestState& state) {
    if (state.group->beams) return advance_beams(now, state);
    for (GroupMember& member : state.group->members) {
        if (member.rows_going == 0) stages_.send_member(now, state, member);
    }
}

// A prompt that is computed again after a preemption begins with tokens that were passed on before.
void TokenFlow::on_scored(WorkerId worker, const std::vector<ProducedToken>& tokens) {
    for (const ProducedToken& token : tokens) {
        const auto it = requests_.find(token.key.request);
        if (it == requests_.end()) continue;
        RequestState& state = it->second;
        const bool stale = !state.running || token.key.attempt != state.attempt ||
                           state.pipeline.back().worker != worker;
        if (stale || unscored(state) == 0 || token.position != state.scored + 1) continue;
        ++state.scored;
        ScoreTokens& scores = out_.scores_of(state.request.id);
        scores.tokens.push_back(token);
        // A beam search asks for more than its client does.
        auto& top = scores.tokens.back().top;
        const auto wanted = static_cast<std::size_t>(state.request.sampling.n_logprobs);
        if (top.size() > wanted) top.resize(wanted);
    }
}

void TokenFlow::on_embedding(TimePoint now, WorkerId worker, const PromptEmbedding& embedding) {
    const auto it = requests_.find(embedding.key.request);
    if (it == requests_.end()) return;
    RequestState& state = it->second;
    const bool stale = !state.running || embedding.key.attempt != state.attempt ||
                       state.pipeline.back().worker != worker;
    if (stale) return;
    prompts_.finish(state.prompt_rows, now - state.started);
    state.prompt_rows = 0;
    prefixes_.note_first_token(state);
    suspects_.note_progress(state);
    placements_.router()->on_returned(state.path, state.rows_going, now - state.last_progress);
    state.rows_going = 0;
    state.last_progress = now;
    out_.push(EmbedPrompt{state.request.id, embedding.values});
    life_.finish(state.request.id, FinishReason::stop);
}

bool TokenFlow::came_unscored(TimePoint now, RequestState& state) {
    if (unscored(state) == 0) return false;
    if (++state.unscored_ends < kScoringAttempts) {
        life_.fail_over(now, state, RouteReason::no_token);
    } else {
        life_.fail(state.request.id, FinishReason::error, FailureCause::unscored,
                   "workers answered without the log-probabilities of the prompt, tried " +
                       std::to_string(kScoringAttempts) + " times");
    }
    return true;
}

// Says what is wrong with the i-th token of a message, which is of the attempt that runs.
std::string TokenFlow::unasked(const RequestState& state, const std::vector<ProducedToken>& tokens,
                               std::size_t i) {
    if (planted(PlantedBug::lies_believed)) return "";
    if (state.group) return unasked_of_group(state, tokens, i);
    const ProducedToken& token = tokens[i];
    if (token.position < length(state)) return "";  // it came twice
    if (token.position == length(state) && (state.rows_going > 0 || state.draws_on)) return "";
    return "drew a token that nobody asked for" + of_request(token.key);
}

std::string TokenFlow::unasked_of_group(const RequestState& state,
                                        const std::vector<ProducedToken>& tokens, std::size_t i) {
    SequenceGroup& group = *state.group;
    const ProducedToken& token = tokens[i];
    const auto prompt = static_cast<std::int32_t>(state.request.prompt.size());
    if (group.beams && token.top.empty()) {
        return "answered a beam without log-probabilities" + of_request(token.key);
    }
    if (!group.forked) {
        // All members are drawn at once, since some of them alone could never go on.
        const auto draws = group.beams ? 1U : static_cast<std::uint32_t>(state.request.n);
        for (std::uint32_t member = 0; member < draws; ++member) {
            const SequenceKey key{state.request.id, state.attempt, member};
            if (i + member >= tokens.size() || tokens[i + member].key != key ||
                tokens[i + member].position != prompt) {
                return "drew other tokens after a prompt than it was asked for" +
                       of_request(token.key);
            }
        }
        return "";
    }
    const GroupMember* member = group.find(token.key.member);
    if (member == nullptr) return "";  // its choice has ended
    const auto next = prompt + static_cast<std::int32_t>(member->output.size());
    if (token.position < next) return "";  // it came twice, or is drawn anew
    const bool asked = member->rows_going > 0 || member->output.empty() || !member->top.empty();
    if (token.position == next && asked) return "";
    return "drew a token that nobody asked for" + of_request(token.key);
}

void TokenFlow::fork_group(TimePoint now, RequestState& state) {
    SequenceGroup& group = *state.group;
    group.forked = true;
    ForkSequences fork{key_of(state, 0), prompt_tokens(state), {}};
    for (const GroupMember& member : group.members) {
        if (member.number != 0) fork.members.push_back(member.number);
    }
    if (!fork.members.empty()) stages_.to_stages(state, fork);
    if (group.find(0) == nullptr) stages_.to_stages(state, FreeSequences{{key_of(state, 0)}});
    for (GroupMember& member : group.members) {
        if (!member.output.empty()) stages_.send_member(now, state, member);
    }
}

void TokenFlow::on_group_token(TimePoint now, RequestState& state, const ProducedToken& token) {
    SequenceGroup& group = *state.group;
    if (!group.forked) {
        if (came_unscored(now, state)) return;
        prompts_.finish(state.prompt_rows, now - state.started);
        state.prompt_rows = 0;
        prefixes_.note_first_token(state);
        if (state.rows_going > 0) {
            placements_.router()->on_returned(state.path, state.rows_going, now - state.started);
            state.rows_going = 0;
        }
        fork_group(now, state);
        roles_.note_prefilled(now, state);
    }
    GroupMember* member = group.find(token.key.member);
    if (member == nullptr) return;  // its choice has ended
    // A token that came twice, or is drawn anew after a preemption, is the same that was streamed
    // before.
    const auto next = prompt_tokens(state) + static_cast<std::int32_t>(member->output.size());
    if (token.position != next || !member->top.empty()) return;
    if (member->rows_going > 0) {
        placements_.router()->on_returned(state.path, member->rows_going, now - member->sent_at);
        state.rows_going -= std::exchange(member->rows_going, 0);
    }
    state.last_progress = now;
    suspects_.note_progress(state);
    if (!group.beams) return on_choice_token(now, state, *member, token);
    member->top = token.top;
    advance_beams(now, state);
}

void TokenFlow::on_choice_token(TimePoint now, RequestState& state, GroupMember& member,
                                const ProducedToken& token) {
    if (!take_of_choice(state, member, token)) return;
    if (!state.swapped && !migrations_.hold(now, state)) stages_.send_member(now, state, member);
}

bool TokenFlow::take_of_choice(RequestState& state, GroupMember& member,
                               const ProducedToken& token) {
    member.output.push_back(token.token);
    const auto n_output = static_cast<std::int32_t>(member.output.size());
    out_.push(StreamToken{state.request.id, n_output - 1, token,
                          static_cast<std::int32_t>(member.number)});
    const std::optional<FinishReason> end = end_of(state.request, member.output, state.max_output);
    if (end.has_value()) end_choice(state, member, *end);
    return !end.has_value();
}

bool TokenFlow::take_first_tokens(TimePoint now, RequestState& state,
                                  const std::vector<ProducedToken>& tokens) {
    const RequestId id = state.request.id;
    for (const ProducedToken& token : tokens) {
        on_group_token(now, state, token);
        if (!requests_.contains(id)) return false;
    }
    return true;
}

bool TokenFlow::take_unsaid(RequestState& state, std::uint32_t number,
                            const std::vector<ProducedToken>& tokens) {
    const RequestId id = state.request.id;
    for (const ProducedToken& token : tokens) {
        if (!take_of_choice(state, *state.group->find(number), token)) {
            return requests_.contains(id);
        }
    }
    return true;
}

void TokenFlow::end_choice(RequestState& state, const GroupMember& member, FinishReason reason) {
    SequenceGroup& group = *state.group;
    const std::uint32_t number = member.number;
    out_.push(FinishChoice{state.request.id, static_cast<std::int32_t>(number), reason});
    if (reason != FinishReason::cancelled) demand_.note_output(member.output.size());
    if (group.members.size() == 1) return life_.finish(state.request.id, reason);
    const SequenceKey key = key_of(state, number);
    if (group.forked && state.running) {
        stages_.to_stages(state, FreeSequences{{key}});
        out_.drop_unsent(state.pipeline.front().worker,
                         [&](const StageInput& input) { return input.key == key; });
    }
    std::erase_if(group.members, [&](const GroupMember& m) { return m.number == number; });
    if (!state.running) return;
    queue_.add_running(state, -1);
    if (!state.swapped) migrations_.charge(state);
    if (migrations_.is_held(state)) {
        migrations_.abort_migration(out_.now(), state,
                                    {MigrationCause::choice_ended, "a choice of it ended"});
    } else {
        migrations_.hold(out_.now(), state);  // the others may have waited for this one
    }
}

void TokenFlow::advance_beams(TimePoint now, RequestState& state) {
    SequenceGroup& group = *state.group;
    if (state.swapped) return;  // it goes on when the request is back
    std::vector<std::vector<spec::TokenLogprob>> likely;
    for (GroupMember& member : group.members) {
        if (member.top.empty()) return;
    }
    for (GroupMember& member : group.members) likely.push_back(std::move(member.top));
    const std::vector<std::size_t> parents = group.beams->advance(likely);
    if (group.beams->over()) return finish_beams(state);

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
        if (!forks[p].members.empty()) stages_.to_stages(state, forks[p]);
        if (continued[p] == 0) dead.keys.push_back(key_of(state, group.members[p].number));
    }
    if (!dead.keys.empty()) stages_.to_stages(state, dead);
    group.members = std::move(next);
    if (migrations_.hold(now, state)) return;
    for (GroupMember& member : group.members) stages_.send_member(now, state, member);
}

void TokenFlow::finish_beams(RequestState& state) {
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
                out_.push(StreamToken{id, index++, token, choice});
            }
            reason = one.reason;
            demand_.note_output(one.steps.size());
        }
        out_.push(FinishChoice{id, choice, reason});
    }
    life_.finish(id, reason);
}

}  // namespace helix::core
