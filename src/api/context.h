#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <set>

#include "api/access_log.h"
#include "api/api_server.h"
#include "api/jobs.h"
#include "api/metrics.h"
#include "api/request_log.h"
#include "base/random.h"
#include "net/http_server.h"

namespace helix::api {

class Completion;

// What all requests of one server share. Used on the HTTP server's thread only, but for what does
// not change, the service and draining.
struct ApiContext {
    ApiContext(ApiOptions o, Service& s, std::unique_ptr<const TextCodec> c,
               std::shared_ptr<Guard> g, std::unique_ptr<AccessLog> l)
        : options(std::move(o)),
          service(s),
          codec(std::move(c)),
          guard(std::move(g)),
          access_log(std::move(l)),
          metrics(options.model.context_length),
          log(options.recent_requests),
          random(options.seed) {}

    // Answers and counts.
    void respond(net::HttpExchange& exchange, const net::HttpResponse& response) {
        if (response.status >= 400) ++metrics.http_errors;
        exchange.respond(response);
    }

    bool serves(const std::string& model) const {
        const ModelInfo& served = options.model;
        return model == served.id || std::find(served.aliases.begin(), served.aliases.end(),
                                               model) != served.aliases.end();
    }

    ApiOptions options;
    Service& service;
    std::unique_ptr<const TextCodec> codec;
    std::shared_ptr<Guard> guard;
    std::unique_ptr<AccessLog> access_log;  // null without one
    Metrics metrics;
    RequestLog log;
    base::Random random;
    std::function<void(net::HttpServer::Task)> post;
    std::function<std::size_t()> connections;
    std::set<std::shared_ptr<Completion>> active;
    std::atomic<bool> draining{false};
    std::unique_ptr<Jobs> jobs;  // null without files and batches
};

}  // namespace helix::api
