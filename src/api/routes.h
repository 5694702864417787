#pragma once

#include <memory>

#include "api/context.h"
#include "net/http_server.h"

namespace helix::api {

// Answers one request, or begins to, if the guard lets it pass.
void route(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);
// The same for a request that is ours: a completion, without asking for a key.
void route_trusted(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);

}  // namespace helix::api
