#include "api/completion/completion_record.h"

#include <utility>

namespace helix::api {
namespace {

constexpr const char* kStateNames[] = {"stop", "length", "abort", "error"};

Outcome outcome_of(core::FinishReason reason) {
    switch (reason) {
        case core::FinishReason::stop:
            return Outcome::stop;
        case core::FinishReason::length:
            return Outcome::length;
        case core::FinishReason::cancelled:
            return Outcome::abort;
        case core::FinishReason::error:
        case core::FinishReason::invalid_request:
        case core::FinishReason::kills_workers:
            break;
    }
    return Outcome::error;
}

}  // namespace

CompletionRecord::CompletionRecord(ApiContext& context, net::HttpExchange& exchange,
                                   const ModelEntry& model)
    : context_(context),
      exchange_(exchange),
      metrics_(context.metrics_of(model)),
      arrived_(context.options.clock()) {
    if (context.tracer == nullptr) return;
    trace_ = context.tracer->find(exchange);
    if (trace_ != nullptr) trace_->prepared(arrived_, model.info.name);
}

void CompletionRecord::asked(const CompletionRequest& request) {
    metrics_.params_n.observe(request.n);
    if (request.max_tokens > 0) metrics_.params_max_tokens.observe(request.max_tokens);
    if (trace_ != nullptr) trace_->asked(request);
}

ChoiceRecord CompletionRecord::add_choice(const char* endpoint, bool stream, const std::string& id,
                                          std::int64_t prompt_tokens, bool counts_prompt) {
    std::shared_ptr<RequestRecord> record = context_.log.add();
    record->id = id;
    record->choice = choices_++;
    record->endpoint = endpoint;
    record->stream = stream;
    record->created = context_.options.unix_time();
    record->prompt_tokens = prompt_tokens;
    ChoiceTrace trace;
    if (trace_ != nullptr) {
        const std::size_t choice = trace_->add_choice(id, prompt_tokens, counts_prompt);
        trace = {*context_.tracer, trace_, choice, counts_prompt};
    }
    return {metrics_, context_.history, exchange_,       std::move(record),
            arrived_, counts_prompt,    std::move(trace)};
}

void ChoiceRecord::submitted(ServiceRequest request) {
    record_->request = request;
    trace_.submitted(request.service, request.id);
}

void ChoiceRecord::rejected(base::TimePoint at) {
    record_->state = "rejected";
    record_->ended_s = (at - arrived_).seconds();
    RequestTrace::ChoiceEnd end;
    end.state = record_->state;
    trace_.ended(end);
}

void ChoiceRecord::routed(base::TimePoint at, const core::RequestRouted& routed) {
    if (record_->queue_s < 0) {
        routed_at_ = at;
        record_->queue_s = (routed_at_ - arrived_).seconds();
        // What is refused, or leaves before its turn, costs its key nothing.
        if (counts_prompt_) {
            exchange_.count("prompt_tokens", record_->prompt_tokens);
            history_.prompt(record_->prompt_tokens);
        }
    }
    record_->state = "running";
    record_->pipeline = routed.pipeline;
    if (record_->attempts.size() < RequestRecord::kMostAttempts) {
        record_->attempts.push_back({(at - arrived_).seconds(), routed.reason, routed.pipeline});
    } else {
        ++record_->attempts_left_out;
    }
    // It counts for the first attempt that got as far as a token.
    if (tokens() == 0) record_->cached_tokens = routed.cached_tokens;
    trace_.routed(at, record_->request.service, routed.pipeline);
}

void ChoiceRecord::token(base::TimePoint at) {
    ++record_->completion_tokens;
    if (tokens() == 1) {
        first_token_at_ = at;
        record_->ttft_s = (at - arrived_).seconds();
        metrics_.ttft.observe(record_->ttft_s);
        history_.first_token(record_->ttft_s);
    } else {
        metrics_.time_per_output_token.observe((at - last_token_at_).seconds());
        const double decoding = (at - first_token_at_).seconds();
        if (decoding > 0) {
            record_->tokens_per_s = static_cast<double>(tokens() - 1) / decoding;
        }
    }
    last_token_at_ = at;
    ++metrics_.generation_tokens_total;
    history_.token();
    exchange_.count("completion_tokens", 1);
}

AnswerTimes ChoiceRecord::times(base::TimePoint now) const {
    AnswerTimes times;
    times.all = now - arrived_;
    if (record_->queue_s < 0) return times;
    times.waiting = routed_at_ - arrived_;
    if (tokens() == 0) return times;
    times.prompt = first_token_at_ - routed_at_;
    times.answer = last_token_at_ - first_token_at_;
    return times;
}

void ChoiceRecord::ended(base::TimePoint at, core::FinishReason reason) {
    const auto outcome = static_cast<std::size_t>(outcome_of(reason));
    record_->state = kStateNames[outcome];
    record_->ended_s = (at - arrived_).seconds();
    const bool failed = outcome == static_cast<std::size_t>(Outcome::error);
    const double answer_s = (last_token_at_ - first_token_at_).seconds();
    history_.ended(failed, tokens() > 1 ? answer_s / static_cast<double>(tokens() - 1) : -1);
    trace_.ended({record_->state, at, tokens(), first_token_at_, last_token_at_, cached_tokens()});
    RequestMetrics& m = metrics_;
    ++m.outcomes[outcome];
    if (counts_prompt_) {
        m.prompt_tokens_total += static_cast<std::uint64_t>(record_->prompt_tokens);
        m.prompt_tokens.observe(static_cast<double>(record_->prompt_tokens));
    }
    m.generation_tokens.observe(static_cast<double>(tokens()));
    m.e2e.observe((at - arrived_).seconds());
    if (record_->queue_s < 0) return;
    m.queue.observe(record_->queue_s);
    m.inference.observe((at - routed_at_).seconds());
    if (tokens() == 0) return;
    m.prefill.observe((first_token_at_ - routed_at_).seconds());
    m.decode.observe((last_token_at_ - first_token_at_).seconds());
}

}  // namespace helix::api
