#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/active_answer.h"
#include "api/completion/completion_record.h"
#include "api/context.h"
#include "api/embedding/embedding_request.h"
#include "net/http_server.h"

namespace helix::api {

// A request for embeddings, from its prepared texts to the end of its answer. Each text is a
// request of its own to the service; some run at a time, and the answer goes out when all are
// there. On the HTTP server's thread, where what the service says arrives through sinks that post.
//
// Promises: the first text that fails ends the answer with its error; each request that the service
// began and did not end itself is given back to it, whatever happens to the client.
class EmbeddingAnswer : public ActiveAnswer, public std::enable_shared_from_this<EmbeddingAnswer> {
  public:
    EmbeddingAnswer(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
                    PreparedEmbedding prepared);

    void start();
    void shut_down() override;

    // What the service says of a text.
    void attempt(std::size_t text, std::uint32_t number, core::RouteReason reason);
    void routed(std::size_t text, const core::Pipeline& pipeline, std::int32_t cached_tokens);
    void embedded(std::size_t text, const std::vector<float>& values);
    void finished(std::size_t text, core::FinishReason reason, const std::string& error);
    void rejected(std::size_t text, const core::RejectRequest& rejection);

  private:
    enum class State { waits, runs, done };
    struct Text {
        State state = State::waits;
        core::RequestId id;
        ChoiceRecord record;
    };

    void submit_more();
    void submit(std::size_t text);
    void gone();
    void fail(const ApiError& error);
    void cancel_all(const char* reason);
    void complete();
    void send(const std::shared_ptr<const std::string>& body);
    void leave();
    base::TimePoint now() const { return context_.options.clock(); }

    ApiContext& context_;
    std::shared_ptr<net::HttpExchange> exchange_;
    PreparedEmbedding prepared_;
    const ModelEntry& model_;
    CompletionRecord record_;
    base::TimePoint arrived_;
    std::string id_;
    std::vector<Text> texts_;
    std::vector<std::vector<float>> values_;  // of each text
    std::size_t submitted_ = 0;
    std::size_t running_ = 0;
    std::size_t done_ = 0;
    std::int64_t prompt_tokens_ = 0;
    bool over_ = false;
};

}  // namespace helix::api
