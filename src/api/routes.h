#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "api/context.h"
#include "api/handlers.h"
#include "net/http_server.h"

// The one table of all that the API answers: method and path, and the handler that they lead to.

namespace helix::api {

// Of a path that is there, but not with the method that was used.
enum class OtherMethods {
    name_the_one,  // 405, which names the method that it takes
    refuse,        // 405
    hide           // 404, as if nothing was there
};

struct Route {
    std::string_view method;  // HEAD goes where GET does
    // Without the leading /v1 that is accepted before each. "{word}" stands for any one part of a
    // path that is not empty, "{rest...}" at the end for all that follows, also for nothing.
    std::string_view path;
    handle::Handler* handler;
    OtherMethods others = OtherMethods::name_the_one;
    bool counted = false;  // it computes, so it counts towards the limits of its key
};
std::span<const Route> all_routes();

// Answers one request, or begins to, if the guard lets it pass.
void route(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);
// The same for a request that is ours: a completion, without asking for a key.
void route_trusted(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);

}  // namespace helix::api
