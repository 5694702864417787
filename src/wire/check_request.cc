// What a request must hold. Whoever sends one may ask, and decode asks of each.

#include <cmath>
#include <limits>

#include "wire/decode_fields.h"

namespace helix::wire {
namespace {

constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();

Status at_most_bytes(const char* field, const std::string& value, std::size_t limit) {
    return in_range(field, static_cast<std::int64_t>(value.size()), 0,
                    static_cast<std::int64_t>(limit));
}

Status count_in_range(const char* field, std::size_t count, std::int64_t low, std::int64_t high) {
    return in_range(field, static_cast<std::int64_t>(count), low, high);
}

Status check_thought(const spec::Thought& thought) {
    using spec::Thought;
    TRY_VOID(at_most_bytes("bytes of a mark", thought.open, Thought::kMaxMarkBytes));
    TRY_VOID(at_most_bytes("bytes of a mark", thought.close, Thought::kMaxMarkBytes));
    TRY_VOID(
        count_in_range("marks never in a thought", thought.never.size(), 0, Thought::kMaxNever));
    for (const std::string& never : thought.never) {
        TRY_VOID(at_most_bytes("bytes of a mark", never, Thought::kMaxMarkBytes));
        if (never.empty()) return base::invalid("a mark that is never in a thought is empty");
    }
    TRY_VOID(in_range("max_tokens of a thought", thought.max_tokens, -1, kMost32));
    const bool closed = !thought.close.empty();
    if (!closed && thought != Thought{}) return base::invalid("a thought has no end");
    return Ok{};
}

Status check_embedding(const core::Request& request) {
    TRY_VOID(in_range("n of an embedding", request.n, 1, 1));
    TRY_VOID(in_range("max_tokens of an embedding", request.max_tokens, 1, 1));
    if (request.beam.has_value()) return base::invalid("an embedding with a beam search");
    if (request.score_prompt) return base::invalid("an embedding of a scored prompt");
    return Ok{};
}

Status check(const core::Request& request) {
    // A prompt goes to its first stage in one piece.
    TRY_VOID(count_in_range("tokens of a prompt", request.prompt.size(), 0, kMaxItems));
    TRY_VOID(tokens_in_range("token of a prompt", request.prompt));
    TRY_VOID(check_sampling(request.sampling));
    TRY_VOID(in_range("max_tokens", request.max_tokens, 0, kMaxPosition));
    TRY_VOID(in_range("min_tokens", request.min_tokens, 0, kMost32));
    TRY_VOID(tokens_in_range("stop token", request.stop_tokens));
    TRY_VOID(in_range("max_draft_tokens", request.max_draft_tokens, -1, kMost32));
    TRY_VOID(tokens_in_range("token of a prediction", request.prediction));
    TRY_VOID(in_range("n", request.n, 1, kMaxMembers));
    if (request.beam.has_value()) {
        TRY_VOID(in_range("width of a beam search", request.beam->width, request.n, kMaxMembers));
        const double penalty = request.beam->length_penalty;
        if (!(std::abs(penalty) <= kMaxLengthPenalty)) {
            return base::invalid(fmt::format("length_penalty is {}, expected {} to {}", penalty,
                                             -kMaxLengthPenalty, kMaxLengthPenalty));
        }
    }
    if (request.score_prompt) {
        TRY_VOID(in_range("n_logprobs of a scored prompt", request.sampling.n_logprobs, 0,
                          kMaxLogprobs));
    }
    return request.wants_embedding() ? check_embedding(request) : Ok{};
}

Status check(const core::Begun& begun, const core::Request& request) {
    const auto prompt = static_cast<std::int64_t>(request.prompt.size());
    if (prompt == 0) return base::invalid("a request without a prompt cannot have begun");
    TRY_VOID(count_in_range("choices", begun.choices.size(), request.n, request.n));
    TRY_VOID(in_range("scored tokens", begun.scored, 0, request.score_prompt ? prompt - 1 : 0));
    TRY_VOID(at_most("attempts_before", begun.attempts_before, kMaxAttemptsBefore));
    const std::int64_t most = request.wants_embedding() ? 0 : kMaxItems - prompt;
    for (const core::Begun::Choice& choice : begun.choices) {
        TRY_VOID(count_in_range("tokens of an output", choice.output.size(), 0, most));
        TRY_VOID(tokens_in_range("token of an output", choice.output));
    }
    return Ok{};
}

}  // namespace

Status check_sampling(const spec::SamplingParams& params) {
    const auto number = [](const char* field, float value, double least) {
        return finite(field, static_cast<double>(value), least);
    };
    constexpr double kAny = -1e30;
    TRY_VOID(number("temperature", params.temperature, 0));
    TRY_VOID(number("top_p", params.top_p, 0));
    TRY_VOID(in_range("top_k", params.top_k, 0, kMost32));
    TRY_VOID(number("min_p", params.min_p, 0));
    TRY_VOID(number("repetition_penalty", params.repetition_penalty, 0));
    TRY_VOID(number("frequency_penalty", params.frequency_penalty, kAny));
    TRY_VOID(number("presence_penalty", params.presence_penalty, kAny));
    TRY_VOID(in_range("n_logprobs", params.n_logprobs, -1, kMaxLogprobs));
    TRY_VOID(count_in_range("logit biases", params.logit_bias.size(), 0, kMaxItems));
    for (const auto& [token, bias] : params.logit_bias) {
        TRY_VOID(in_range("biased token", token, 0, kMaxVocabSize));
        if (std::isnan(bias)) return base::invalid("logit bias is not a number");
    }
    const spec::OutputGrammar& grammar = params.grammar;
    TRY_VOID(at_most_bytes("bytes of a grammar", grammar.text, spec::OutputGrammar::kMaxTextBytes));
    TRY_VOID(in_range("grammar_within_tokens", grammar.within_tokens, 0, kMost32));
    return check_thought(grammar.thought);
}

Status check_request(const core::Submitted& message) {
    const core::Request& request = message.request;
    std::size_t tokens =
        request.prompt.size() + request.prediction.size() + request.stop_tokens.size();
    if (message.begun.has_value()) {
        for (const core::Begun::Choice& choice : message.begun->choices) {
            tokens += choice.output.size();
        }
    }
    TRY_VOID(at_most("tokens of a request", tokens, kMaxRequestTokens));
    TRY_VOID(check(request));
    return message.begun.has_value() ? check(*message.begun, request) : Ok{};
}

}  // namespace helix::wire
