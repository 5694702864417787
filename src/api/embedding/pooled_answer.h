#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/active_answer.h"
#include "api/completion/completion_record.h"
#include "api/context.h"
#include "api/model_registry.h"
#include "api/request_budget.h"
#include "net/http_server.h"

namespace helix::api {

// What an answer of pooled prompts says besides the values of each.
struct PooledAnswerHead {
    std::string id;
    std::string model;
    std::int64_t prompt_tokens = 0;
    base::Duration took;
};

// What is asked of the service, and how the answer is written: embeddings, scores.
struct PooledPrompts {
    const ModelEntry* model = nullptr;
    std::string model_name;     // as the request names it; "" = whatever is served
    const char* endpoint = "";  // for the logs
    const char* id_prefix = "";
    std::vector<std::vector<Token>> prompts;
    spec::Pooling pooling = spec::Pooling::none;
    std::size_t width = 0;        // values of each prompt; 0 = any number
    std::int32_t dimensions = 0;  // so many of the first are kept, scaled to length 1; 0 = all
    std::int32_t priority = 0;    // higher first, as in core
    // Writes the whole answer, of about so many bytes, from the values of each prompt in order.
    std::int64_t answer_bytes = 0;
    std::function<std::string(const PooledAnswerHead& head,
                              const std::vector<std::vector<float>>& values)>
        write;
    std::shared_ptr<RequestBudget::Share> share;  // holds all, the answer too
};

// A request whose prompts are pooled, from these to the end of its answer. Each prompt is a request
// of its own to the service; some run at a time, and the answer goes out when all are there. On the
// HTTP server's thread, where what the service says arrives through sinks that post.
//
// Promises: the first prompt that fails ends the answer with its error; each request that the
// service began and did not end itself is given back to it, whatever happens to the client.
class PooledAnswer : public ActiveAnswer, public std::enable_shared_from_this<PooledAnswer> {
  public:
    PooledAnswer(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
                 PooledPrompts prompts);

    void start();
    void shut_down() override;

    // What the service says of a prompt.
    void routed(std::size_t prompt, const core::RequestRouted& routed);
    void pooled(std::size_t prompt, const std::vector<float>& values);
    void finished(std::size_t prompt, core::FinishReason reason, const std::string& error);
    void rejected(std::size_t prompt, const core::RejectRequest& rejection);

  private:
    enum class State { waits, runs, done };
    struct Prompt {
        State state = State::waits;
        core::RequestId id;
        ChoiceRecord record;
    };

    void submit_more();
    void submit(std::size_t prompt);
    void gone();
    void fail(const ApiError& error);
    void cancel_all(const char* reason);
    void complete();
    void send(const std::shared_ptr<const std::string>& body);
    void leave();
    base::TimePoint now() const { return context_.options.clock(); }

    ApiContext& context_;
    std::shared_ptr<net::HttpExchange> exchange_;
    PooledPrompts asked_;
    const ModelEntry& model_;
    CompletionRecord record_;
    base::TimePoint arrived_;
    std::string id_;
    std::vector<Prompt> prompts_;
    std::vector<std::vector<float>> values_;  // of each prompt
    std::vector<std::size_t> widths_;         // how many there were before some were kept
    std::size_t submitted_ = 0;
    std::size_t running_ = 0;
    std::size_t done_ = 0;
    std::int64_t prompt_tokens_ = 0;
    bool over_ = false;
};

}  // namespace helix::api
