#pragma once

#include <cstdint>
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
    handle::Handler* handler = nullptr;
    std::string_view about;           // for whoever reads the OpenAPI document
    std::uint16_t body = 0;           // a bit of namespace body; 0: no JSON is sent
    std::string_view prefix = "/v1";  // of the path where it is shown
    OtherMethods others = OtherMethods::name_the_one;
    bool counted = false;  // it computes, so it counts towards the limits of its key
    bool endless = false;  // it is answered with events, until the client leaves

    constexpr Route follows() const {
        Route changed = *this;
        changed.endless = true;
        return changed;
    }
    constexpr Route counts() const {
        Route changed = *this;
        changed.counted = true;
        return changed;
    }
    constexpr Route unversioned() const {
        Route changed = *this;
        changed.prefix = {};
        return changed;
    }
    constexpr Route hides_others() const {
        Route changed = *this;
        changed.others = OtherMethods::hide;
        return changed;
    }
    constexpr Route refuses_others() const {
        Route changed = *this;
        changed.others = OtherMethods::refuse;
        return changed;
    }
};
std::span<const Route> all_routes();

// Answers one request, or begins to, if the guard lets it pass.
void route(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);
// The same for a request that is ours: a completion, without asking for a key.
void route_trusted(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange);

}  // namespace helix::api
