#include "api/protocols/read_request.h"

#include "api/protocols/anthropic_request.h"
#include "api/protocols/ollama_request.h"
#include "api/protocols/responses_request.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;
using MaybeError = std::optional<ApiError>;

MaybeError read_messages(Endpoint endpoint, Json& body, const RequestLimits& limits,
                         CompletionRequest& request) {
    Json chat;
    const bool asks_answer = endpoint == Endpoint::messages;
    if (auto error = chat_body_of_messages(body, asks_answer, chat)) return error;
    auto error = read_completion_request(Endpoint::chat, chat, limits, request);
    request.endpoint = endpoint;
    if (error) return in_anthropic_words(*std::move(error));
    return {};
}

MaybeError read_ollama(Endpoint endpoint, Json& body, const RequestLimits& limits,
                       CompletionRequest& request) {
    Json made;
    OllamaAsk ask = OllamaAsk::chat;
    auto error = endpoint == Endpoint::ollama_chat ? openai_body_of_ollama_chat(body, made, ask)
                                                   : openai_body_of_generate(body, made, ask);
    if (error) return error;
    request.nothing_asked = ask == OllamaAsk::nothing;
    if (request.nothing_asked) {
        request.endpoint = endpoint;
        request.model = model_named_in(made);
        return {};
    }
    const bool plain = ask == OllamaAsk::plain;
    error = read_completion_request(plain ? Endpoint::completions : Endpoint::chat, made, limits,
                                    request);
    request.endpoint = endpoint;
    if (error) return in_ollama_words(*std::move(error));
    return {};
}

MaybeError read_responses(Json& body, const RequestLimits& limits, CompletionRequest& request) {
    ResponsesAsk ask;
    if (auto error = read_responses_body(body, ask)) return error;
    auto error = read_completion_request(Endpoint::chat, ask.chat, limits, request);
    request.endpoint = Endpoint::responses;
    if (error) return in_responses_words(*std::move(error));
    request.settings = std::move(ask.settings);
    return {};
}

}  // namespace

MaybeError read_request(Endpoint endpoint, Json& body, const RequestLimits& limits,
                        CompletionRequest& request) {
    switch (endpoint) {
        case Endpoint::chat:
        case Endpoint::completions:
            return read_completion_request(endpoint, body, limits, request);
        case Endpoint::messages:
        case Endpoint::message_tokens:
            return read_messages(endpoint, body, limits, request);
        case Endpoint::ollama_chat:
        case Endpoint::ollama_generate:
            return read_ollama(endpoint, body, limits, request);
        case Endpoint::responses:
            break;
    }
    return read_responses(body, limits, request);
}

}  // namespace helix::api
