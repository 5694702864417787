#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "api/error.h"

// The bodies of Anthropic's /v1/messages and /v1/messages/count_tokens.

namespace helix::api {

// Writes a body of /v1/messages as one of /v1/chat/completions, of which it takes the large parts.
// What is ignored: unknown fields, cache_control, is_error, thinking that was redacted, and a first
// block of system with billing data, which would differ in each request. asks_answer: max_tokens
// must be there. The error names Anthropic's field.
std::optional<ApiError> chat_body_of_messages(nlohmann::ordered_json& body, bool asks_answer,
                                              nlohmann::ordered_json& chat);
// A prompt and answer that are longer than the context, all in tokens. Agents read out of the words
// whether to shorten their history or to ask for less.
ApiError anthropic_too_long(std::int64_t context, std::int64_t prompt, std::int64_t answer);
// An error about the chat body, with Anthropic's names of its fields.
ApiError in_anthropic_words(ApiError error);

}  // namespace helix::api
