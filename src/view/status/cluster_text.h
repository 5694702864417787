#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// A cluster that serves, as text for a terminal: what helix status prints once and helix top again
// and again.

namespace helix::view {

struct ShownWorker {
    std::string name;
    std::string type;
    std::string state;
    std::int32_t first_layer = 0;
    std::int32_t end_layer = 0;  // past the last
    std::int64_t kv_pages = 0;
    std::int64_t kv_pages_used = 0;
    std::int64_t requests = 0;
    double slowdown = 1;
    std::optional<double> planned_tokens_per_s;
    // Of the last seconds; none before there are two looks at it.
    std::optional<double> tokens_per_s;
    std::optional<double> batch_rows;
    std::optional<double> busy;  // a part of 1
};

struct ShownRequest {
    std::string id;
    std::string state;
    std::vector<std::string> workers;  // of its pipeline, in order
    std::int64_t prompt_tokens = 0;
    std::int64_t answer_tokens = 0;
    std::int64_t moves = 0;
    std::optional<double> ttft_s;
    std::optional<double> tokens_per_s;
};

struct ShownPlan {
    double tokens_per_s = 0;
    double gap = 0;  // a part of 1
    std::string limited_by;
};

struct ShownCluster {
    std::string server;
    std::string model;
    std::int32_t layers = 0;
    bool serving = false;
    std::int64_t running = 0;
    std::int64_t waiting = 0;
    std::int64_t finished = 0;
    std::int64_t failed = 0;
    std::optional<double> tokens_per_s;  // into pipelines, in the last seconds
    std::optional<ShownPlan> plan;
    std::vector<ShownWorker> workers;
    std::vector<ShownRequest> requests;  // newest first; helix status has none
};

// Names may have any bytes: control characters become '?'. With most_lines what does not fit is
// left out, requests first, and said to be.
std::string cluster_text(const ShownCluster& cluster, bool colours,
                         std::optional<std::size_t> most_lines = {});

}  // namespace helix::view
