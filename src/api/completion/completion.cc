#include "api/completion/completion.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "api/completion/completion_sink.h"
#include "api/completion/streamed_delivery.h"
#include "api/completion/whole_delivery.h"
#include "api/heavy_work.h"
#include "api/writers/make_writers.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"

namespace helix::api {

using core::FinishReason;

namespace {

bool holds_reasoning(const std::vector<text::OutputPart>& parts) {
    return std::any_of(parts.begin(), parts.end(), [](const text::OutputPart& part) {
        return std::holds_alternative<text::ReasoningText>(part);
    });
}

}  // namespace

struct Completion::Choice {
    text::TextOutput output;
    ChoiceRecord record;
    double logprob = 0;  // sum over all its tokens; only where best_of needs it
    std::int64_t reasoning_tokens = 0;
    bool done = false;
};

Completion::Completion(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
                       PreparedCompletion prepared)
    : context_(context),
      exchange_(std::move(exchange)),
      prepared_(std::move(prepared)),
      request_(prepared_.request),
      model_(*prepared_.model),
      head_{.id = answer_id(request_.endpoint,
                            prepared_.keyed ? prepared_.keyed->id : context.random.next()),
            .created = context.options.unix_time(),
            .model = request_.model.empty() ? model_.info.name : request_.model,
            .request_id = exchange_->request().request_id},
      record_(context, *exchange_, model_),
      sampling_(request_.sampling) {
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
    sampling_.seed = request_.seed     ? *request_.seed
                     : prepared_.keyed ? prepared_.keyed->seed
                                       : context_.random.next();
    record_.asked(request_);
    std::vector<std::vector<Token>>& prompts = prepared_.prompts;
    prompts_.resize(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) add_choices(i);
    delivery_ = make_delivery();
    for (std::size_t i = 0; i < prompts.size(); ++i) submit(std::move(prompts[i]), i);
}

std::shared_ptr<Delivery> Completion::make_delivery() {
    AnswerPlace place{
        context_, exchange_,
        AnswerMemory(std::move(prepared_.share), context_.options.request_limits.max_answer_bytes)};
    if (request_.stream) {
        std::optional<EventNumbers> numbers;
        if (prepared_.keyed && !prepared_.keyed->fingerprint.empty()) {
            numbers.emplace(*prepared_.keyed, choices_.size());
        }
        return std::make_shared<StreamedDelivery>(std::move(place),
                                                  make_stream_writer(prepared_, head_), made(),
                                                  usage(), std::move(numbers));
    }
    WholeDelivery::Shape shape;
    shape.prompts = prompts_.size();
    shape.choices_of_prompt = made();
    shape.shown_of_prompt = static_cast<std::size_t>(request_.n);
    for (const auto& echo : prepared_.echoes) {
        shape.echoed_bytes += static_cast<std::int64_t>(echo->size()) * request_.n;
    }
    return std::make_shared<WholeDelivery>(std::move(place), make_whole_writer(prepared_, head_),
                                           head_.id, shape);
}

void Completion::add_choices(std::size_t index) {
    const auto tokens = static_cast<std::int64_t>(prepared_.prompts[index].size());
    prompts_[index].first = index * made();
    prompt_tokens_ += tokens;
    const char* endpoint = request_.endpoint == Endpoint::completions ? "completions" : "chat";
    for (std::size_t i = 0; i < made(); ++i) {
        choices_.push_back(std::make_unique<Choice>(Choice{
            .output = new_output(choices_.size()),
            .record = record_.add_choice(endpoint, request_.stream, head_.id, tokens, i == 0)}));
    }
}

text::TextOutput Completion::new_output(std::size_t choice) const {
    const text::AnswerFormat& reads = prepared_.reads;
    const bool skip_special = request_.skip_special_tokens;
    if (!reads.reads_anything()) {
        return {model_.codec->detokenizer(skip_special), prepared_.stops};
    }
    text::AnswerParser::Options options;
    options.format = reads;
    options.in_thought = prepared_.in_thought;
    options.tools = prepared_.tools;
    // Ids of calls differ between answers, also those with equal seeds: one conversation has many.
    const base::Hash128 hash = base::hash128(std::as_bytes(std::span(head_.id)));
    options.id_seed = base::hash_pair(hash.low, choice);
    return {model_.codec->marked_detokenizer(reads, skip_special), prepared_.stops,
            std::make_unique<text::AnswerParser>(options)};
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
    request.max_draft_tokens = request_.max_draft_tokens;
    request.prediction = prepared_.prediction;
    request.n = request_.made();
    request.score_prompt = request_.wants_prompt_logprobs();
    request.beam = request_.beam;
    request.timed = record_.traced();
    if (request_.made() > request_.n) {
        request.sampling.n_logprobs = std::max(request.sampling.n_logprobs, 0);
    }
    prompt.id = model_.service->submit(std::move(request),
                                       completion_sink(shared_from_this(), index, context_.post));
    for (std::size_t i = 0; i < made(); ++i) {
        choices_[prompt.first + i]->record.submitted({model_.service, prompt.id});
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
        usage.completion_tokens += choice->record.tokens();
        usage.cached_tokens += choice->record.cached_tokens();
        usage.reasoning_tokens += choice->reasoning_tokens;
    }
    return usage;
}

Usage Completion::usage_at_end() const {
    Usage usage = this->usage();
    usage.times = choices_.front()->record.times(now());
    return usage;
}

Progress Completion::progress(const Choice& choice) const {
    return {usage(), choice.record.tokens()};
}

void Completion::accepted(std::size_t prompt) {
    if (over_ || prompts_[prompt].accepted) return;
    prompts_[prompt].accepted = true;
    const bool all =
        std::all_of(prompts_.begin(), prompts_.end(), [](const Prompt& p) { return p.accepted; });
    if (all) goes_on(delivery_->accepted());
}

bool Completion::goes_on(const std::optional<ApiError>& error) {
    if (error) fail(*error);
    return !error;
}

void Completion::on_tick(base::TimePoint now) {
    delivery_->on_tick(now);
}

void Completion::routed(std::size_t prompt, const core::RequestRouted& routed) {
    choices_[prompts_[prompt].first]->record.attempt(routed.attempt, routed.reason);
    accepted(prompt);
    if (over_) return;
    const ChoiceRecord& first = choices_[prompts_[prompt].first]->record;
    if (model_.service == &context_.cluster()) {
        context_.feed.moved(head_.id, first.pipeline(), routed);
    }
    for (std::size_t i = 0; i < made(); ++i) {
        Choice& c = *choices_[prompts_[prompt].first + i];
        if (!c.done) c.record.routed(now(), routed);
    }
}

void Completion::token(std::size_t prompt, std::int32_t choice, const core::ProducedToken& token) {
    accepted(prompt);
    const std::size_t index = prompts_[prompt].first + static_cast<std::size_t>(choice);
    Choice& c = *choices_[index];
    if (over_ || c.done || request_.prompt_only) return;
    c.record.token(now());
    c.logprob += static_cast<double>(token.logprob);
    const bool may_stop = c.record.tokens() >= request_.min_tokens;
    // The token that ends the answer is counted but is no part of its text.
    if (may_stop && is_stop_token(token.token)) return;
    if (request_.wants_logprobs() && !goes_on(delivery_->add_token(index, token))) return;
    const bool in_thought = c.output.in_thought();
    std::vector<text::OutputPart> parts = c.output.push(token.token, may_stop);
    if (in_thought || holds_reasoning(parts)) ++c.reasoning_tokens;
    show(index, std::move(parts));
    if (over_ || !c.output.stopped()) return;
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
    if (!over_) goes_on(delivery_->add_prompt_tokens(prompt, tokens));
}

void Completion::show(std::size_t index, std::vector<text::OutputPart> parts) {
    goes_on(delivery_->add_parts(index, std::move(parts), progress(*choices_[index])));
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
            choices_[i]->record.ended(now(), reason);
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
    if (!c.output.stopped()) show(index, c.output.finish(reason == FinishReason::length));
    if (over_) return;
    c.done = true;
    c.record.ended(now(), reason);
    const Progress last{usage_at_end(), c.record.tokens()};
    if (!goes_on(delivery_->finish(index, {reason, c.output.stop_string()}, last))) return;
    if (std::all_of(choices_.begin(), choices_.end(), [](const auto& ch) { return ch->done; })) {
        complete_answer();
    }
}

void Completion::complete_answer() {
    delivery_->end(usage_at_end(), shown_choices(), [self = shared_from_this()] {
        if (self->over_) return false;
        self->leave();
        return true;
    });
}

// For each prompt the n most likely choices, by the sum of their log-probabilities; if none is left
// out, all in their order.
std::vector<std::size_t> Completion::shown_choices() const {
    std::vector<std::size_t> shown;
    for (const Prompt& prompt : prompts_) {
        std::vector<std::size_t> made_here(made());
        std::iota(made_here.begin(), made_here.end(), prompt.first);
        if (request_.made() > request_.n) {
            std::stable_sort(made_here.begin(), made_here.end(),
                             [this](std::size_t a, std::size_t b) {
                                 return choices_[a]->logprob > choices_[b]->logprob;
                             });
        }
        shown.insert(shown.end(), made_here.begin(), made_here.begin() + request_.n);
    }
    return shown;
}

void Completion::rejected(std::size_t prompt, const core::RejectRequest& rejection) {
    if (over_) return;
    for (std::size_t i = 0; i < made(); ++i) {
        Choice& choice = *choices_[prompts_[prompt].first + i];
        choice.done = true;
        choice.record.rejected(now());
    }
    fail(from_rejection(rejection));
}

void Completion::fail(const ApiError& error) {
    delivery_->fail(error);
    end_choices();
    leave();
}

void Completion::gone() {
    if (over_) return;
    const char* reason =
        exchange_->too_slow() ? "the client reads too slowly" : "the client is gone";
    LOG_DEBUG("{}: {}", head_.id, reason);
    for (const auto& choice : choices_) {
        if (!choice->done) choice->record.explain(reason);
    }
    end_choices();
    leave();
}

void Completion::shut_down() {
    if (!over_) fail(unavailable("The server is shutting down.", 5));
}

void Completion::end_choices() {
    for (const Prompt& prompt : prompts_) {
        if (runs(prompt)) model_.service->end(prompt.id, FinishReason::cancelled);
    }
    for (const auto& choice : choices_) {
        if (choice->done) continue;
        choice->done = true;
        choice->record.ended(now(), FinishReason::cancelled);
    }
}

void Completion::leave() {
    over_ = true;
    delivery_->drop();
    context_.active.erase(shared_from_this());
}

}  // namespace helix::api
