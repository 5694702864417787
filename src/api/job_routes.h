#pragma once

#include <memory>
#include <string_view>

#include "api/context.h"
#include "net/http_server.h"

// /v1/files and /v1/batches, as OpenAI has them.

namespace helix::api {

// path has no /v1 before it.
bool is_job_path(std::string_view path);
// Answers one request whose key was checked.
void route_job(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
               std::string_view path);

}  // namespace helix::api
