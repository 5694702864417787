#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/guard.h"
#include "api/limits.h"
#include "api/model_registry.h"
#include "api/pairing.h"
#include "api/tracing/tracer.h"
#include "api/what_if.h"
#include "base/result.h"
#include "base/time.h"
#include "base/version.h"
#include "net/http_server.h"
#include "store/place.h"

// The OpenAI-compatible HTTP interface in front of the services of its models. What it answers:
// api/routes.cc.

namespace helix::api {

// Pages that the program around the API makes; one without a function is not there. plan and
// plan_svg are called on any thread, several times at once.
struct ExtraPages {
    std::function<std::string()> join;      // JSON: where workers connect
    std::function<std::string()> plan;      // text: the placement in force, drawn
    std::function<std::string()> plan_svg;  // the same as a picture
    WhatIfFunction what_if;                 // called on a thread of its own
    std::function<std::string()> joining;   // JSON: how a machine is added
    // Makes a key for a worker of this name, and lets it join. JSON with the key.
    std::function<base::Result<std::string>(const std::string& name)> worker_key;
    std::shared_ptr<PairingDesk> pairing;  // null where workers join without keys
};

// Files and batches (docs/api.md).
struct JobOptions {
    store::Place place;  // where they are kept; a folder is made when it is not there
    std::size_t max_file_bytes = std::size_t{200} << 20U;
    std::int64_t max_kept_bytes = std::int64_t{10} << 30U;  // of all files, batches and results
    std::int64_t max_lines = 50'000;                        // of one batch
    std::int32_t max_in_flight = 64;  // lines of all batches that run or wait for workers at once
};

struct ApiOptions {
    net::HttpServerOptions http;
    std::vector<std::string> api_keys;  // and those of access; none at all = open to all
    AccessOptions access;
    std::uint64_t seed = 0;  // for ids, and for requests that bring no seed
    base::Duration ping_interval = base::from_seconds(15);
    std::size_t recent_requests = 256;
    std::string version = base::kVersion;
    ExtraPages pages;
    // At a gateway: where its coordinator has the page, the cluster and what is kept for clients,
    // like "http://10.0.0.7:8080"; "" = not known now. Empty: all that is here.
    std::function<std::string()> coordinator_url;
    std::optional<JobOptions> jobs;         // absent: no files, no batches
    std::optional<TracingOptions> tracing;  // absent: no traces
    ServerLimits limits;
    RequestLimits request_limits;  // those of the request's model are filled in
    // Both clocks are asked on several threads.
    std::function<base::TimePoint()> clock;   // empty = the steady clock
    std::function<std::int64_t()> unix_time;  // seconds; empty = the system's clock
};

class ApiServer {
  public:
    // models has at least one entry.
    static base::Result<std::unique_ptr<ApiServer>> start(ApiOptions options, ModelRegistry models);
    ~ApiServer();  // stop(0)
    ApiServer(const ApiServer&) = delete;
    ApiServer& operator=(const ApiServer&) = delete;

    std::uint16_t port() const;
    // Any thread. From now on new completions are answered 503 and /health/ready says 503; those
    // under way go on.
    void drain();
    // Lets answers under way finish for up to grace; the rest end with an error, and in the
    // service. Must not be called from one of the service's callbacks.
    void stop(base::Duration grace = {});

    struct Impl;

  private:
    explicit ApiServer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::api
