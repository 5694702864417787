#include "api/embedding/pooled_answer.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "api/embedding/embedding_writer.h"
#include "api/heavy_work.h"
#include "api/long_answer.h"
#include "base/log.h"

namespace helix::api {

using core::FinishReason;

namespace {

// Prompts of one request that are with the service at a time. The rest of a long list waits here,
// where it takes no places in the queue.
constexpr std::size_t kMostAtOnce = 64;
// An answer of at most this many bytes is written at once; a longer one on another thread.
constexpr std::int64_t kAtOnceBytes = 128 << 10;

class PooledSink final : public TokenSink {
  public:
    PooledSink(std::shared_ptr<PooledAnswer> answer, std::size_t prompt,
               std::function<void(net::HttpServer::Task)> post)
        : answer_(std::move(answer)), prompt_(prompt), post_(std::move(post)) {}

    void on_token(std::int32_t, const core::ProducedToken&) override {}
    void on_embedding(const std::vector<float>& values) override {
        post_([a = answer_, p = prompt_, values] { a->pooled(p, values); });
    }
    void on_choice_finish(std::int32_t, FinishReason) override {}
    void on_finish(FinishReason reason, const std::string& error) override {
        post_([a = answer_, p = prompt_, reason, error] { a->finished(p, reason, error); });
    }
    void on_reject(const core::RejectRequest& rejection) override {
        post_([a = answer_, p = prompt_, rejection] { a->rejected(p, rejection); });
    }
    void on_routed(const core::RequestRouted& routed) override {
        post_([a = answer_, p = prompt_, routed] { a->routed(p, routed); });
    }

  private:
    std::shared_ptr<PooledAnswer> answer_;
    std::size_t prompt_;
    std::function<void(net::HttpServer::Task)> post_;
};

}  // namespace

PooledAnswer::PooledAnswer(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
                           PooledPrompts prompts)
    : context_(context),
      exchange_(std::move(exchange)),
      asked_(std::move(prompts)),
      model_(*asked_.model),
      record_(context, *exchange_, model_),
      arrived_(context.options.clock()),
      id_(fmt::format("{}-{:016x}", asked_.id_prefix, context.random.next())) {}

void PooledAnswer::start() {
    context_.active.insert(shared_from_this());
    exchange_->on_gone([self = weak_from_this()] {
        if (const auto answer = self.lock()) answer->gone();
    });
    values_.resize(asked_.prompts.size());
    widths_.resize(asked_.prompts.size());
    for (const std::vector<Token>& prompt : asked_.prompts) {
        const auto tokens = static_cast<std::int64_t>(prompt.size());
        prompt_tokens_ += tokens;
        prompts_.push_back(
            {State::waits, {}, record_.add_choice(asked_.endpoint, false, id_, tokens)});
    }
    if (prompts_.empty()) return complete();
    submit_more();
}

void PooledAnswer::submit_more() {
    while (submitted_ < prompts_.size() && running_ < kMostAtOnce) submit(submitted_++);
}

void PooledAnswer::submit(std::size_t prompt) {
    core::Request request;
    request.prompt = std::move(asked_.prompts[prompt]);
    request.max_tokens = 1;
    request.pooling = asked_.pooling;
    request.priority = asked_.priority;
    request.timed = record_.traced();
    request.client = client_number(context_, exchange_->request());
    ++running_;
    prompts_[prompt].state = State::runs;
    prompts_[prompt].id = model_.service->submit(
        std::move(request),
        std::make_shared<PooledSink>(shared_from_this(), prompt, context_.post));
    prompts_[prompt].record.submitted({model_.service, prompts_[prompt].id});
}

void PooledAnswer::routed(std::size_t prompt, const core::RequestRouted& routed) {
    ChoiceRecord& record = prompts_[prompt].record;
    record.attempt(routed.attempt, routed.reason);
    if (model_.service == &context_.cluster()) {
        context_.feed.moved(id_, record.pipeline(), routed);
    }
    if (!over_) record.routed(now(), routed);
}

void PooledAnswer::pooled(std::size_t prompt, const std::vector<float>& values) {
    if (over_) return;
    widths_[prompt] = values.size();
    values_[prompt] = shortened(values, asked_.dimensions);
}

void PooledAnswer::finished(std::size_t prompt, FinishReason reason, const std::string& error) {
    if (over_) return;
    Prompt& one = prompts_[prompt];
    one.state = State::done;
    one.record.ended(now(), reason);
    --running_;
    ++done_;
    if (reason == FinishReason::kills_workers) return fail(kills_workers_error(error));
    if (reason == FinishReason::invalid_request) return fail(bad_field("", error));
    const std::size_t got = widths_[prompt];
    const bool whole = got > 0 && (asked_.width == 0 || got == asked_.width);
    if (!core::is_whole(reason) || !whole) {
        return fail(unavailable(error.empty() ? "The server ended this request." : error, 1));
    }
    if (done_ == prompts_.size()) return complete();
    submit_more();
}

void PooledAnswer::rejected(std::size_t prompt, const core::RejectRequest& rejection) {
    if (over_) return;
    prompts_[prompt].state = State::done;
    prompts_[prompt].record.rejected(now());
    fail(from_rejection(rejection));
}

void PooledAnswer::complete() {
    PooledAnswerHead head{id_, asked_.model_name.empty() ? model_.info.name : asked_.model_name,
                          prompt_tokens_, now() - arrived_};
    if (asked_.answer_bytes <= kAtOnceBytes) {
        return send(std::make_shared<const std::string>(asked_.write(head, values_)));
    }
    PreparePool::Job job;
    job.client = client_of(context_, exchange_->request());
    job.bytes = static_cast<std::size_t>(asked_.answer_bytes);
    job.run = [self = shared_from_this(), head = std::move(head)] {
        std::shared_ptr<const std::string> body;
        try {
            body = std::make_shared<const std::string>(self->asked_.write(head, self->values_));
        } catch (const std::exception& e) {
            LOG_ERROR("{}: {}", self->id_, e.what());
        }
        self->context_.post([self, body] { self->send(body); });
    };
    context_.pool.add_owed(std::move(job));
}

// body is null if there was no memory to write it.
void PooledAnswer::send(const std::shared_ptr<const std::string>& body) {
    if (over_) return;
    if (body == nullptr) {
        return fail(unavailable("The server had not enough memory to write this answer.", 1));
    }
    leave();
    send_long(context_, exchange_, body, std::move(asked_.share));
}

void PooledAnswer::fail(const ApiError& error) {
    context_.refuse(*exchange_, error);
    cancel_all("");
    leave();
}

void PooledAnswer::gone() {
    if (over_) return;
    cancel_all("the client is gone");
    leave();
}

void PooledAnswer::shut_down() {
    if (!over_) fail(unavailable("The server is shutting down.", 5));
}

void PooledAnswer::cancel_all(const char* reason) {
    for (Prompt& prompt : prompts_) {
        if (prompt.state == State::runs) {
            model_.service->end(prompt.id, FinishReason::cancelled);
        }
        if (prompt.state == State::done) continue;
        prompt.state = State::done;
        prompt.record.explain(reason);
        prompt.record.ended(now(), FinishReason::cancelled);
    }
}

void PooledAnswer::leave() {
    over_ = true;
    context_.active.erase(shared_from_this());
}

}  // namespace helix::api
