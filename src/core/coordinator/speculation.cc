#include "core/coordinator/speculation.h"

#include <algorithm>
#include <utility>

namespace helix::core {
namespace {

struct Wanted {
    std::int32_t by_lookup = 0;
    std::int32_t by_model = 0;
};

Wanted drafts_wanted(const Request& request, const SpeculationConfig& how) {
    Wanted wanted{how.ngram_tokens, how.draft_tokens};
    if (!request.prediction.empty()) {
        wanted.by_lookup = std::max(wanted.by_lookup, how.predicted_tokens);
    }
    if (request.max_draft_tokens >= 0) {
        wanted.by_lookup = request.max_draft_tokens;
        if (wanted.by_model > 0) wanted.by_model = request.max_draft_tokens;
    }
    return wanted;
}

}  // namespace

void Speculation::continue_decoding(TimePoint now, RequestState& state) {
    const Wanted wanted = drafts_wanted(state.request, config_.speculation);
    if (wanted.by_lookup == 0 && wanted.by_model == 0) {
        send_decode(state, {});
        return;
    }
    Drafting& drafting = drafting_of(state);
    if (drafting.asked) return;  // before it was swapped out
    const std::size_t seen = drafting.lookup.size() - drafting.before_output;
    drafting.lookup.append(std::span(state.output).subspan(seen));
    const std::int32_t most = max_draft_tokens(state);
    std::vector<Token> drafted = drafting.lookup.draft(std::min(wanted.by_lookup, most));
    if (!drafted.empty()) {
        const auto count = drafting.length.next(static_cast<std::int32_t>(drafted.size()));
        drafted.resize(static_cast<std::size_t>(count));
    } else if (wanted.by_model > 0 && !drafting.late) {
        const std::int32_t count = drafting.length.next(std::min(wanted.by_model, most));
        if (count > 0) return ask_draft_model(now, state, count);
    }
    send_decode(state, drafted);
}

void Speculation::prepare_drafts(RequestState& state) {
    if (state.group || drafts_wanted(state.request, config_.speculation).by_model == 0) return;
    if (max_draft_tokens(state) == 0 || drafting_of(state).told > 0) return;
    tell_draft_model(state, 0);
}

void Speculation::on(const Drafted& event) {
    const auto it = requests_.find(event.id);
    if (it == requests_.end() || !it->second.drafting) return;
    RequestState& state = it->second;
    state.drafting->late = false;
    // Too late, or it was preempted and has come further since.
    if (!state.drafting->asked || event.position != length(state)) return;
    state.drafting->asked = false;
    if (state.swapped) return;  // asked for again when it is back
    const auto most = static_cast<std::size_t>(max_draft_tokens(state));
    send_decode(state, std::span(event.tokens).first(std::min(most, event.tokens.size())));
}

// It is not asked again before it has answered, and that it was late counts as a wrong draft: a
// draft model that is too slow is asked less and less.
void Speculation::end_late_drafts(TimePoint now) {
    while (!asked_drafts_.empty() &&
           now - asked_drafts_.front().first >= config_.speculation.draft_timeout) {
        const auto [asked_at, id] = asked_drafts_.front();
        asked_drafts_.pop_front();
        const auto it = requests_.find(id);
        if (it == requests_.end() || !it->second.running || !it->second.drafting) continue;
        Drafting& drafting = *it->second.drafting;
        if (!drafting.asked || drafting.asked_at != asked_at) continue;
        drafting.asked = false;
        drafting.late = true;
        drafting.length.note(1, 0);
        if (!it->second.swapped) send_decode(it->second, {});
    }
}

StageInput& Speculation::send_decode(RequestState& state, std::span<const Token> drafted) {
    stages_.going(state, 1 + static_cast<std::int64_t>(drafted.size()));
    StageInput next;
    next.key = {state.request.id, state.attempt};
    next.first_position = length(state) - 1;
    next.tokens.push_back(state.output.back());
    next.tokens.append(drafted.begin(), drafted.end());
    next.sample = true;
    next.drafts = static_cast<std::int32_t>(drafted.size());
    StageInput& sent = out_.add_rows(state.pipeline.front().worker, std::move(next));
    if (drafted.empty()) return sent;
    ++drafts_;
    draft_tokens_ += static_cast<std::int64_t>(drafted.size());
    state.drafting->sent.assign(drafted.begin(), drafted.end());
    state.drafting->right = 0;
    return sent;
}

bool Speculation::note_drawn(RequestState& state, Token drawn, bool last) {
    if (!state.drafting || state.drafting->sent.empty()) return false;
    Drafting& drafting = *state.drafting;
    const bool right =
        drafting.right < drafting.sent.size() && drafting.sent[drafting.right] == drawn;
    if (right) {
        ++drafting.right;
        ++accepted_draft_tokens_;
    }
    if (!last) return right;
    // It may stop short of the next drafted token: what cannot be drawn there fails when it is
    // drawn alone.
    const std::size_t tested = right ? drafting.right : drafting.sent.size();
    drafting.length.note(static_cast<std::int32_t>(tested),
                         static_cast<std::int32_t>(drafting.right));
    drafting.sent.clear();
    return right;
}

bool Speculation::runs_ahead(const RequestState& state) {
    return state.drafting && !state.drafting->sent.empty();
}

void Speculation::forget_drafts(RequestState& state) {
    if (!state.drafting) return;
    state.drafting->sent.clear();
    state.drafting->asked = false;
}

std::int32_t Speculation::max_draft_tokens(const RequestState& state) const {
    const auto sharing =
        static_cast<std::int64_t>(fleet_.at(state.pipeline.back().worker).kv.requests());
    const std::int64_t share = config_.speculation.draft_rows / std::max<std::int64_t>(1, sharing);
    // One more token is drawn than drafted ones are right.
    const std::int64_t left = state.max_output - static_cast<std::int64_t>(state.output.size()) - 1;
    return static_cast<std::int32_t>(std::max<std::int64_t>(0, std::min(share, left)));
}

Drafting& Speculation::drafting_of(RequestState& state) {
    if (!state.drafting) {
        const SpeculationConfig& how = config_.speculation;
        state.drafting = std::make_unique<Drafting>(how.ngram_min, how.ngram_max);
        NgramDrafter& lookup = state.drafting->lookup;
        lookup.append(state.request.prediction);
        lookup.append(state.request.prompt);
        state.drafting->before_output = lookup.size();
    }
    return *state.drafting;
}

void Speculation::tell_draft_model(RequestState& state, std::int32_t count) {
    Drafting& drafting = *state.drafting;
    ProposeDrafts question{state.request.id, drafting.told, {}, count};
    const std::vector<Token>& prompt = state.request.prompt;
    const auto told = static_cast<std::ptrdiff_t>(drafting.told);
    const std::ptrdiff_t in_prompt = std::min(told, std::ssize(prompt));
    question.tokens.assign(prompt.begin() + in_prompt, prompt.end());
    question.tokens.insert(question.tokens.end(), state.output.begin() + (told - in_prompt),
                           state.output.end());
    drafting.told = length(state);
    out_.push(std::move(question));
}

void Speculation::ask_draft_model(TimePoint now, RequestState& state, std::int32_t count) {
    tell_draft_model(state, count);
    state.drafting->asked = true;
    state.drafting->asked_at = now;
    asked_drafts_.emplace_back(now, state.request.id);
}

}  // namespace helix::core
