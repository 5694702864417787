#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_text.h"
#include "api/completion_request.h"
#include "api/context.h"
#include "api/metrics.h"
#include "api/preparation.h"
#include "api/request_log.h"
#include "base/time.h"
#include "net/http_server.h"
#include "text/output/output_part.h"

namespace helix::api {

// One request to one of the two completion endpoints, from its prepared prompts to the end of its
// answer. It lives on the HTTP server's thread, where what the service says arrives through sinks
// that post.
//
// Promises: the status line goes out only when the service has accepted every prompt; each choice
// that the service began and did not end itself is given back to it, whatever happens to the
// client.
class Completion : public std::enable_shared_from_this<Completion> {
  public:
    Completion(ApiContext& context, std::shared_ptr<net::HttpExchange> exchange,
               PreparedCompletion prepared);
    ~Completion();

    void start();
    void on_tick(base::TimePoint now);

    // What the service says, by prompt; choice counts those of this prompt.
    void accepted(std::size_t prompt);
    void routed(std::size_t prompt, const core::Pipeline& pipeline, std::int32_t cached_tokens);
    void token(std::size_t prompt, std::int32_t choice, const core::ProducedToken& token);
    void scored(std::size_t prompt, const std::vector<core::ProducedToken>& tokens);
    void choice_finished(std::size_t prompt, std::int32_t choice, core::FinishReason reason);
    void finished(std::size_t prompt, core::FinishReason reason, const std::string& error);
    void rejected(std::size_t prompt, const core::RejectRequest& rejection);
    // The client is gone.
    void gone();
    // The server shuts down: an answer that is not whole ends with an error that says so.
    void shut_down();

  private:
    struct Choice;
    // One request to the service, for made() choices.
    struct Prompt {
        core::RequestId id;
        std::size_t first = 0;  // of its choices
        bool accepted = false;
        // The prompt's log-probabilities, for an answer that is sent whole.
        std::shared_ptr<std::vector<core::ProducedToken>> scored;
    };

    void submit(std::vector<Token> tokens, std::size_t index);
    void add_choices(std::size_t prompt);
    bool runs(const Prompt& prompt) const;  // whether one of its choices runs
    std::size_t made() const { return static_cast<std::size_t>(request_.made()); }
    bool is_stop_token(Token token) const;
    void open_stream();
    void emit(std::string_view events);
    void show(std::size_t index, const std::vector<text::OutputPart>& parts);
    void note_token(Choice& choice);
    void complete_choice(std::size_t index, core::FinishReason reason);
    void record_end(Choice& choice, Outcome outcome);
    void complete_answer();
    std::vector<WholeChoice> take_choices();
    void write_whole_answer();
    void send_whole_answer(std::shared_ptr<const std::string> body);
    // Counts what is kept part of the share that the answer takes until it may be sent. False if
    // that is too much; then the answer has ended with an error that says so.
    bool keep(std::int64_t bytes);
    void fail(const ApiError& error);
    // Ends in the service the choices that still run.
    void end_choices(core::FinishReason reason, Outcome outcome);
    void leave();
    base::TimePoint now() const { return context_.options.clock(); }
    Usage usage() const;

    ApiContext& context_;
    std::shared_ptr<net::HttpExchange> exchange_;
    PreparedCompletion prepared_;
    const CompletionRequest& request_;  // of prepared_
    const ModelEntry& model_;
    RequestMetrics& metrics_;
    spec::SamplingParams sampling_;  // with the seed
    std::vector<Token> stop_tokens_;
    std::shared_ptr<const AnswerText> answer_;
    std::vector<Prompt> prompts_;
    std::vector<std::unique_ptr<Choice>> choices_;  // made() for each prompt
    std::string pending_;  // events that came before all prompts were accepted
    base::TimePoint arrived_;
    base::TimePoint last_write_;
    std::int64_t prompt_tokens_ = 0;
    std::int64_t prepared_bytes_ = 0;  // part of the share that was taken before the answer
    std::int64_t kept_bytes_ = 0;      // of the answer
    bool opened_ = false;
    bool over_ = false;
};

}  // namespace helix::api
