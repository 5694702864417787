#include "core/coordinator/speculation.h"

#include <algorithm>
#include <utility>

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

void Speculation::continue_decoding(TimePoint now, RequestState& state) {
    const Wanted wanted = guesses_wanted(state.request, config_.speculation);
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
        if (count > 0) return ask_draft_model(now, state, count);
    }
    send_decode(state, guesses);
}

void Speculation::prepare_guesses(RequestState& state) {
    if (state.group || guesses_wanted(state.request, config_.speculation).by_model == 0) return;
    if (most_guesses(state) == 0 || guessing_of(state).told > 0) return;
    tell_draft_model(state, 0);
}

void Speculation::on(const Drafted& event) {
    const auto it = requests_.find(event.id);
    if (it == requests_.end() || !it->second.guessing) return;
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
void Speculation::end_late_drafts(TimePoint now) {
    while (!asked_drafts_.empty() &&
           now - asked_drafts_.front().first >= config_.speculation.draft_timeout) {
        const auto [asked_at, id] = asked_drafts_.front();
        asked_drafts_.pop_front();
        const auto it = requests_.find(id);
        if (it == requests_.end() || !it->second.running || !it->second.guessing) continue;
        Guessing& guessing = *it->second.guessing;
        if (!guessing.asked || guessing.asked_at != asked_at) continue;
        guessing.asked = false;
        guessing.late = true;
        guessing.length.note(1, 0);
        if (!it->second.swapped) send_decode(it->second, {});
    }
}

StageInput& Speculation::send_decode(RequestState& state, std::span<const Token> guesses) {
    stages_.going(state, 1 + static_cast<std::int64_t>(guesses.size()));
    StageInput next;
    next.key = {state.request.id, state.attempt};
    next.first_position = length(state) - 1;
    next.tokens.push_back(state.output.back());
    next.tokens.append(guesses.begin(), guesses.end());
    next.sample = true;
    next.drafts = static_cast<std::int32_t>(guesses.size());
    StageInput& sent = out_.add_rows(state.pipeline.front().worker, std::move(next));
    if (guesses.empty()) return sent;
    ++drafts_;
    draft_tokens_ += static_cast<std::int64_t>(guesses.size());
    state.guessing->sent.assign(guesses.begin(), guesses.end());
    state.guessing->right = 0;
    return sent;
}

bool Speculation::note_drawn(RequestState& state, Token drawn, bool last) {
    if (!state.guessing || state.guessing->sent.empty()) return false;
    Guessing& guessing = *state.guessing;
    const bool right =
        guessing.right < guessing.sent.size() && guessing.sent[guessing.right] == drawn;
    if (right) {
        ++guessing.right;
        ++accepted_draft_tokens_;
    }
    if (!last) return right;
    // It may stop short of the next guess: what cannot be drawn there fails when it is drawn alone.
    const std::size_t tested = right ? guessing.right : guessing.sent.size();
    guessing.length.note(static_cast<std::int32_t>(tested),
                         static_cast<std::int32_t>(guessing.right));
    guessing.sent.clear();
    return right;
}

bool Speculation::runs_ahead(const RequestState& state) {
    return state.guessing && !state.guessing->sent.empty();
}

void Speculation::forget_guesses(RequestState& state) {
    if (!state.guessing) return;
    state.guessing->sent.clear();
    state.guessing->asked = false;
}

std::int32_t Speculation::most_guesses(const RequestState& state) const {
    const auto sharing =
        static_cast<std::int64_t>(fleet_.at(state.pipeline.back().worker).kv.requests());
    const std::int64_t share = config_.speculation.guess_rows / std::max<std::int64_t>(1, sharing);
    // One more token is drawn than guesses are right.
    const std::int64_t left = state.max_output - static_cast<std::int64_t>(state.output.size()) - 1;
    return static_cast<std::int32_t>(std::max<std::int64_t>(0, std::min(share, left)));
}

Guessing& Speculation::guessing_of(RequestState& state) {
    if (!state.guessing) {
        const SpeculationConfig& how = config_.speculation;
        state.guessing = std::make_unique<Guessing>(how.ngram_min, how.ngram_max);
        NgramDrafter& lookup = state.guessing->lookup;
        lookup.append(state.request.prediction);
        lookup.append(state.request.prompt);
        state.guessing->before_output = lookup.size();
    }
    return *state.guessing;
}

void Speculation::tell_draft_model(RequestState& state, std::int32_t count) {
    Guessing& guessing = *state.guessing;
    ProposeDrafts question{state.request.id, guessing.told, {}, count};
    const std::vector<Token>& prompt = state.request.prompt;
    const auto told = static_cast<std::ptrdiff_t>(guessing.told);
    const std::ptrdiff_t in_prompt = std::min(told, std::ssize(prompt));
    question.tokens.assign(prompt.begin() + in_prompt, prompt.end());
    question.tokens.insert(question.tokens.end(), state.output.begin() + (told - in_prompt),
                           state.output.end());
    guessing.told = length(state);
    out_.push(std::move(question));
}

void Speculation::ask_draft_model(TimePoint now, RequestState& state, std::int32_t count) {
    tell_draft_model(state, count);
    state.guessing->asked = true;
    state.guessing->asked_at = now;
    asked_drafts_.emplace_back(now, state.request.id);
}

}  // namespace helix::core
