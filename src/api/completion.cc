#include "api/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "net/sse.h"

namespace helix::api {
namespace {

using core::FinishReason;

// Carries what the service says over to the server's thread.
class PostingSink : public TokenSink {
  public:
    PostingSink(std::shared_ptr<Completion> completion, std::size_t prompt,
                std::function<void(net::HttpServer::Task)> post)
        : completion_(std::move(completion)), prompt_(prompt), post_(std::move(post)) {}

    void on_accepted() override {
        post_([c = completion_, p = prompt_] { c->accepted(p); });
    }
    void on_token(std::int32_t choice, const core::ProducedToken& token) override {
        post_([c = completion_, p = prompt_, choice, token] { c->token(p, choice, token); });
    }
    void on_scored(const std::vector<core::ProducedToken>& tokens) override {
        post_([c = completion_, p = prompt_, tokens] { c->scored(p, tokens); });
    }
    void on_choice_finish(std::int32_t choice, FinishReason reason) override {
        post_([c = completion_, p = prompt_, choice, reason] {
            c->choice_finished(p, choice, reason);
        });
    }
    void on_finish(FinishReason reason, const std::string& error) override {
        post_([c = completion_, p = prompt_, reason, error] { c->finished(p, reason, error); });
    }
    void on_reject(const core::RejectRequest& rejection) override {
        post_([c = completion_, p = prompt_, rejection] { c->rejected(p, rejection); });
    }
    void on_routed(const core::Pipeline& pipeline, std::int32_t cached_tokens) override {
        post_([c = completion_, p = prompt_, pipeline, cached_tokens] {
            c->routed(p, pipeline, cached_tokens);
        });
    }

  private:
    std::shared_ptr<Completion> completion_;
    std::size_t prompt_;
    std::function<void(net::HttpServer::Task)> post_;
};

std::string new_id(ApiContext& context, Endpoint endpoint) {
    return fmt::format("{}{:016x}", endpoint == Endpoint::chat ? "chatcmpl-" : "cmpl-",
                       context.random.next());
}

Outcome outcome_of(FinishReason reason) {
    switch (reason) {
        case FinishReason::stop:
            return Outcome::stop;
        case FinishReason::length:
            return Outcome::length;
        case FinishReason::cancelled:
            return Outcome::abort;
        case FinishReason::error:
            break;
    }
    return Outcome::error;
}

constexpr const char* kStateNames[] = {"stop", "length", "abort", "error"};

}  // namespace

struct Completion::Choice {
    Choice(Endpoint endpoint, const TextCodec& codec) : logprobs(endpoint, codec) {}

    std::unique_ptr<TextOutput> output;
    LogprobText logprobs;
    ChoiceText whole;    // only what is not streamed
    std::string prefix;  // echoed before the first text
    std::shared_ptr<RequestRecord> record;
    std::int64_t prompt_tokens = 0;
    std::int64_t tokens = 0;
    double logprob = 0;             // of all its tokens; only where best_of needs it
    std::int64_t shown_tokens = 0;  // when the last chunk was made
    base::TimePoint routed_at;
    base::TimePoint first_token_at;
    base::TimePoint last_token_at;
    bool of_first = false;  // counts the prompt, for all choices of it
    bool started = false;   // its first chunk is out
    bool done = false;
};

Completion::Completion(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
                       CompletionRequest request)
    : context_(context),
      exchange_(std::move(exchange)),
      request_(std::move(request)),
      answer_(request_, new_id(context, request_.endpoint), context.options.unix_time(),
              request_.model.empty() ? context.options.model.id : request_.model),
      arrived_(now()),
      last_write_(arrived_) {
    if (!request_.ignore_eos) stop_tokens_ = context.codec->end_tokens();
    stop_tokens_.insert(stop_tokens_.end(), request_.stop_token_ids.begin(),
                        request_.stop_token_ids.end());
}

Completion::~Completion() = default;

void Completion::start() {
    std::vector<std::vector<Token>> prompts;
    if (const auto error = encode_prompts(prompts)) {
        context_.respond(*exchange_, error_response(*error));
        return;
    }
    context_.active.insert(shared_from_this());
    exchange_->on_gone([self = weak_from_this()] {
        if (const auto completion = self.lock()) completion->gone();
    });
    if (!request_.seed) request_.seed = context_.random.next();
    request_.sampling.seed = *request_.seed;
    context_.metrics.params_n.observe(request_.n);
    if (request_.max_tokens > 0) context_.metrics.params_max_tokens.observe(request_.max_tokens);
    prompts_.resize(prompts.size());
    for (const std::vector<Token>& prompt : prompts) add_choices(prompt);
    for (std::size_t i = 0; i < prompts.size(); ++i) submit(std::move(prompts[i]), i);
}

std::optional<ApiError> Completion::encode_prompts(std::vector<std::vector<Token>>& prompts) const {
    if (request_.endpoint == Endpoint::chat) {
        ChatPrompt prompt;
        prompt.messages = &request_.messages;
        if (!request_.tools.is_null()) prompt.tools = &request_.tools;
        if (!request_.kwargs.is_null()) prompt.kwargs = &request_.kwargs;
        prompt.add_generation_prompt = request_.add_generation_prompt;
        auto tokens = context_.codec->encode_chat(prompt);
        if (!tokens.ok()) {
            ApiError error = from_error(tokens.error());
            error.param = "messages";
            return error;
        }
        prompts.push_back(std::move(tokens).value());
    }
    for (const PlainPrompt& prompt : request_.prompts) {
        const auto* text = std::get_if<std::string>(&prompt);
        prompts.push_back(text != nullptr ? context_.codec->encode(*text, true)
                                          : std::get<std::vector<Token>>(prompt));
    }
    for (const std::vector<Token>& prompt : prompts) {
        if (auto error = check_length(prompt.size())) return error;
    }
    return {};
}

std::optional<ApiError> Completion::check_length(std::size_t prompt_tokens) const {
    const char* field = request_.endpoint == Endpoint::chat ? "messages" : "prompt";
    if (prompt_tokens == 0) return bad_field(field, "The prompt is empty.");
    const auto context = static_cast<std::int64_t>(context_.options.model.context_length);
    const auto prompt = static_cast<std::int64_t>(prompt_tokens);
    const std::int64_t wanted = std::max<std::int64_t>(request_.max_tokens, 1);
    if (prompt + wanted <= context) return {};
    ApiError error = bad_field(
        field,
        fmt::format("This model's maximum context length is {} tokens, but {} were asked for ({} "
                    "in the {}, {} in the completion). Please shorten one of them.",
                    context, prompt + wanted, prompt, field, wanted));
    error.code = "context_length_exceeded";
    return error;
}

void Completion::add_choices(const std::vector<Token>& prompt) {
    prompt_tokens_ += static_cast<std::int64_t>(prompt.size());
    exchange_->count("prompt_tokens", static_cast<std::int64_t>(prompt.size()));
    std::string echoed;
    if (request_.echo) echoed = context_.codec->decode(prompt, request_.skip_special_tokens);
    for (std::size_t i = 0; i < made(); ++i) {
        auto& choice =
            *choices_.emplace_back(std::make_unique<Choice>(request_.endpoint, *context_.codec));
        choice.output = context_.codec->output(request_.stop, request_.skip_special_tokens);
        choice.prompt_tokens = static_cast<std::int64_t>(prompt.size());
        choice.of_first = i == 0;
        choice.prefix = echoed;
        if (request_.wants_prompt_logprobs()) choice.logprobs.add_first(prompt.front());
        choice.record = context_.log.add();
        choice.record->id = answer_.id();
        choice.record->choice = choices_.size() - 1;
        choice.record->chat = request_.endpoint == Endpoint::chat;
        choice.record->stream = request_.stream;
        choice.record->created = context_.options.unix_time();
        choice.record->prompt_tokens = choice.prompt_tokens;
    }
}

void Completion::submit(std::vector<Token> tokens, std::size_t index) {
    Prompt& prompt = prompts_[index];
    prompt.first = index * made();
    core::Request request;
    request.prompt = std::move(tokens);
    request.sampling = request_.sampling;
    request.max_tokens = request_.max_tokens;
    request.min_tokens = request_.min_tokens;
    request.stop_tokens = stop_tokens_;
    request.priority = request_.priority;
    request.guesses = request_.guesses;
    if (!request_.prediction.empty()) {
        request.prediction = context_.codec->encode(request_.prediction, false);
    }
    request.n = request_.made();
    request.score_prompt = request_.wants_prompt_logprobs();
    request.beam = request_.beam;
    if (request_.made() > request_.n) {
        request.sampling.n_logprobs = std::max(request.sampling.n_logprobs, 0);
    }
    prompt.id = context_.service.submit(
        std::move(request),
        std::make_shared<PostingSink>(shared_from_this(), index, context_.post));
    for (std::size_t i = 0; i < made(); ++i) {
        choices_[prompt.first + i]->record->request = prompt.id;
    }
}

bool Completion::runs(const Prompt& prompt) const {
    const auto first = choices_.begin() + static_cast<std::ptrdiff_t>(prompt.first);
    return std::any_of(first, first + static_cast<std::ptrdiff_t>(made()),
                       [](const auto& choice) { return !choice->done; });
}

bool Completion::is_stop_token(Token token) const {
    return std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end();
}

Usage Completion::usage() const {
    Usage usage;
    usage.prompt_tokens = prompt_tokens_;
    for (const auto& choice : choices_) {
        usage.completion_tokens += choice->tokens;
        if (choice->of_first) usage.cached_tokens += choice->record->cached_tokens;
    }
    return usage;
}

void Completion::accepted(std::size_t prompt) {
    if (over_ || prompts_[prompt].accepted) return;
    prompts_[prompt].accepted = true;
    const bool all =
        std::all_of(prompts_.begin(), prompts_.end(), [](const Prompt& p) { return p.accepted; });
    if (all && request_.stream) open_stream();
}

void Completion::open_stream() {
    opened_ = true;
    exchange_->begin_stream(200, net::kSseContentType,
                            {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}});
    emit(std::exchange(pending_, {}));
}

void Completion::emit(std::string_view events) {
    if (!opened_) {
        pending_ += events;
        return;
    }
    if (events.empty()) return;
    last_write_ = now();
    exchange_->write(events);
}

void Completion::on_tick(base::TimePoint now) {
    if (!opened_ || now - last_write_ < context_.options.ping_interval) return;
    emit(net::kSsePing);
}

void Completion::routed(std::size_t prompt, const core::Pipeline& pipeline,
                        std::int32_t cached_tokens) {
    accepted(prompt);
    if (over_) return;
    for (std::size_t i = 0; i < made(); ++i) {
        Choice& c = *choices_[prompts_[prompt].first + i];
        if (c.done) continue;
        if (c.record->queue_s < 0) {
            c.routed_at = now();
            c.record->queue_s = (c.routed_at - arrived_).seconds();
        }
        c.record->state = "running";
        c.record->pipeline = pipeline;
        // Of the first try that got as far as a token.
        if (c.tokens == 0) c.record->cached_tokens = cached_tokens;
    }
}

void Completion::note_token(Choice& choice) {
    const base::TimePoint at = now();
    ++choice.tokens;
    if (choice.tokens == 1) {
        choice.first_token_at = at;
        choice.record->ttft_s = (at - arrived_).seconds();
        context_.metrics.ttft.observe(choice.record->ttft_s);
    } else {
        context_.metrics.time_per_output_token.observe((at - choice.last_token_at).seconds());
        const double decoding = (at - choice.first_token_at).seconds();
        if (decoding > 0) {
            choice.record->tokens_per_s = static_cast<double>(choice.tokens - 1) / decoding;
        }
    }
    choice.last_token_at = at;
    choice.record->completion_tokens = choice.tokens;
    ++context_.metrics.generation_tokens_total;
    exchange_->count("completion_tokens", 1);
}

void Completion::token(std::size_t prompt, std::int32_t choice, const core::ProducedToken& token) {
    accepted(prompt);
    const std::size_t index = prompts_[prompt].first + static_cast<std::size_t>(choice);
    Choice& c = *choices_[index];
    if (over_ || c.done || request_.prompt_only) return;
    note_token(c);
    c.logprob += static_cast<double>(token.logprob);
    const bool may_stop = c.tokens >= request_.min_tokens;
    // The token that ends the answer is counted, but is no part of its text.
    if (may_stop && is_stop_token(token.token)) return;
    if (request_.wants_logprobs()) c.logprobs.add(token);
    show(index, c.output->push(token.token, may_stop));
    if (!c.output->stopped()) return;
    c.done = true;
    if (runs(prompts_[prompt])) {
        context_.service.end_choice(prompts_[prompt].id, choice, FinishReason::stop);
    } else {
        context_.service.end(prompts_[prompt].id, FinishReason::stop);
    }
    complete_choice(index, FinishReason::stop);
}

void Completion::scored(std::size_t prompt, const std::vector<core::ProducedToken>& tokens) {
    accepted(prompt);
    if (over_) return;
    for (std::size_t i = 0; i < made(); ++i) {
        Choice& c = *choices_[prompts_[prompt].first + i];
        for (const core::ProducedToken& token : tokens) c.logprobs.add(token);
    }
}

// text "" still carries log-probabilities, once there is text to go with them; who counts tokens
// while they come is told of each when it comes.
void Completion::show(std::size_t index, std::string text) {
    Choice& c = *choices_[index];
    const bool counted = request_.stream && request_.continuous_usage && c.tokens > c.shown_tokens;
    if (text.empty() && c.prefix.empty() && !counted) return;
    c.shown_tokens = c.tokens;
    if (!c.prefix.empty()) text.insert(0, std::exchange(c.prefix, {}));
    if (!request_.stream) {
        c.whole.text += text;
        return;
    }
    std::string events;
    const Usage so_far = usage();
    if (!c.started) answer_.first_chunk(events, index, so_far);
    c.started = true;
    answer_.text_chunk(events, index, text, c.logprobs.take(), so_far);
    emit(events);
}

void Completion::choice_finished(std::size_t prompt, std::int32_t choice, FinishReason reason) {
    const std::size_t index = prompts_[prompt].first + static_cast<std::size_t>(choice);
    if (over_ || choices_[index]->done) return;
    complete_choice(index, reason);
}

void Completion::finished(std::size_t prompt, FinishReason reason, const std::string& error) {
    accepted(prompt);
    if (over_ || !runs(prompts_[prompt])) return;
    const std::size_t first = prompts_[prompt].first;
    const bool whole = reason == FinishReason::stop || reason == FinishReason::length;
    for (std::size_t i = first; i < first + made(); ++i) {
        if (choices_[i]->done) continue;
        if (whole) {
            complete_choice(i, reason);
        } else {
            choices_[i]->done = true;
            record_end(*choices_[i], outcome_of(reason));
        }
    }
    if (whole) return;
    fail(unavailable(error.empty() ? "The server ended this request." : error, 1));
}

void Completion::complete_choice(std::size_t index, FinishReason reason) {
    Choice& c = *choices_[index];
    if (request_.prompt_only) reason = FinishReason::length;
    if (!c.output->stopped()) show(index, c.output->finish());
    c.done = true;
    record_end(c, outcome_of(reason));
    const char* name = reason == FinishReason::stop ? "stop" : "length";
    if (request_.stream) {
        std::string events;
        const Usage so_far = usage();
        if (!c.started) answer_.first_chunk(events, index, so_far);
        c.started = true;
        if (!c.logprobs.empty()) answer_.text_chunk(events, index, "", c.logprobs.take(), so_far);
        answer_.last_chunk(events, index, name, so_far);
        emit(events);
    } else {
        c.whole.logprobs = c.logprobs.take();
        c.whole.finish_reason = name;
    }
    if (std::all_of(choices_.begin(), choices_.end(), [](const auto& ch) { return ch->done; })) {
        complete_answer();
    }
}

void Completion::record_end(Choice& choice, Outcome outcome) {
    choice.record->state = kStateNames[static_cast<std::size_t>(outcome)];
    Metrics& m = context_.metrics;
    ++m.outcomes[static_cast<std::size_t>(outcome)];
    if (choice.of_first) {
        m.prompt_tokens_total += static_cast<std::uint64_t>(choice.prompt_tokens);
        m.prompt_tokens.observe(static_cast<double>(choice.prompt_tokens));
    }
    m.generation_tokens.observe(static_cast<double>(choice.tokens));
    const base::TimePoint at = now();
    m.e2e.observe((at - arrived_).seconds());
    if (choice.record->queue_s < 0) return;
    m.queue.observe(choice.record->queue_s);
    m.inference.observe((at - choice.routed_at).seconds());
    if (choice.tokens == 0) return;
    m.prefill.observe((choice.first_token_at - choice.routed_at).seconds());
    m.decode.observe((choice.last_token_at - choice.first_token_at).seconds());
}

void Completion::complete_answer() {
    if (request_.stream) {
        std::string events;
        answer_.usage_chunk(events, usage());
        events += net::kSseDone;
        emit(events);
        exchange_->end_stream();
    } else {
        net::HttpResponse response;
        response.body = whole_answer();
        context_.respond(*exchange_, response);
    }
    leave();
}

// Of the choices made for each prompt the n likeliest, by the sum of their log-probabilities; all,
// in their order, where none is left out.
std::string Completion::whole_answer() {
    std::vector<ChoiceText> texts;
    const auto shown = static_cast<std::size_t>(request_.n);
    for (const Prompt& prompt : prompts_) {
        std::vector<Choice*> made_here;
        for (std::size_t i = 0; i < made(); ++i) {
            made_here.push_back(choices_[prompt.first + i].get());
        }
        if (made() > shown) {
            std::stable_sort(
                made_here.begin(), made_here.end(),
                [](const Choice* a, const Choice* b) { return a->logprob > b->logprob; });
        }
        for (std::size_t i = 0; i < shown; ++i) texts.push_back(std::move(made_here[i]->whole));
    }
    return answer_.whole(texts, usage());
}

void Completion::rejected(std::size_t prompt, const core::RejectRequest& rejection) {
    if (over_) return;
    for (std::size_t i = 0; i < made(); ++i) {
        Choice& choice = *choices_[prompts_[prompt].first + i];
        choice.done = true;
        choice.record->state = "rejected";
    }
    fail(from_rejection(rejection));
}

// Before the status line: an error answer. After it: an error event, and the stream ends without
// [DONE].
void Completion::fail(const ApiError& error) {
    if (opened_) {
        std::string event;
        net::append_sse_event(event, error_json(error));
        emit(event);
        exchange_->end_stream();
        ++context_.metrics.http_errors;
    } else {
        context_.respond(*exchange_, error_response(error));
    }
    end_choices(FinishReason::cancelled, Outcome::abort);
    leave();
}

void Completion::gone() {
    if (over_) return;
    LOG_DEBUG("{}: the client is gone", answer_.id());
    end_choices(FinishReason::cancelled, Outcome::abort);
    leave();
}

void Completion::shut_down() {
    if (!over_) fail(unavailable("The server is shutting down.", 5));
}

void Completion::end_choices(FinishReason reason, Outcome outcome) {
    for (const Prompt& prompt : prompts_) {
        if (runs(prompt)) context_.service.end(prompt.id, reason);
    }
    for (const auto& choice : choices_) {
        if (choice->done) continue;
        choice->done = true;
        record_end(*choice, outcome);
    }
}

void Completion::leave() {
    over_ = true;
    context_.active.erase(shared_from_this());
}

}  // namespace helix::api
