#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_client.h"

// An OpenAI API as a load generator sees it: requests of exact lengths, and when tokens come back.

namespace helix::lab {

enum class LoadEndpoint { completions, chat };

struct ApiTarget {
    std::string url = "http://127.0.0.1:8080";  // with or without /v1
    std::string model;                          // "" = the first that the server names
    std::string api_key;
    LoadEndpoint endpoint = LoadEndpoint::completions;
    std::chrono::milliseconds limit{600'000};  // for each request
};

// How a streamed answer went wrong. kind is one of few words, to count by.
struct StreamFailure {
    std::string kind;  // "connect", "http 429", "stream error", "cut off", "timeout"
    std::string message;
};

// What is heard of one streamed answer.
struct StreamEvents {
    using Clock = std::chrono::steady_clock;
    // tokens: of the answer so far, as the server counts them.
    std::function<void(Clock::time_point at, std::int32_t tokens)> on_tokens;
    // prompt_tokens: as the server counted them, 0 when it did not say.
    std::function<void(Clock::time_point at, std::int32_t prompt_tokens,
                       const std::optional<StreamFailure>& failure)>
        on_end;
};

class ApiClient {
  public:
    // Asks the server for its model and finds out how to write prompts of an exact length:
    // completions as token ids out of the model's own vocabulary, chats as words that are one token
    // each. Blocking. Errors say what the server answered.
    static base::Result<std::unique_ptr<ApiClient>> connect(const ApiTarget& target);

    net::HttpClient& http() { return *http_; }
    const std::string& url() const { return target_.url; }
    const std::string& model() const { return model_; }
    std::int32_t context_length() const { return context_length_; }  // 0 = it did not say
    std::int32_t hidden_size() const { return hidden_size_; }        // likewise
    // The shortest prompt that can be written: a chat template has tokens of its own.
    std::int32_t least_prompt() const { return own_tokens_ + 1; }

    // The body of an answer; blocking. Any other status than 200 is an error that shows it.
    base::Result<std::string> get(const std::string& path) { return ask("GET", path, ""); }

    // A streamed request whose answer has exactly output_tokens. Equal (seed, prompt_tokens) give
    // equal prompts.
    void stream(std::uint64_t seed, std::int32_t prompt_tokens, std::int32_t output_tokens,
                StreamEvents events);

  private:
    ApiClient(const ApiTarget& target, std::unique_ptr<net::HttpClient> http);
    base::Status choose_model();
    base::Status choose_ids();
    // The ids that POST /tokenize answers with; none where it has no such answer.
    std::vector<std::int32_t> tokenize(const std::string& body);
    base::Status choose_words();
    base::Status check_exact();
    base::Result<std::int32_t> count_prompt(const std::string& prompt_field);
    base::Result<std::string> ask(std::string method, std::string path, std::string body);
    std::string prompt_field(std::uint64_t seed, std::int32_t prompt_tokens) const;
    net::HttpCall call(std::string method, std::string path, std::string body) const;

    ApiTarget target_;
    std::unique_ptr<net::HttpClient> http_;
    std::string model_;
    std::int32_t context_length_ = 0;
    std::int32_t vocab_size_ = 0;     // 0 = unknown
    std::int32_t hidden_size_ = 0;    // likewise
    std::int32_t own_tokens_ = 0;     // of the chat template
    std::vector<std::int32_t> ids_;   // prompts are made of these; completions
    std::vector<std::string> words_;  // each one token; chat
};

}  // namespace helix::lab
