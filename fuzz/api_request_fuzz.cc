// rooms: api
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/completion_request.h"
#include "api/json_text.h"

// Any body gives, without a crash, an error that is itself valid JSON with a message, or a request
// within the limits that the cluster relies on.

namespace {

using namespace helix::api;

void require(bool condition) {
    if (!condition) std::abort();
}

void check_error(const ApiError& error) {
    require(error.status == 400 && !error.message.empty());
    const auto json = nlohmann::json::parse(error_json(error), nullptr, false);
    require(json.is_object() && json["error"]["message"].is_string());
}

void check_accepted(const CompletionRequest& request, const RequestLimits& limits) {
    require(request.max_tokens >= 0 && request.min_tokens >= 0);
    require(request.sampling.temperature >= 0 && request.sampling.n_logprobs <= 20);
    for (const auto& [token, bias] : request.sampling.logit_bias) {
        require(token >= 0 && token < limits.vocab_size && bias >= -100 && bias <= 100);
    }
    for (const Token token : request.stop_token_ids)
        require(token >= 0 && token < limits.vocab_size);
    for (const std::string& stop : request.stop) require(!stop.empty());
    for (const PlainPrompt& prompt : request.prompts) {
        if (const auto* tokens = std::get_if<std::vector<Token>>(&prompt)) {
            for (const Token token : *tokens) require(token >= 0 && token < limits.vocab_size);
        }
    }
    if (request.endpoint == Endpoint::chat) {
        require(!request.messages.empty());
        for (const auto& message : request.messages) {
            require(message["role"].is_string());
            require(message["content"].is_string() || message["content"].is_null());
        }
    } else {
        require(!request.prompts.empty());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
    RequestLimits limits;
    limits.vocab_size = 1000;
    limits.context_length = 2048;
    CompletionRequest request;
    const Endpoint endpoint = data[0] % 2 == 0 ? Endpoint::chat : Endpoint::completions;
    nlohmann::ordered_json object;
    auto error = parse_json_object(body, object);
    if (!error) error = read_completion_request(endpoint, object, limits, request);
    if (error) {
        check_error(*error);
    } else {
        check_accepted(request, limits);
    }
    std::string text;
    append_json_string(text, body);
    require(nlohmann::json::parse(text, nullptr, false).is_string());
    return 0;
}
