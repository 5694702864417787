#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "api/error.h"

// The bodies of Ollama's /api/chat and /api/generate.

namespace helix::api {

// What a body of Ollama's becomes.
enum class OllamaAsk {
    chat,     // a body of /v1/chat/completions
    plain,    // one of /v1/completions: the prompt is raw
    nothing,  // nothing: the client only wants the model to be there
};

// Writes a body of /api/chat, or one of /api/generate, in OpenAI's form; takes its large parts.
// Unknown fields and options are ignored, keep_alive and num_ctx too. The error names Ollama's
// field.
std::optional<ApiError> openai_body_of_ollama_chat(nlohmann::ordered_json& body,
                                                   nlohmann::ordered_json& made, OllamaAsk& ask);
std::optional<ApiError> openai_body_of_generate(nlohmann::ordered_json& body,
                                                nlohmann::ordered_json& made, OllamaAsk& ask);
// An error about the body that was made, with Ollama's names of its fields.
ApiError in_ollama_words(ApiError error);

}  // namespace helix::api
