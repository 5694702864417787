// Logging in and out on the page, and what the one who asks may do.

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/error.h"
#include "api/guard.h"
#include "api/handlers.h"

namespace helix::api::handle {
namespace {

net::HttpResponse standing_response(const Standing& standing, std::string cookie) {
    net::HttpResponse response = json_response({{"role", to_string(standing.role)},
                                                {"label", standing.label},
                                                {"session", standing.session},
                                                {"api_keys", standing.api_keys},
                                                {"admin_keys", standing.admin_keys}});
    response.headers.emplace_back("cache-control", "no-store");
    if (!cookie.empty()) response.headers.emplace_back("set-cookie", std::move(cookie));
    return response;
}

}  // namespace

void session(ApiContext& context, const Exchange& exchange, Words) {
    const net::HttpRequest& request = exchange->request();
    const base::TimePoint now = context.options.clock();
    context.respond(*exchange, standing_response(context.guard->standing(now, request),
                                                 context.guard->renewed_cookie(now, request)));
}

void log_in(ApiContext& context, const Exchange& exchange, Words) {
    nlohmann::ordered_json body;
    if (!read_small_body(context, exchange, body)) return;
    const auto key = body.find("key");
    if (key == body.end() || !key->is_string()) {
        return context.refuse(*exchange, bad_field("key", "'key': expected a key"));
    }
    Guard::LogIn in = context.guard->log_in(context.options.clock(), exchange->request(),
                                            key->get_ref<const std::string&>());
    if (in.refused) return context.refuse(*exchange, *in.refused);
    context.respond(*exchange, standing_response(in.standing, std::move(in.cookie)));
}

void log_out(ApiContext& context, const Exchange& exchange, Words) {
    net::HttpResponse response;
    response.status = 204;
    response.content_type.clear();
    response.headers = {{"set-cookie", context.guard->log_out(exchange->request())},
                        {"cache-control", "no-store"}};
    context.respond(*exchange, response);
}

}  // namespace helix::api::handle
