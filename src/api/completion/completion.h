#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/active_answer.h"
#include "api/completion/completion_record.h"
#include "api/completion/delivery.h"
#include "api/context.h"
#include "api/preparation.h"
#include "base/time.h"
#include "net/http_server.h"
#include "text/output/text_output.h"

namespace helix::api {

// One request for completions, from its prepared prompts to the end of its answer: the life of its
// choices, whatever protocol it came in. It lives on the HTTP server's thread, where what the
// service says arrives through sinks that post (api/completion/completion_sink.h). How the answer
// reaches the client is its delivery's business, its bytes a writer's (api/writers/), and what
// others are told of it its records'.
//
// Promises: the status line goes out only when the service has accepted every prompt; each choice
// that the service began and did not end itself is given back to it, whatever happens to the
// client.
class Completion : public ActiveAnswer, public std::enable_shared_from_this<Completion> {
  public:
    Completion(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
               PreparedCompletion prepared);
    ~Completion() override;

    void start();
    void on_tick(base::TimePoint now) override;

    // What the service says, by prompt; choice counts those of this prompt.
    void accepted(std::size_t prompt);
    void routed(std::size_t prompt, const core::RequestRouted& routed);
    void token(std::size_t prompt, std::int32_t choice, const core::ProducedToken& token);
    void scored(std::size_t prompt, const std::vector<core::ProducedToken>& tokens);
    void choice_finished(std::size_t prompt, std::int32_t choice, core::FinishReason reason);
    void finished(std::size_t prompt, core::FinishReason reason, const std::string& error);
    void rejected(std::size_t prompt, const core::RejectRequest& rejection);
    // The client is gone.
    void gone();
    void shut_down() override;

  private:
    struct Choice;
    // One request to the service, for made() choices.
    struct Prompt {
        core::RequestId id;
        std::size_t first = 0;  // of its choices
        bool accepted = false;
    };

    void add_choices(std::size_t prompt);
    text::TextOutput new_output(std::size_t choice) const;
    void submit(std::vector<Token> tokens, std::size_t index);
    bool runs(const Prompt& prompt) const;  // whether one of its choices runs
    std::size_t made() const { return static_cast<std::size_t>(request_.made()); }
    bool is_stop_token(Token token) const;

    void show(std::size_t index, std::vector<text::OutputPart> parts);
    void complete_choice(std::size_t index, core::FinishReason reason);
    void complete_answer();
    std::vector<std::size_t> shown_choices() const;
    // Whether the answer goes on: it does not after an error, which ends it.
    bool goes_on(const std::optional<ApiError>& error);
    void fail(const ApiError& error);
    // Cancels in the service the choices that still run.
    void end_choices();
    void leave();
    base::TimePoint now() const { return context_.options.clock(); }
    Usage usage() const;
    Usage usage_at_end() const;  // with how long it took
    Progress progress(const Choice& choice) const;
    std::shared_ptr<Delivery> make_delivery();

    ApiContext& context_;
    std::shared_ptr<net::HttpExchange> exchange_;
    PreparedCompletion prepared_;
    const CompletionRequest& request_;  // of prepared_
    const ModelEntry& model_;
    AnswerHead head_;
    CompletionRecord record_;
    std::shared_ptr<Delivery> delivery_;  // from start() on
    spec::SamplingParams sampling_;       // with the seed
    std::vector<Token> stop_tokens_;
    std::vector<Prompt> prompts_;
    std::vector<std::unique_ptr<Choice>> choices_;  // made() for each prompt
    std::int64_t prompt_tokens_ = 0;
    bool over_ = false;
};

}  // namespace helix::api
