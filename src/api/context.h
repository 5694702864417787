#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "api/access_log.h"
#include "api/active_answer.h"
#include "api/api_server.h"
#include "api/cluster_feed.h"
#include "api/heavy_work.h"
#include "api/history.h"
#include "api/jobs.h"
#include "api/key_quotas.h"
#include "api/metrics.h"
#include "api/model_sender.h"
#include "api/prepare_pool.h"
#include "api/protocols/protocol.h"
#include "api/request_budget.h"
#include "api/request_log.h"
#include "api/tracing/tracer.h"
#include "api/what_if.h"
#include "base/random.h"
#include "net/http_server.h"

namespace helix::api {

// The client that all lines of batches count as.
inline constexpr const char* kBatchClient = "batches";

// What all requests of one server share. Used on the HTTP server's thread only, but for what does
// not change (options, models), the models' services, draining, pool, budget and post.
struct ApiContext {
    ApiContext(ApiOptions o, ModelRegistry m, std::shared_ptr<Guard> g,
               std::unique_ptr<AccessLog> l)
        : options(std::move(o)),
          models(std::move(m)),
          guard(std::move(g)),
          access_log(std::move(l)),
          log(options.recent_requests),
          random(options.seed),
          budget(options.limits.max_requests, options.limits.max_request_bytes),
          pool(pool_options(options.limits)) {
        for (const ModelEntry& model : models.all()) {
            metrics.models.emplace_back(model.info.context_length);
        }
    }

    static PreparePool::Options pool_options(const ServerLimits& limits) {
        PreparePool::Options pool;
        pool.threads = limits.prepare_threads > 0
                           ? limits.prepare_threads
                           : prepare_threads(std::thread::hardware_concurrency());
        pool.max_waiting = limits.max_preparing;
        return pool;
    }

    // Answers the exchange and counts it.
    void respond(net::HttpExchange& exchange, const net::HttpResponse& response) {
        if (response.status >= 400) ++metrics.http_errors;
        exchange.respond(response);
    }

    // Answers the exchange with an error, as the clients of its path know it, and counts it.
    void refuse(net::HttpExchange& exchange, const ApiError& error) {
        respond(exchange, error_response(exchange.request(), error));
    }

    // What is counted of the requests to an entry of models.
    RequestMetrics& metrics_of(const ModelEntry& model) {
        return metrics.models[static_cast<std::size_t>(&model - models.all().data())];
    }
    // Whose workers the pages below /helix show.
    Service& cluster() const { return *models.first().service; }

    ApiOptions options;
    ModelRegistry models;
    std::shared_ptr<Guard> guard;
    std::unique_ptr<AccessLog> access_log;  // null without one
    Metrics metrics;
    KeyQuotas quotas;
    RequestLog log;
    base::Random random;
    std::function<void(net::HttpServer::Task)> post;
    std::function<std::size_t()> connections;
    std::set<std::shared_ptr<HeavyRequest>> heavy;   // with the pool
    std::set<std::shared_ptr<ActiveAnswer>> active;  // with the service
    ClusterFeed feed;
    History history;
    std::atomic<bool> draining{false};
    std::unique_ptr<Jobs> jobs;  // null without files and batches
    std::unique_ptr<ModelSender> sender;
    std::unique_ptr<Tracer> tracer;  // null without a collector
    RequestBudget budget;
    WhatIfDesk what_ifs;
    PreparePool pool;  // goes first: its threads use the rest
};

}  // namespace helix::api
