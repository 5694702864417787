#include "api/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "api/json_text.h"
#include "base/log.h"

namespace helix::api {
namespace {

// What a client sent may be quoted in a message; this much of one tells enough.
constexpr std::size_t kMaxMessageBytes = 2048;

void append_or_null(std::string& out, std::string_view text) {
    if (text.empty()) {
        out += "null";
    } else {
        append_json_string(out, text);
    }
}

}  // namespace

ApiError bad_field(std::string param, std::string message) {
    ApiError error;
    error.message = std::move(message);
    error.param = std::move(param);
    return error;
}

ApiError model_not_found(std::string_view model) {
    ApiError error;
    error.status = 404;
    error.message = "The model '" + std::string(model) + "' does not exist.";
    error.param = "model";
    error.code = "model_not_found";
    return error;
}

ApiError unavailable(std::string message, std::int32_t retry_after_s) {
    return {503, std::move(message), "unavailable_error", "", "overloaded", retry_after_s};
}

ApiError internal_error() {
    return {500,
            "The server could not do this; its log says why.",
            "server_error",
            "",
            "internal_error",
            0};
}

ApiError from_error(const base::Error& error) {
    using base::Errc;
    switch (error.code) {
        case Errc::invalid:
            return bad_field("", error.message);
        case Errc::not_found:
            return {404, error.message, "invalid_request_error", "", "not_found", 0};
        case Errc::too_large:
            return {413, error.message, "invalid_request_error", "", "too_large", 0};
        case Errc::denied:
            return {403, error.message, "invalid_request_error", "", "denied", 0};
        case Errc::overloaded:
            return {429, error.message, "rate_limit_error", "", "rate_limit_exceeded", 1};
        case Errc::unavailable:
            return unavailable(error.message, 1);
        case Errc::io:
        case Errc::internal:
            break;
    }
    // Such messages name files and what a library said, which is nothing for clients of the
    // network.
    LOG_ERROR("{}", error.message);
    return internal_error();
}

constexpr std::int32_t kDatabaseAgainAfter = 5;  // seconds

ApiError from_store(const base::Error& error) {
    // Where the database is is nothing for clients.
    if (error.code == base::Errc::unavailable) {
        LOG_DEBUG("{}", error.message);
        return unavailable(
            "Files, batches and kept responses cannot be had now: the database that they are in "
            "does not answer.",
            kDatabaseAgainAfter);
    }
    if (error.code == base::Errc::denied) {
        LOG_DEBUG("{}", error.message);
        return unavailable(
            "Files, batches and kept responses are with another coordinator, which has taken over.",
            kDatabaseAgainAfter);
    }
    if (error.code != base::Errc::internal) return from_error(error);
    LOG_ERROR("{}", error.message);
    return {500, error.message, "server_error", "", "damaged", 0};
}

ApiError from_rejection(const core::RejectRequest& rejection) {
    switch (rejection.reason) {
        case core::RejectReason::queue_full:
            return {429, rejection.message,     "rate_limit_error",
                    "",  "rate_limit_exceeded", std::max(1, rejection.retry_after_s)};
        case core::RejectReason::unavailable:
            return unavailable(rejection.message, std::max(1, rejection.retry_after_s));
        case core::RejectReason::too_long: {
            ApiError error = bad_field("messages", rejection.message);
            error.code = "context_length_exceeded";
            return error;
        }
        case core::RejectReason::never_fits: {
            ApiError error = bad_field("", rejection.message);
            error.code = "never_fits";
            return error;
        }
    }
    LOG_ERROR("{}", rejection.message);
    return internal_error();
}

ApiError from_status(int status, std::string_view message) {
    ApiError error;
    error.status = status;
    error.message = message;
    if (status == 413) {
        error.message = fmt::format("The request body is too large: {}.", message);
        error.code = "request_too_large";
    } else if (status == 429) {
        error = from_error({base::Errc::overloaded, error.message});
    } else if (status == 503) {
        error = unavailable(error.message, 1);
    } else if (status == 507) {
        error.type = "server_error";
        error.code = "storage_full";
    } else if (status >= 500) {
        LOG_ERROR("{}", message);
        error = internal_error();
    }
    return error;
}

namespace {
constexpr std::string_view kKillsCode = "request_kills_workers";
}  // namespace

ApiError kills_workers_error(std::string message) {
    return {500, std::move(message), "server_error", "", std::string(kKillsCode), 0};
}

ApiError kills_server_error() {
    return kills_workers_error(
        "The server died three times while it ran this request, the last time with no other of a "
        "batch beside it: it is not tried again.");
}

bool kills_workers(std::string_view error_body) {
    return error_body.find(fmt::format("\"code\":\"{}\"", kKillsCode)) != std::string_view::npos;
}

std::string short_message(const ApiError& error) {
    if (error.message.size() <= kMaxMessageBytes) return error.message;
    return error.message.substr(0, kMaxMessageBytes) + "...";
}

std::string error_json(const ApiError& error) {
    std::string out = "{\"error\":{\"message\":";
    append_json_string(out, short_message(error));
    out += ",\"type\":";
    append_json_string(out, error.type);
    out += ",\"param\":";
    append_or_null(out, error.param);
    out += ",\"code\":";
    append_or_null(out, error.code);
    out += "}}";
    return out;
}

net::HttpResponse json_response(const nlohmann::json& body) {
    net::HttpResponse response;
    response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return response;
}

net::HttpResponse error_response(const ApiError& error) {
    net::HttpResponse response;
    response.status = error.status;
    response.body = error_json(error);
    if (error.retry_after_s > 0) {
        response.headers.emplace_back("retry-after", std::to_string(error.retry_after_s));
    }
    if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
    return response;
}

}  // namespace helix::api
