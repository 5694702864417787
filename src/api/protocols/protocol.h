#pragma once

#include <string>
#include <string_view>

#include "api/error.h"
#include "net/http_message.h"

// The families of clients that the API serves, and how each of them is told of an error.

namespace helix::api {

enum class Protocol { openai, anthropic, ollama };

// The protocol of the clients that ask for this path, with or without /v1 before it. What no other
// protocol has is OpenAI's.
Protocol protocol_of(std::string_view path);

// The headers that its clients look for in each answer, besides the usual ones.
net::HttpHeaders extra_headers(Protocol protocol, std::string_view request_id);

// {"type":"error","error":{"type","message"},"request_id"}.
std::string anthropic_error_json(const ApiError& error, std::string_view request_id);

// {"error":"message"}.
std::string ollama_error_json(const ApiError& error);

// The answer that tells the clients of a protocol of an error.
net::HttpResponse error_response(Protocol protocol, const ApiError& error,
                                 std::string_view request_id);
net::HttpResponse error_response(const net::HttpRequest& request, const ApiError& error);

}  // namespace helix::api
