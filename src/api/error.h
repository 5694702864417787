#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "core/coordinator/coordinator.h"
#include "net/http_message.h"

namespace helix::api {

// An error in the form of the OpenAI API. param names the field that is wrong; "" and code ""
// become null.
struct ApiError {
    int status = 400;
    std::string message;
    std::string type = "invalid_request_error";
    std::string param;
    std::string code;
    std::int32_t retry_after_s = 0;  // 0 = no Retry-After header
};

ApiError bad_field(std::string param, std::string message);
ApiError model_not_found(std::string_view model);
ApiError unavailable(std::string message, std::int32_t retry_after_s);
// An error that does not say what went wrong: that is for the log.
ApiError internal_error();
// The error of a request that killed whatever ran it, again and again, and is not worth another
// try.
ApiError kills_workers_error(std::string message);
ApiError kills_server_error();
bool kills_workers(std::string_view error_body);  // one of these two
ApiError from_error(const base::Error& error);
// The same for what the store says about a file's contents. If they are damaged it names them by
// the id that the client knows, and the client is told. While the database is away, or another
// coordinator has taken it over, the status is 503.
ApiError from_store(const base::Error& error);
ApiError from_rejection(const core::RejectRequest& rejection);
// The error for what the HTTP server itself refuses.
ApiError from_status(int status, std::string_view message);

// The error's message, cut where it quotes very much of what a client sent.
std::string short_message(const ApiError& error);
// OpenAI's body {"error":{"message","type","param","code"}}, and an answer with it. Those of other
// protocols: api/protocols/protocol.h.
std::string error_json(const ApiError& error);
net::HttpResponse error_response(const ApiError& error);
// An answer with status 200. Names that users gave need not be UTF-8 and are put right here.
net::HttpResponse json_response(const nlohmann::json& body);

}  // namespace helix::api
