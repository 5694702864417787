#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "core/coordinator/coordinator.h"
#include "net/http_message.h"

namespace helix::api {

// An OpenAI error. param names the field that is wrong; "" and code "" become null.
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
// Says nothing of what it was: that is for the log.
ApiError internal_error();
// What was run again and again, and killed what ran it each time: it is not worth another try.
ApiError kills_workers_error(std::string message);
ApiError kills_server_error();
bool kills_workers(std::string_view error_body);  // one of these two
ApiError from_error(const base::Error& error);
// The same of what the store says about a file's contents: where they are damaged it names them by
// the id that the client knows, and the client is told.
ApiError from_store(const base::Error& error);
ApiError from_rejection(const core::RejectRequest& rejection);
// For what the HTTP server itself refuses.
ApiError from_status(int status, std::string_view message);

// {"error":{"message","type","param","code"}}
std::string error_json(const ApiError& error);
net::HttpResponse error_response(const ApiError& error);
// 200; what users named things need not be UTF-8, and is put right here.
net::HttpResponse json_response(const nlohmann::json& body);

}  // namespace helix::api
