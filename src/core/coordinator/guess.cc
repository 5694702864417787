// Speculation, the coordinator's side: which tokens are guessed ahead, sent along with the last one
// and kept as far as they were right (FEATURES O4). What is drawn does not depend on it: the last
// stage draws every position as if it had come alone, up to the first wrong guess.
//
// Guesses come from the text itself (core/coordinator/draft_ngram.h), else from the draft model if
// there is one: the request waits for its answer, but not long. How many depends on how often the
// request's guesses were right (core/coordinator/guess_length.h) and on how full the batches are: a
// row more is nearly free while a batch reads its weights for a few rows and costs as much as a row
// of another request where there are many. So all requests of a last stage together get guess_rows
// guesses at most.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {
namespace {

struct Wanted {
    std::int32_t by_lookup = 0;
    std::int32_t by_model = 0;
};

Wanted guesses_wanted(const Request& request, const SpeculationConfig& how) {
    Wanted wanted{how.ngram_tokens, how.draft_tokens};
    if (!request.prediction.empty()) {
        wanted.by_lookup = std::max(wanted.by_lookup, how.predicted_tokens);
    }
    if (request.guesses >= 0) {
        wanted.by_lookup = request.guesses;
        if (wanted.by_model > 0) wanted.by_model = request.guesses;
    }
    return wanted;
}

}  // namespace

std::int32_t Coordinator::Impl::most_guesses(const RequestState& state) const {
    const auto sharing =
        static_cast<std::int64_t>(workers.at(state.pipeline.back().worker).kv.requests());
    const std::int64_t share = config.speculation.guess_rows / std::max<std::int64_t>(1, sharing);
    // One more token is drawn than guesses are right.
    const std::int64_t left = state.max_output - static_cast<std::int64_t>(state.output.size()) - 1;
    return static_cast<std::int32_t>(std::max<std::int64_t>(0, std::min(share, left)));
}

Guessing& Coordinator::Impl::guessing_of(RequestState& state) {
    if (!state.guessing) {
        const SpeculationConfig& how = config.speculation;
        state.guessing = std::make_unique<Guessing>(how.ngram_min, how.ngram_max);
        NgramDrafter& lookup = state.guessing->lookup;
        lookup.append(state.request.prediction);
        lookup.append(state.request.prompt);
        state.guessing->before_output = lookup.size();
    }
    return *state.guessing;
}

void Coordinator::Impl::prepare_guesses(RequestState& state,
                                        std::vector<CoordinatorAction>& actions) {
    if (state.group || guesses_wanted(state.request, config.speculation).by_model == 0) return;
    if (most_guesses(state) == 0 || guessing_of(state).told > 0) return;
    tell_draft_model(state, 0, actions);
}

void Coordinator::Impl::continue_decoding(TimePoint now, RequestState& state,
                                          std::vector<CoordinatorAction>& actions) {
    const Wanted wanted = guesses_wanted(state.request, config.speculation);
    if (wanted.by_lookup == 0 && wanted.by_model == 0) {
        send_decode(state, {});
        return;
    }
    Guessing& guessing = guessing_of(state);
    if (guessing.asked) return;  // before it was swapped out
    const std::size_t seen = guessing.lookup.size() - guessing.before_output;
    guessing.lookup.append(std::span(state.output).subspan(seen));
    const std::int32_t most = most_guesses(state);
    std::vector<Token> guesses = guessing.lookup.guess(std::min(wanted.by_lookup, most));
    if (!guesses.empty()) {
        const auto count = guessing.length.next(static_cast<std::int32_t>(guesses.size()));
        guesses.resize(static_cast<std::size_t>(count));
    } else if (wanted.by_model > 0 && !guessing.late) {
        const std::int32_t count = guessing.length.next(std::min(wanted.by_model, most));
        if (count > 0) return ask_draft_model(now, state, count, actions);
    }
    send_decode(state, guesses);
}

StageInput& Coordinator::Impl::send_decode(RequestState& state, std::span<const Token> guesses) {
    going(state, 1 + static_cast<std::int64_t>(guesses.size()));
    StageInput next;
    next.key = {state.request.id, state.attempt};
    next.first_position = length(state) - 1;
    next.tokens.push_back(state.output.back());
    next.tokens.append(guesses.begin(), guesses.end());
    next.sample = true;
    next.drafts = static_cast<std::int32_t>(guesses.size());
    std::vector<StageInput>& box = outbox[state.pipeline.front().worker].inputs;
    box.push_back(std::move(next));
    if (guesses.empty()) return box.back();
    ++drafts;
    draft_tokens += static_cast<std::int64_t>(guesses.size());
    state.guessing->sent.assign(guesses.begin(), guesses.end());
    state.guessing->right = 0;
    return box.back();
}

bool Coordinator::Impl::note_drawn(RequestState& state, Token drawn, bool last) {
    if (!state.guessing || state.guessing->sent.empty()) return false;
    Guessing& guessing = *state.guessing;
    const bool right =
        guessing.right < guessing.sent.size() && guessing.sent[guessing.right] == drawn;
    if (right) {
        ++guessing.right;
        ++accepted_draft_tokens;
    }
    if (!last) return right;
    // It may stop short of the next guess: what cannot be drawn there fails when it is drawn alone.
    const std::size_t tested = right ? guessing.right : guessing.sent.size();
    guessing.length.note(static_cast<std::int32_t>(tested),
                         static_cast<std::int32_t>(guessing.right));
    guessing.sent.clear();
    return right;
}

bool Coordinator::Impl::runs_ahead(const RequestState& state) {
    return state.guessing && !state.guessing->sent.empty();
}

void Coordinator::Impl::forget_guesses(RequestState& state) {
    if (!state.guessing) return;
    state.guessing->sent.clear();
    state.guessing->asked = false;
}

void Coordinator::Impl::tell_draft_model(RequestState& state, std::int32_t count,
                                         std::vector<CoordinatorAction>& actions) {
    Guessing& guessing = *state.guessing;
    ProposeDrafts question{state.request.id, guessing.told, {}, count};
    const std::vector<Token>& prompt = state.request.prompt;
    const auto told = static_cast<std::ptrdiff_t>(guessing.told);
    const std::ptrdiff_t in_prompt = std::min(told, std::ssize(prompt));
    question.tokens.assign(prompt.begin() + in_prompt, prompt.end());
    question.tokens.insert(question.tokens.end(), state.output.begin() + (told - in_prompt),
                           state.output.end());
    guessing.told = length(state);
    actions.push_back(std::move(question));
}

void Coordinator::Impl::ask_draft_model(TimePoint now, RequestState& state, std::int32_t count,
                                        std::vector<CoordinatorAction>& actions) {
    tell_draft_model(state, count, actions);
    state.guessing->asked = true;
    state.guessing->asked_at = now;
    asked_drafts.emplace_back(now, state.request.id);
}

void Coordinator::Impl::on(TimePoint, const Drafted& event, std::vector<CoordinatorAction>&) {
    const auto it = requests.find(event.id);
    if (it == requests.end() || !it->second.guessing) return;
    RequestState& state = it->second;
    state.guessing->late = false;
    // Too late, or it was preempted and has come further since.
    if (!state.guessing->asked || event.position != length(state)) return;
    state.guessing->asked = false;
    if (state.swapped) return;  // asked for again when it is back
    const auto most = static_cast<std::size_t>(most_guesses(state));
    send_decode(state, std::span(event.tokens).first(std::min(most, event.tokens.size())));
}

// It is not asked again before it has answered, and that it was late counts as a wrong guess: a
// draft model that is too slow is asked less and less.
void Coordinator::Impl::end_late_drafts(TimePoint now) {
    while (!asked_drafts.empty() &&
           now - asked_drafts.front().first >= config.speculation.draft_timeout) {
        const auto [asked_at, id] = asked_drafts.front();
        asked_drafts.pop_front();
        const auto it = requests.find(id);
        if (it == requests.end() || !it->second.running || !it->second.guessing) continue;
        Guessing& guessing = *it->second.guessing;
        if (!guessing.asked || guessing.asked_at != asked_at) continue;
        guessing.asked = false;
        guessing.late = true;
        guessing.length.note(1, 0);
        if (!it->second.swapped) send_decode(it->second, {});
    }
}

}  // namespace helix::core
