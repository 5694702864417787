#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/context.h"
#include "net/http_server.h"

namespace helix::api {

// Answers one request, or begins to.
void route(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);
// The same for a request that is ours: a completion, without asking for a key.
void route_trusted(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);

// Does it bring one of these keys? Always, if there are none.
bool authorised(const std::vector<std::string>& keys, const net::HttpRequest& request);

}  // namespace helix::api
