#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/context.h"
#include "api/preparation.h"
#include "api/writers/answer_writer.h"
#include "base/time.h"
#include "net/http_server.h"

// What is told of a completion to those who watch the server: in the metrics, in the log of the
// last requests, and in the access log's line of its exchange.

namespace helix::api {

// One choice of it.
class ChoiceRecord {
  public:
    void submitted(ServiceRequest request) { record_->request = request; }
    void routed(base::TimePoint at, const core::Pipeline& pipeline, std::int32_t cached_tokens);
    void token(base::TimePoint at);
    void ended(base::TimePoint at, core::FinishReason reason);
    void rejected() { record_->state = "rejected"; }
    // Why it is about to end by FinishReason::cancelled.
    void explain(const char* reason) { record_->reason = reason; }

    AnswerTimes times(base::TimePoint now) const;
    std::int64_t tokens() const { return record_->completion_tokens; }
    // Of its prompt, from the prefix cache; 0 where another choice of that prompt counts them.
    std::int64_t cached_tokens() const { return counts_prompt_ ? record_->cached_tokens : 0; }

  private:
    friend class CompletionRecord;
    ChoiceRecord(RequestMetrics& metrics, net::HttpExchange& exchange,
                 std::shared_ptr<RequestRecord> record, base::TimePoint arrived, bool counts_prompt)
        : metrics_(metrics),
          exchange_(exchange),
          record_(std::move(record)),
          counts_prompt_(counts_prompt),
          arrived_(arrived) {}

    RequestMetrics& metrics_;
    net::HttpExchange& exchange_;
    std::shared_ptr<RequestRecord> record_;  // in the log
    bool counts_prompt_;                     // for all choices of it
    base::TimePoint arrived_;
    base::TimePoint routed_at_;
    base::TimePoint first_token_at_;
    base::TimePoint last_token_at_;
};

// Opens the records of its choices.
class CompletionRecord {
  public:
    // context and exchange must outlive it and the records that it opens.
    CompletionRecord(ApiContext& context, net::HttpExchange& exchange, const ModelEntry& model)
        : context_(context),
          exchange_(exchange),
          metrics_(context.metrics_of(model)),
          arrived_(context.options.clock()) {}

    void asked(const CompletionRequest& request);
    // Choices are added in order; the first one of a prompt counts it.
    ChoiceRecord add_choice(const char* endpoint, bool stream, const std::string& id,
                            std::int64_t prompt_tokens, bool counts_prompt = true);

  private:
    ApiContext& context_;
    net::HttpExchange& exchange_;
    RequestMetrics& metrics_;
    base::TimePoint arrived_;
    std::size_t choices_ = 0;
};

}  // namespace helix::api
