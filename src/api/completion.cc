#include "api/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "api/heavy_work.h"
#include "api/limits.h"
#include "api/long_answer.h"
#include "base/check.h"
#include "base/log.h"
#include "net/sse.h"
#include "text/output/text_output.h"

namespace helix::api {
namespace {

using core::FinishReason;

// Hands what the service says over to the server's thread.
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
        case FinishReason::invalid_request:
        case FinishReason::kills_workers:
            break;
    }
    return Outcome::error;
}

// What a log-probability takes in memory, and as JSON.
constexpr std::int64_t kLogprobBytes = 96;
// An answer of at most this many bytes is written at once; a longer one on another thread.
constexpr std::int64_t kShortAnswerBytes = std::int64_t{64} << 10U;
// The most bytes of log-probabilities that wait for text to go with.
constexpr std::size_t kWaitingLogprobBytes = std::size_t{16} << 10U;
// The share of the process's memory grows by at least this much.
constexpr std::int64_t kShareStep = std::int64_t{16} << 10U;

std::int64_t logprob_bytes(const core::ProducedToken& token) {
    return static_cast<std::int64_t>(1 + token.top.size()) * kLogprobBytes;
}

constexpr const char* kStateNames[] = {"stop", "length", "abort", "error"};

}  // namespace

struct Completion::Choice {
    Choice(Endpoint endpoint, const TextCodec& codec) : logprobs(endpoint, codec) {}

    std::optional<text::TextOutput> output;
    LogprobText logprobs;                       // only what is streamed
    WholeChoice whole;                          // only what is not
    std::shared_ptr<const std::string> prefix;  // streamed before the first text; null = nothing
    std::shared_ptr<RequestRecord> record;
    std::int64_t prompt_tokens = 0;
    std::int64_t tokens = 0;
    double logprob = 0;             // sum over all its tokens; only where best_of needs it
    std::int64_t shown_tokens = 0;  // when the last chunk was made
    base::TimePoint routed_at;
    base::TimePoint first_token_at;
    base::TimePoint last_token_at;
    bool of_first = false;  // whether it counts the prompt, for all choices of it
    bool started = false;   // its first chunk is out
    bool done = false;
};

Completion::Completion(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
                       PreparedCompletion prepared)
    : context_(context),
      exchange_(std::move(exchange)),
      prepared_(std::move(prepared)),
      request_(prepared_.request),
      model_(*prepared_.model),
      metrics_(context.metrics_of(model_)),
      sampling_(request_.sampling),
      answer_(std::make_shared<const AnswerText>(
          request_, new_id(context, request_.endpoint), context.options.unix_time(),
          request_.model.empty() ? model_.info.name : request_.model)),
      arrived_(now()),
      last_write_(arrived_),
      prepared_bytes_(prepared_.share->bytes()) {
    if (!request_.ignore_eos) stop_tokens_ = model_.codec->end_tokens();
    stop_tokens_.insert(stop_tokens_.end(), request_.stop_token_ids.begin(),
                        request_.stop_token_ids.end());
}

Completion::~Completion() = default;

void Completion::start() {
    context_.active.insert(shared_from_this());
    exchange_->on_gone([self = weak_from_this()] {
        if (const auto completion = self.lock()) completion->gone();
    });
    sampling_.seed = request_.seed ? *request_.seed : context_.random.next();
    metrics_.params_n.observe(request_.n);
    if (request_.max_tokens > 0) metrics_.params_max_tokens.observe(request_.max_tokens);
    std::vector<std::vector<Token>>& prompts = prepared_.prompts;
    prompts_.resize(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) add_choices(i);
    for (std::size_t i = 0; i < prompts.size(); ++i) submit(std::move(prompts[i]), i);
}

void Completion::add_choices(std::size_t index) {
    const std::vector<Token>& tokens = prepared_.prompts[index];
    Prompt& prompt = prompts_[index];
    prompt.first = index * made();
    prompt_tokens_ += static_cast<std::int64_t>(tokens.size());
    exchange_->count("prompt_tokens", static_cast<std::int64_t>(tokens.size()));
    for (std::size_t i = 0; i < made(); ++i) {
        auto& choice =
            *choices_.emplace_back(std::make_unique<Choice>(request_.endpoint, *model_.codec));
        choice.output.emplace(model_.codec->detokenizer(request_.skip_special_tokens),
                              prepared_.stops);
        choice.prompt_tokens = static_cast<std::int64_t>(tokens.size());
        choice.of_first = i == 0;
        if (request_.echo) {
            (request_.stream ? choice.prefix : choice.whole.echo) = prepared_.echoes[index];
        }
        if (request_.wants_prompt_logprobs()) {
            if (request_.stream) {
                choice.logprobs.add_first(tokens.front());
            } else {
                choice.whole.first = tokens.front();
            }
        }
        choice.record = context_.log.add();
        choice.record->id = answer_->id();
        choice.record->choice = choices_.size() - 1;
        choice.record->chat = request_.endpoint == Endpoint::chat;
        choice.record->stream = request_.stream;
        choice.record->created = context_.options.unix_time();
        choice.record->prompt_tokens = choice.prompt_tokens;
    }
}

void Completion::submit(std::vector<Token> tokens, std::size_t index) {
    Prompt& prompt = prompts_[index];
    core::Request request;
    request.prompt = std::move(tokens);
    request.sampling = sampling_;
    request.max_tokens = request_.max_tokens;
    request.min_tokens = request_.min_tokens;
    request.stop_tokens = stop_tokens_;
    request.priority = request_.priority;
    request.client = client_number(context_, exchange_->request());
    request.guesses = request_.guesses;
    request.prediction = prepared_.prediction;
    request.n = request_.made();
    request.score_prompt = request_.wants_prompt_logprobs();
    request.beam = request_.beam;
    if (request_.made() > request_.n) {
        request.sampling.n_logprobs = std::max(request.sampling.n_logprobs, 0);
    }
    prompt.id = model_.service->submit(
        std::move(request),
        std::make_shared<PostingSink>(shared_from_this(), index, context_.post));
    for (std::size_t i = 0; i < made(); ++i) {
        choices_[prompt.first + i]->record->request = {model_.service, prompt.id};
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
    kept_bytes_ = 0;
    emit(std::exchange(pending_, {}));
}

bool Completion::keep(std::int64_t bytes) {
    const RequestLimits& limits = context_.options.request_limits;
    kept_bytes_ += bytes;
    if (kept_bytes_ > limits.max_answer_bytes) {
        fail(from_error({base::Errc::too_large,
                         fmt::format("The answer is longer than the {} bytes (max_answer_bytes) "
                                     "that are kept of one until it can be sent; ask for less of "
                                     "it, or stream it.",
                                     limits.max_answer_bytes)}));
        return false;
    }
    const std::int64_t all = prepared_bytes_ + kept_bytes_;
    if (all <= prepared_.share->bytes()) return true;
    const base::Status held = prepared_.share->resize(all + kShareStep);
    if (held.ok()) return true;
    fail(from_error(held.error()));
    return false;
}

void Completion::emit(std::string_view events) {
    if (!opened_) {
        // Other prompts of the request are not accepted yet.
        if (keep(static_cast<std::int64_t>(events.size()))) pending_ += events;
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
        // It counts for the first attempt that got as far as a token.
        if (c.tokens == 0) c.record->cached_tokens = cached_tokens;
    }
}

void Completion::note_token(Choice& choice) {
    const base::TimePoint at = now();
    ++choice.tokens;
    if (choice.tokens == 1) {
        choice.first_token_at = at;
        choice.record->ttft_s = (at - arrived_).seconds();
        metrics_.ttft.observe(choice.record->ttft_s);
    } else {
        metrics_.time_per_output_token.observe((at - choice.last_token_at).seconds());
        const double decoding = (at - choice.first_token_at).seconds();
        if (decoding > 0) {
            choice.record->tokens_per_s = static_cast<double>(choice.tokens - 1) / decoding;
        }
    }
    choice.last_token_at = at;
    choice.record->completion_tokens = choice.tokens;
    ++metrics_.generation_tokens_total;
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
    // The token that ends the answer is counted but is no part of its text.
    if (may_stop && is_stop_token(token.token)) return;
    if (request_.wants_logprobs()) {
        if (request_.stream) {
            c.logprobs.add(token);
        } else {
            if (!keep(logprob_bytes(token))) return;
            c.whole.tokens.push_back(token);
        }
    }
    show(index, c.output->push(token.token, may_stop));
    if (over_ || !c.output->stopped()) return;
    c.done = true;
    if (runs(prompts_[prompt])) {
        model_.service->end_choice(prompts_[prompt].id, choice, FinishReason::stop);
    } else {
        model_.service->end(prompts_[prompt].id, FinishReason::stop);
    }
    complete_choice(index, FinishReason::stop);
}

void Completion::scored(std::size_t prompt, const std::vector<core::ProducedToken>& tokens) {
    accepted(prompt);
    if (over_) return;
    if (!request_.stream) {
        std::int64_t bytes = 0;
        for (const core::ProducedToken& token : tokens) bytes += logprob_bytes(token);
        // Each choice shows the prompt's log-probabilities.
        if (!keep(bytes * request_.n)) return;
        auto& scored = prompts_[prompt].scored;
        if (scored == nullptr) scored = std::make_shared<std::vector<core::ProducedToken>>();
        scored->insert(scored->end(), tokens.begin(), tokens.end());
        return;
    }
    for (std::size_t i = 0; i < made(); ++i) {
        Choice& c = *choices_[prompts_[prompt].first + i];
        for (const core::ProducedToken& token : tokens) c.logprobs.add(token);
    }
}

// With text "" log-probabilities wait until there is text to go with them. Clients that ask for
// usage in every chunk are told of each token when it comes.
void Completion::show(std::size_t index, const std::vector<text::OutputPart>& parts) {
    std::string text;
    for (const text::OutputPart& part : parts) text += std::get<text::ContentText>(part).text;
    Choice& c = *choices_[index];
    if (!request_.stream) {
        if (keep(static_cast<std::int64_t>(text.size()))) c.whole.text += text;
        return;
    }
    const bool counted = request_.continuous_usage && c.tokens > c.shown_tokens;
    const bool has_prefix = c.prefix != nullptr && !c.prefix->empty();
    const bool many = c.logprobs.bytes() > kWaitingLogprobBytes;
    if (text.empty() && !has_prefix && !counted && !many) return;
    c.shown_tokens = c.tokens;
    if (has_prefix) text.insert(0, *c.prefix);
    c.prefix = nullptr;
    std::string events;
    const Usage so_far = usage();
    if (!c.started) answer_->first_chunk(events, index, so_far);
    c.started = true;
    answer_->text_chunk(events, index, text, c.logprobs.take(), so_far);
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
    const bool whole = core::is_whole(reason);
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
    if (reason == FinishReason::kills_workers) return fail(kills_workers_error(error));
    if (reason == FinishReason::invalid_request) return fail(bad_field("", error));
    fail(unavailable(error.empty() ? "The server ended this request." : error, 1));
}

void Completion::complete_choice(std::size_t index, FinishReason reason) {
    Choice& c = *choices_[index];
    if (request_.prompt_only) reason = FinishReason::length;
    if (!c.output->stopped()) show(index, c.output->finish());
    if (over_) return;
    c.done = true;
    record_end(c, outcome_of(reason));
    const char* name = reason == FinishReason::stop ? "stop" : "length";
    if (request_.stream) {
        std::string events;
        const Usage so_far = usage();
        if (!c.started) answer_->first_chunk(events, index, so_far);
        c.started = true;
        if (!c.logprobs.empty()) answer_->text_chunk(events, index, "", c.logprobs.take(), so_far);
        answer_->last_chunk(events, index, name, so_far);
        emit(events);
    } else {
        c.whole.finish_reason = name;
    }
    if (over_) return;
    if (std::all_of(choices_.begin(), choices_.end(), [](const auto& ch) { return ch->done; })) {
        complete_answer();
    }
}

void Completion::record_end(Choice& choice, Outcome outcome) {
    choice.record->state = kStateNames[static_cast<std::size_t>(outcome)];
    RequestMetrics& m = metrics_;
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
    if (!request_.stream) return write_whole_answer();
    std::string events;
    answer_->usage_chunk(events, usage());
    events += net::kSseDone;
    emit(events);
    exchange_->end_stream();
    leave();
}

// For each prompt the n most likely choices, by the sum of their log-probabilities; if none is left
// out, all in their order.
std::vector<WholeChoice> Completion::take_choices() {
    std::vector<WholeChoice> texts;
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
        for (std::size_t i = 0; i < shown; ++i) {
            texts.push_back(std::move(made_here[i]->whole));
            texts.back().scored = prompt.scored;
        }
    }
    return texts;
}

void Completion::write_whole_answer() {
    std::vector<WholeChoice> choices = take_choices();
    std::int64_t bytes = kept_bytes_;
    for (const WholeChoice& choice : choices) {
        if (choice.echo != nullptr) bytes += static_cast<std::int64_t>(choice.echo->size());
    }
    if (bytes <= kShortAnswerBytes) {
        return send_whole_answer(
            std::make_shared<const std::string>(answer_->whole(choices, *model_.codec, usage())));
    }
    // The client may go away meanwhile.
    PreparePool::Job job;
    job.client = client_of(context_, exchange_->request());
    job.bytes = static_cast<std::size_t>(bytes);
    job.run = [self = shared_from_this(), post = context_.post, answer = answer_,
               codec = model_.codec.get(), choices = std::move(choices), usage = usage()] {
        std::shared_ptr<const std::string> body;
        try {
            body = std::make_shared<const std::string>(answer->whole(choices, *codec, usage));
        } catch (const std::exception& e) {
            LOG_ERROR("{}: {}", answer->id(), e.what());
        }
        post([self, body] { self->send_whole_answer(body); });
    };
    context_.pool.add_owed(std::move(job));
}

// body is null if there was no memory to write it.
void Completion::send_whole_answer(std::shared_ptr<const std::string> body) {
    if (over_) return;
    auto share = prepared_.share;
    leave();
    if (body == nullptr) {
        context_.respond(*exchange_,
                         error_response(unavailable("The server had not enough memory to write "
                                                    "this answer.",
                                                    1)));
        return;
    }
    send_long(context_, exchange_, std::move(body), std::move(share));
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
    const char* reason =
        exchange_->too_slow() ? "the client reads too slowly" : "the client is gone";
    LOG_DEBUG("{}: {}", answer_->id(), reason);
    for (const auto& choice : choices_) {
        if (!choice->done) choice->record->reason = reason;
    }
    end_choices(FinishReason::cancelled, Outcome::abort);
    leave();
}

void Completion::shut_down() {
    if (!over_) fail(unavailable("The server is shutting down.", 5));
}

void Completion::end_choices(FinishReason reason, Outcome outcome) {
    for (const Prompt& prompt : prompts_) {
        if (runs(prompt)) model_.service->end(prompt.id, reason);
    }
    for (const auto& choice : choices_) {
        if (choice->done) continue;
        choice->done = true;
        record_end(*choice, outcome);
    }
}

void Completion::leave() {
    over_ = true;
    prepared_.share = nullptr;
    context_.active.erase(shared_from_this());
}

}  // namespace helix::api
