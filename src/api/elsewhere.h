#pragma once

#include <memory>
#include <string_view>

#include "api/context.h"
#include "net/http_server.h"

namespace helix::api {

// Whether a gateway leaves this path, which has no "/v1" before it, to its coordinator
// (ApiOptions::coordinator_url): the page, the cluster, and what is kept for clients.
bool is_elsewhere(std::string_view path);
// Sends whoever looks at something there, and tells all others where it is.
void point_elsewhere(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);

}  // namespace helix::api
