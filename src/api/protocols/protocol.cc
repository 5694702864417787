#include "api/protocols/protocol.h"

#include "api/guard.h"
#include "api/json_text.h"

namespace helix::api {
namespace {

std::string_view anthropic_error_type(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 413:
            return "request_too_large";
        case 429:
            return "rate_limit_error";
        case 503:
            return "overloaded_error";
        default:
            return status < 500 ? "invalid_request_error" : "api_error";
    }
}

}  // namespace

Protocol protocol_of(std::string_view path) {
    path = without_version(path);
    if (path == "/messages" || path.starts_with("/messages/")) return Protocol::anthropic;
    return path.starts_with("/api/") ? Protocol::ollama : Protocol::openai;
}

net::HttpHeaders extra_headers(Protocol protocol, std::string_view request_id) {
    if (protocol != Protocol::anthropic) return {};
    return {{"request-id", std::string(request_id)}};
}

std::string anthropic_error_json(const ApiError& error, std::string_view request_id) {
    std::string out = R"({"type":"error","error":{"type":)";
    append_json_string(out, anthropic_error_type(error.status));
    out += ",\"message\":";
    append_json_string(out, short_message(error));
    out += "},\"request_id\":";
    append_json_string(out, request_id);
    out += '}';
    return out;
}

std::string ollama_error_json(const ApiError& error) {
    std::string out = "{\"error\":";
    append_json_string(out, short_message(error));
    return out + '}';
}

net::HttpResponse error_response(Protocol protocol, const ApiError& error,
                                 std::string_view request_id) {
    net::HttpResponse response = error_response(error);
    switch (protocol) {
        case Protocol::openai:
            break;
        case Protocol::anthropic:
            response.body = anthropic_error_json(error, request_id);
            break;
        case Protocol::ollama:
            response.body = ollama_error_json(error);
            break;
    }
    return response;
}

net::HttpResponse error_response(const net::HttpRequest& request, const ApiError& error) {
    return error_response(protocol_of(request.path), error, request.request_id);
}

}  // namespace helix::api
