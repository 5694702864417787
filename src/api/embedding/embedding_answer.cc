#include "api/embedding/embedding_answer.h"

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

// Texts of one request that are with the service at a time. The rest of a long list waits here,
// where it takes no places in the queue.
constexpr std::size_t kMostAtOnce = 64;
// An answer of at most this many values is written at once; a longer one on another thread.
constexpr std::size_t kFewValues = 8192;

class EmbeddingSink final : public TokenSink {
  public:
    EmbeddingSink(std::shared_ptr<EmbeddingAnswer> answer, std::size_t text,
                  std::function<void(net::HttpServer::Task)> post)
        : answer_(std::move(answer)), text_(text), post_(std::move(post)) {}

    void on_token(std::int32_t, const core::ProducedToken&) override {}
    void on_embedding(const std::vector<float>& values) override {
        post_([a = answer_, t = text_, values] { a->embedded(t, values); });
    }
    void on_choice_finish(std::int32_t, FinishReason) override {}
    void on_finish(FinishReason reason, const std::string& error) override {
        post_([a = answer_, t = text_, reason, error] { a->finished(t, reason, error); });
    }
    void on_reject(const core::RejectRequest& rejection) override {
        post_([a = answer_, t = text_, rejection] { a->rejected(t, rejection); });
    }
    void on_attempt(std::uint32_t attempt, core::RouteReason reason) override {
        attempt_ = attempt;
        reason_ = reason;
    }
    void on_routed(const core::Pipeline& pipeline, std::int32_t cached_tokens) override {
        post_([a = answer_, t = text_, attempt = attempt_, reason = reason_, pipeline,
               cached_tokens] {
            a->attempt(t, attempt, reason);
            a->routed(t, pipeline, cached_tokens);
        });
    }

  private:
    std::shared_ptr<EmbeddingAnswer> answer_;
    std::size_t text_;
    std::uint32_t attempt_ = 0;
    core::RouteReason reason_ = core::RouteReason::first;
    std::function<void(net::HttpServer::Task)> post_;
};

}  // namespace

EmbeddingAnswer::EmbeddingAnswer(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
                                 PreparedEmbedding prepared)
    : context_(context),
      exchange_(std::move(exchange)),
      prepared_(std::move(prepared)),
      model_(*prepared_.model),
      record_(context, *exchange_, model_),
      arrived_(context.options.clock()),
      id_(fmt::format("embd-{:016x}", context.random.next())) {}

void EmbeddingAnswer::start() {
    context_.active.insert(shared_from_this());
    exchange_->on_gone([self = weak_from_this()] {
        if (const auto answer = self.lock()) answer->gone();
    });
    values_.resize(prepared_.prompts.size());
    for (const std::vector<Token>& prompt : prepared_.prompts) {
        const auto tokens = static_cast<std::int64_t>(prompt.size());
        prompt_tokens_ += tokens;
        texts_.push_back({State::waits, {}, record_.add_choice("embeddings", false, id_, tokens)});
    }
    if (texts_.empty()) return complete();
    submit_more();
}

void EmbeddingAnswer::submit_more() {
    while (submitted_ < texts_.size() && running_ < kMostAtOnce) submit(submitted_++);
}

void EmbeddingAnswer::submit(std::size_t text) {
    core::Request request;
    request.prompt = std::move(prepared_.prompts[text]);
    request.max_tokens = 1;
    request.pooling = model_.info.pooling;
    request.priority = prepared_.request.priority;
    request.timed = record_.traced();
    request.client = client_number(context_, exchange_->request());
    ++running_;
    texts_[text].state = State::runs;
    texts_[text].id = model_.service->submit(
        std::move(request),
        std::make_shared<EmbeddingSink>(shared_from_this(), text, context_.post));
    texts_[text].record.submitted({model_.service, texts_[text].id});
}

void EmbeddingAnswer::attempt(std::size_t text, std::uint32_t number, core::RouteReason reason) {
    texts_[text].record.attempt(number, reason);
}

void EmbeddingAnswer::routed(std::size_t text, const core::Pipeline& pipeline,
                             std::int32_t cached_tokens) {
    if (!over_) texts_[text].record.routed(now(), pipeline, cached_tokens);
}

void EmbeddingAnswer::embedded(std::size_t text, const std::vector<float>& values) {
    if (!over_) values_[text] = shortened(values, prepared_.request.dimensions);
}

void EmbeddingAnswer::finished(std::size_t text, FinishReason reason, const std::string& error) {
    if (over_) return;
    Text& one = texts_[text];
    one.state = State::done;
    one.record.ended(now(), reason);
    --running_;
    ++done_;
    if (reason == FinishReason::kills_workers) return fail(kills_workers_error(error));
    if (reason == FinishReason::invalid_request) return fail(bad_field("", error));
    if (!core::is_whole(reason) || values_[text].empty()) {
        return fail(unavailable(error.empty() ? "The server ended this request." : error, 1));
    }
    if (done_ == texts_.size()) return complete();
    submit_more();
}

void EmbeddingAnswer::rejected(std::size_t text, const core::RejectRequest& rejection) {
    if (over_) return;
    texts_[text].state = State::done;
    texts_[text].record.rejected();
    fail(from_rejection(rejection));
}

void EmbeddingAnswer::complete() {
    const EmbeddingRequest& request = prepared_.request;
    EmbeddingAnswerHead head{request.model.empty() ? model_.info.name : request.model,
                             prompt_tokens_, now() - arrived_};
    const std::size_t width = values_.empty() ? 0 : values_.front().size();
    if (values_.size() * width <= kFewValues) {
        return send(std::make_shared<const std::string>(embedding_json(request, head, values_)));
    }
    PreparePool::Job job;
    job.client = client_of(context_, exchange_->request());
    job.bytes = values_.size() * width * sizeof(float);
    job.run = [self = shared_from_this(), head = std::move(head)] {
        std::shared_ptr<const std::string> body;
        try {
            body = std::make_shared<const std::string>(
                embedding_json(self->prepared_.request, head, self->values_));
        } catch (const std::exception& e) {
            LOG_ERROR("{}: {}", self->id_, e.what());
        }
        self->context_.post([self, body] { self->send(body); });
    };
    context_.pool.add_owed(std::move(job));
}

// body is null if there was no memory to write it.
void EmbeddingAnswer::send(const std::shared_ptr<const std::string>& body) {
    if (over_) return;
    if (body == nullptr) {
        return fail(unavailable("The server had not enough memory to write this answer.", 1));
    }
    leave();
    send_long(context_, exchange_, body, std::move(prepared_.share));
}

void EmbeddingAnswer::fail(const ApiError& error) {
    context_.refuse(*exchange_, error);
    cancel_all("");
    leave();
}

void EmbeddingAnswer::gone() {
    if (over_) return;
    cancel_all("the client is gone");
    leave();
}

void EmbeddingAnswer::shut_down() {
    if (!over_) fail(unavailable("The server is shutting down.", 5));
}

void EmbeddingAnswer::cancel_all(const char* reason) {
    for (Text& text : texts_) {
        if (text.state == State::runs) {
            model_.service->end(text.id, FinishReason::cancelled);
        }
        if (text.state == State::done) continue;
        text.state = State::done;
        text.record.explain(reason);
        text.record.ended(now(), FinishReason::cancelled);
    }
}

void EmbeddingAnswer::leave() {
    over_ = true;
    context_.active.erase(shared_from_this());
}

}  // namespace helix::api
