#include "sim/fuzz/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/coordinator/beam_search.h"
#include "sim/faults/toy_model.h"

namespace helix::sim {

void Judge::broken(core::RequestId id, const std::string& what) {
    if (verdict_.empty()) verdict_ = fmt::format("{} (request {})", what, id.value);
}

std::int32_t Judge::longest(const View& view) const {
    const auto room =
        config_.context_length - static_cast<std::int32_t>(view.request.prompt.size());
    return view.request.max_tokens > 0 ? std::min(view.request.max_tokens, room) : room;
}

std::int64_t Judge::open() const {
    return std::count_if(views_.begin(), views_.end(),
                         [](const auto& entry) { return entry.second.state != State::ended; });
}

void Judge::submitted(core::TimePoint now, const core::Request& request) {
    View view;
    view.request = request;
    view.choices.resize(static_cast<std::size_t>(request.n));
    view.in_calm = calm_;
    view.submitted_at = view.last_progress = now;
    if (!views_.emplace(request.id, std::move(view)).second) broken(request.id, "submitted twice");
}

void Judge::cancelled(core::TimePoint, core::RequestId id) {
    views_.at(id).cancelled = true;
}

void Judge::accepted(core::TimePoint now, core::RequestId id) {
    View& view = views_.at(id);
    if (view.state != State::waiting) broken(id, "P1: accepted, but not waiting");
    view.state = State::accepted;
    view.last_progress = now;
}

void Judge::rejected(core::TimePoint now, const core::RejectRequest& what) {
    View& view = views_.at(what.id);
    if (view.state != State::waiting) broken(what.id, "P6: rejected after it was accepted");
    if (what.message.empty()) broken(what.id, "P6: rejected without a reason");
    view.state = State::ended;
    const auto wanted = static_cast<std::int32_t>(view.request.prompt.size()) +
                        std::max(view.request.max_tokens, 1);
    const double waited = (now - view.submitted_at).seconds();
    switch (what.reason) {
        case core::RejectReason::too_long:
            if (wanted <= config_.context_length) broken(what.id, "P6: called too long, but fits");
            break;
        case core::RejectReason::queue_full: {
            const std::int64_t others = open();
            // One client may have three quarters of it.
            const bool known = !config_.gateways;
            if (known && others < config_.max_waiting - config_.max_waiting / 4) {
                broken(what.id, fmt::format("P6: the queue was called full with {} requests in the "
                                            "system",
                                            others));
            }
            break;
        }
        case core::RejectReason::unavailable:
            if (waited <= config_.unserved_timeout_s) {
                broken(what.id, fmt::format("P6: called unavailable after {:.3f} s", waited));
            }
            if (view.in_calm) broken(what.id, "P6: unavailable though everything is well");
            break;
        case core::RejectReason::never_fits:
            break;  // depends on the placement, which clients do not see
    }
}

void Judge::scored(core::TimePoint, const core::ScoreTokens& scored) {
    View& view = views_.at(scored.id);
    if (view.state != State::accepted || !view.request.score_prompt)
        return broken(scored.id, "P2: log-probabilities of a prompt that asked for none");
    if (scored.tokens.empty()) return broken(scored.id, "P2: log-probabilities of nothing");
    if (view.rows.empty())
        view.rows = toy_rows(view.request.prompt, config_.n_layers, config_.window);
    for (const core::ProducedToken& token : scored.tokens) judge_score(view, token);
}

void Judge::judge_score(View& view, const core::ProducedToken& token) {
    const std::vector<core::Token>& prompt = view.request.prompt;
    const std::size_t next = view.scored + 1;
    if (next >= prompt.size() || token.position != static_cast<std::int32_t>(next)) {
        return broken(view.request.id,
                      fmt::format("P2: the log-probability of position {} came when {} was next",
                                  token.position, next));
    }
    const auto right =
        toy_top(view.rows[view.scored], view.request.sampling.n_logprobs, config_.vocab);
    if ((token.token != prompt[next] || token.top != right) && !view.misdrawn)
        broken(view.request.id, fmt::format("P3: wrong log-probability of position {}", next));
    view.scored = next;
}

void Judge::token(core::TimePoint now, const core::StreamToken& token) {
    View& view = views_.at(token.id);
    if (view.state != State::accepted) {
        return broken(token.id, view.state == State::ended ? "P2: a token after the end"
                                                           : "P6: a token before acceptance");
    }
    const auto number = static_cast<std::size_t>(token.choice);
    if (token.choice < 0 || number >= view.choices.size()) {
        return broken(token.id, "P2: a token of no choice");
    }
    Choice& choice = view.choices[number];
    if (token.index != choice.received) {
        return broken(token.id, fmt::format("P2: token {} came when {} was next", token.index,
                                            choice.received));
    }
    if (choice.over) return broken(token.id, "P2: a token after a stop token");
    if (view.request.score_prompt && view.scored + 1 != view.request.prompt.size())
        return broken(token.id, "P2: a token before the prompt's log-probabilities");
    if (choice.ended) return broken(token.id, "P2: a token after its choice's end");
    if (choice.expected.empty()) expect(view);
    const std::int32_t most =
        view.misdrawn ? longest(view) : static_cast<std::int32_t>(choice.expected.size());
    if (choice.received >= most) {
        return broken(token.id, "P2: more tokens than were asked for");
    }
    const auto at = static_cast<std::size_t>(choice.received);
    const core::Token right = at < choice.expected.size() ? choice.expected[at] : -1;
    if (token.token.token != right && !view.misdrawn) {
        return broken(token.id, fmt::format("P3: wrong token {}: {} instead of {}", token.index,
                                            token.token.token, right));
    }
    ++choice.received;
    view.losses = 0;
    ++tokens_;
    view.last_progress = now;
    const auto& stops = view.request.stop_tokens;
    choice.over = choice.received > view.request.min_tokens &&
                  std::find(stops.begin(), stops.end(), token.token.token) != stops.end();
}

void Judge::expect(View& view) const {
    if (view.request.beam) return expect_beams(view);
    for (std::size_t i = 0; i < view.choices.size(); ++i) {
        const std::uint64_t seed =
            spec::member_seed(view.request.sampling.seed, static_cast<std::uint32_t>(i));
        view.choices[i].expected =
            toy_generate(view.request.prompt, longest(view), config_.n_layers, seed, config_.vocab,
                         config_.window);
    }
}

// How long beams may become without max_tokens depends on memory: such requests are not made.
void Judge::expect_beams(View& view) const {
    const core::Request& request = view.request;
    core::BeamLimits limits;
    limits.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
    limits.max_output = longest(view);
    limits.min_output = request.min_tokens;
    limits.stop_tokens = request.stop_tokens;
    core::Beams beams(*request.beam, limits);
    while (!beams.over()) {
        std::vector<std::vector<spec::TokenLogprob>> likely;
        for (std::size_t i = 0; i < beams.running(); ++i) {
            std::vector<core::Token> tokens = request.prompt;
            const std::vector<core::Token> output = beams.tokens(i);
            tokens.insert(tokens.end(), output.begin(), output.end());
            likely.push_back(toy_top(toy_rows(tokens, config_.n_layers, config_.window).back(),
                                     2 * request.beam->width, config_.vocab));
        }
        beams.advance(likely);
    }
    const auto best = beams.best(view.choices.size());
    for (std::size_t i = 0; i < best.size(); ++i) {
        view.choices[i].expected.clear();
        for (const auto& step : best[i].steps) view.choices[i].expected.push_back(step.token);
    }
}

void Judge::judge_end(core::RequestId id, const View& view, const Choice& choice,
                      core::FinishReason reason) {
    if (reason == core::FinishReason::stop && !choice.over) {
        broken(id, "P2: ended by a stop token that did not come");
    }
    if (reason != core::FinishReason::length) return;
    if (choice.over) broken(id, "P2: ended by length after a stop token");
    if (view.request.max_tokens > 0 && choice.received != view.request.max_tokens) {
        broken(id, fmt::format("P1: ended by length after {} of {} tokens", choice.received,
                               view.request.max_tokens));
    }
}

void Judge::choice_finished(core::TimePoint, const core::FinishChoice& what) {
    View& view = views_.at(what.id);
    if (view.state != State::accepted) return broken(what.id, "P1: a choice of no open request");
    const auto number = static_cast<std::size_t>(what.choice);
    if (what.choice < 0 || number >= view.choices.size() || view.choices[number].ended) {
        return broken(what.id, "P1: a choice ended that was not open");
    }
    Choice& choice = view.choices[number];
    choice.ended = true;
    if (what.reason != core::FinishReason::stop && what.reason != core::FinishReason::length) {
        return broken(what.id, "P1: a choice ended by nobody");
    }
    judge_end(what.id, view, choice, what.reason);
}

void Judge::finished(core::TimePoint now, const core::FinishRequest& what) {
    View& view = views_.at(what.id);
    if (view.state == State::ended) return broken(what.id, "P1: ended twice");
    // A client may go away before it was accepted; it hears nothing more then.
    const bool left = what.reason == core::FinishReason::cancelled && view.cancelled;
    if (view.state == State::waiting && !left) broken(what.id, "P6: ended before acceptance");
    view.state = State::ended;
    switch (what.reason) {
        case core::FinishReason::stop:
        case core::FinishReason::length:
            ++completed_;
            if (!view.request.is_group()) {
                judge_end(what.id, view, view.choices.front(), what.reason);
            } else if (!std::all_of(view.choices.begin(), view.choices.end(),
                                    [](const Choice& c) { return c.ended; })) {
                broken(what.id, "P1: ended before its choices");
            }
            break;
        case core::FinishReason::cancelled:
            if (!view.cancelled) broken(what.id, "P1: cancelled by nobody");
            break;
        case core::FinishReason::error:
        case core::FinishReason::invalid_request:
        case core::FinishReason::kills_workers:
            ++errors_;
            judge_error(now, what, view);
            break;
    }
}

void Judge::cut_off(core::TimePoint, core::RequestId id) {
    View& view = views_.at(id);
    if (view.state == State::ended) return broken(id, "P7: cut off after its end");
    view.state = State::ended;
    if (!config_.deaths) broken(id, "P7: cut off though the coordinator lives");
    if (view.in_calm) broken(id, "P7: cut off though everything is well");
}

void Judge::touched(core::RequestId id, bool wrong_draws) {
    View& view = views_.at(id);
    view.touched = true;
    view.misdrawn = view.misdrawn || wrong_draws;
}

void Judge::judge_error(core::TimePoint now, const core::FinishRequest& what, const View& view) {
    const core::RequestId id = what.id;
    const std::string& error = what.error;
    if (error.empty()) return broken(id, "P6: an error without a reason");
    if (view.in_calm) return broken(id, "P6: an error though everything is well: " + error);
    if (view.touched) return;
    if (what.reason == core::FinishReason::invalid_request) {
        broken(id, "P6: called invalid, but it is not: " + error);
    } else {
        judge_cause(now, what, view);
    }
    if (!config_.faults) broken(id, "P6: an error though nothing went wrong: " + error);
}

void Judge::judge_cause(core::TimePoint now, const core::FinishRequest& what, const View& view) {
    const core::RequestId id = what.id;
    const double silent = (now - view.last_progress).seconds();
    switch (what.cause) {
        case core::FailureCause::kills_workers:
            if (view.losses < 3) broken(id, "P6: called poisonous, but fewer workers died with it");
            return;
        case core::FailureCause::stalled:
            if (silent <= config_.stall_timeout_s) broken(id, "P6: called stuck too early");
            if (!config_.silence) broken(id, "P6: it stalled though nothing fell silent");
            return;
        case core::FailureCause::unserved:
        case core::FailureCause::shrunk:
            if (silent <= config_.unserved_timeout_s) broken(id, "P6: given up too early");
            return;
        case core::FailureCause::unscored:
            if (config_.silence) return;
            return broken(id, "P6: log-probabilities got lost though nothing did");
        case core::FailureCause::worker_failed:
        case core::FailureCause::none:
            return broken(id, "P6: an error that explains nothing: " + what.error);
    }
}

void Judge::close() {
    for (const auto& [id, view] : views_) {
        if (view.state == State::ended) continue;
        broken(id, view.state == State::accepted ? "P1: accepted and never ended"
                                                 : "P1: neither accepted nor rejected");
    }
}

}  // namespace helix::sim
