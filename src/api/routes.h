#pragma once

#include <memory>

#include "api/context.h"
#include "net/http_server.h"

namespace helix::api {

// Answers one request, or begins to.
void route(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);

}  // namespace helix::api
