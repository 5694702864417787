#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/error.h"

// The body of OpenAI's /v1/responses.

namespace helix::api {

// A body of /v1/responses, written anew.
struct ResponsesAsk {
    nlohmann::ordered_json chat;  // as a body of /v1/chat/completions
    // What the answer repeats of the request: members of a JSON object, without brackets, and
    // without store and previous_response_id.
    std::string settings;
};

// Takes the large parts of the body. Items of an earlier response must be in its input already.
// What would change the answer and is not there is refused; include, truncation and unknown fields
// are ignored. The error names the field.
std::optional<ApiError> read_responses_body(nlohmann::ordered_json& body, ResponsesAsk& ask);
// An error about the chat body, with the names of this body's fields.
ApiError in_responses_words(ApiError error);

}  // namespace helix::api
