#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_key.h"
#include "api/completion_request.h"
#include "api/model_registry.h"
#include "api/request_budget.h"
#include "text/stop_matcher.h"

// From a completion's body to all that its service needs: the long part of a request.

namespace helix::api {

struct PreparedCompletion {
    const ModelEntry* model = nullptr;  // the one that the request names
    CompletionRequest request;          // without what is in the prompts: messages, tools, texts
    std::vector<std::vector<Token>> prompts;
    // The texts to echo, by prompt, for all its choices; empty unless prompts are to be echoed.
    std::vector<std::shared_ptr<const std::string>> echoes;
    std::vector<Token> prediction;
    std::shared_ptr<const text::StopStrings> stops;
    // What is read out of the answers, by what, and whether they begin inside a thought.
    text::AnswerFormat reads;
    std::shared_ptr<const text::ToolSchemas> tools;  // null = none
    bool in_thought = false;
    std::optional<KeyedAnswer> keyed;  // absent: its request has no key
    // Gets the JSON of an answer of /v1/responses, when it is whole, on the thread that writes it;
    // empty = nobody wants it.
    std::function<void(const std::string& answer)> on_response;
    // In the end it holds as many bytes as are kept: this, and what the choices take.
    std::shared_ptr<RequestBudget::Share> share;
};

// Any thread. share holds the bytes of body; what reading takes is added while it is taken. Once
// dropped is true nobody waits any more, and it may end early with some error.
std::optional<ApiError> prepare_completion(const RequestLimits& limits, const ModelRegistry& models,
                                           Endpoint endpoint, std::string body,
                                           const std::atomic<bool>& dropped,
                                           PreparedCompletion& prepared);

// Parses a body within its request's share of memory.
std::optional<ApiError> read_body(const RequestLimits& limits, std::string_view body,
                                  RequestBudget::Share& share, nlohmann::ordered_json& object);

// Computes how many bytes parsing text as JSON takes, or returns the error that it has too many
// values.
std::optional<ApiError> measure_json(std::string_view text, const RequestLimits& limits,
                                     std::int64_t& bytes);

}  // namespace helix::api
