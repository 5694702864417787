#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_server.h"
#include "api/completion_request.h"
#include "api/request_budget.h"

// From a completion's body to all that its service needs: the long part of a request.

namespace helix::api {

struct PreparedCompletion {
    CompletionRequest request;  // without what is in the prompts: messages, tools, texts
    std::vector<std::vector<Token>> prompts;
    // By prompt, for all its choices; none unless it is to be echoed.
    std::vector<std::shared_ptr<const std::string>> echoes;
    std::vector<Token> prediction;
    std::shared_ptr<const TextOutputs> outputs;
    // At last as many bytes as are kept: this, and what the choices take.
    std::shared_ptr<RequestBudget::Share> share;
};

// Any thread. share holds the bytes of body; what reading it takes is added while it takes it.
// dropped: nobody waits any more; then it may end early, with some error.
std::optional<ApiError> prepare_completion(const ApiOptions& options, const TextCodec& codec,
                                           Endpoint endpoint, std::string body,
                                           const std::atomic<bool>& dropped,
                                           PreparedCompletion& prepared);

RequestLimits request_limits(const ApiOptions& options, const TextCodec& codec);

// What parsing text as JSON takes, in bytes; or the error that it has too many values.
std::optional<ApiError> measure_json(std::string_view text, const RequestLimits& limits,
                                     std::int64_t& bytes);

}  // namespace helix::api
