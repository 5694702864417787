#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "api/context.h"
#include "api/preparation.h"
#include "api/tracing/tracer.h"
#include "api/writers/answer_writer.h"
#include "base/time.h"
#include "net/http_server.h"

// What is told of a completion to those who watch the server: in the metrics and the history, in
// the log of the last requests, in the access log's line of its exchange, and in its trace.

namespace helix::api {

// One choice of it.
class ChoiceRecord {
  public:
    void submitted(ServiceRequest request);
    // Told by the first choice of a prompt: which attempt begins with the next routed(), and why.
    void attempt(std::uint32_t number, core::RouteReason reason) { trace_.attempt(number, reason); }
    void routed(base::TimePoint at, const core::RequestRouted& routed);
    void token(base::TimePoint at);
    void ended(base::TimePoint at, core::FinishReason reason);
    void rejected(base::TimePoint at);
    // Why it is about to end by FinishReason::cancelled.
    void explain(const char* reason) { record_->reason = reason; }

    AnswerTimes times(base::TimePoint now) const;
    std::int64_t tokens() const { return record_->completion_tokens; }
    // The way that it went last; empty before it has one.
    const core::Pipeline& pipeline() const { return record_->pipeline; }
    // Of its prompt, from the prefix cache; 0 where another choice of that prompt counts them.
    std::int64_t cached_tokens() const { return counts_prompt_ ? record_->cached_tokens : 0; }

  private:
    friend class CompletionRecord;
    ChoiceRecord(RequestMetrics& metrics, History& history, net::HttpExchange& exchange,
                 std::shared_ptr<RequestRecord> record, base::TimePoint arrived, bool counts_prompt,
                 ChoiceTrace trace)
        : metrics_(metrics),
          history_(history),
          exchange_(exchange),
          record_(std::move(record)),
          counts_prompt_(counts_prompt),
          trace_(std::move(trace)),
          arrived_(arrived) {}

    RequestMetrics& metrics_;
    History& history_;
    net::HttpExchange& exchange_;
    std::shared_ptr<RequestRecord> record_;  // in the log
    bool counts_prompt_;                     // for all choices of it
    ChoiceTrace trace_;
    base::TimePoint arrived_;
    base::TimePoint routed_at_;
    base::TimePoint first_token_at_;
    base::TimePoint last_token_at_;
};

// Opens the records of its choices.
class CompletionRecord {
  public:
    // context and exchange must outlive it and the records that it opens.
    CompletionRecord(ApiContext& context, net::HttpExchange& exchange, const ModelEntry& model);

    void asked(const CompletionRequest& request);
    // Whether the service is to say what stages do for it (core::Request::timed).
    bool traced() const { return trace_ != nullptr; }
    // Choices are added in order; the first one of a prompt counts it.
    ChoiceRecord add_choice(const char* endpoint, bool stream, const std::string& id,
                            std::int64_t prompt_tokens, bool counts_prompt = true);

  private:
    ApiContext& context_;
    net::HttpExchange& exchange_;
    RequestMetrics& metrics_;
    base::TimePoint arrived_;
    std::shared_ptr<RequestTrace> trace_;  // null: it is not traced
    std::size_t choices_ = 0;
};

}  // namespace helix::api
