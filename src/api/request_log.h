#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/coordinator/coordinator.h"

// The last requests and what became of them, for the dashboard and for people who debug.

namespace helix::api {

class Service;

// A request as its service knows it.
struct ServiceRequest {
    Service* service = nullptr;
    core::RequestId id;
    bool operator==(const ServiceRequest&) const = default;
};

struct RequestRecord {
    std::string id;
    ServiceRequest request;  // other choices may share it
    std::size_t choice = 0;
    std::string endpoint = "chat";  // or "completions", "embeddings"
    bool stream = false;
    std::int64_t created = 0;      // Unix seconds
    std::string state = "queued";  // queued, running, stop, length, abort, error, rejected
    std::string reason;            // of an abort; "" = none
    std::int64_t prompt_tokens = 0;
    std::int64_t cached_tokens = 0;  // of the prompt, from the prefix cache
    std::int64_t completion_tokens = 0;
    double queue_s = -1;       // until it had a pipeline; -1 = not yet
    double ttft_s = -1;        // until the first token; -1 = not yet
    double tokens_per_s = -1;  // after the first token; -1 = fewer than two tokens
    double ended_s = -1;       // until its end; -1 = it goes on
    core::Pipeline pipeline;   // of the last attempt
    // Each time that it was given a pipeline.
    struct Attempt {
        double at_s = 0;  // after its arrival
        core::RouteReason reason = core::RouteReason::first;
        core::Pipeline pipeline;
    };
    static constexpr std::size_t kMostAttempts = 16;
    std::vector<Attempt> attempts;
    std::size_t attempts_left_out = 0;  // after those
};

class RequestLog {
  public:
    explicit RequestLog(std::size_t capacity) : capacity_(capacity) {}
    // Adds a record, which the caller fills in.
    std::shared_ptr<RequestRecord> add();
    // All records, newest first.
    nlohmann::json to_json() const;
    // The same by "ID/CHOICE", for those who follow what changes.
    nlohmann::json to_object() const;
    // The requests behind an id; none if the id is not, or no longer, in the log.
    std::vector<ServiceRequest> find(std::string_view id) const;

  private:
    std::size_t capacity_;
    std::deque<std::shared_ptr<RequestRecord>> records_;
};

}  // namespace helix::api
