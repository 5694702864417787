#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lab/load/api_client.h"
#include "lab/load/request_plan.h"

// Puts a load on a server and writes down what happens when.

namespace helix::lab {

// Open loop: requests are sent when they are due, whatever became of the ones before. Closed loop
// (concurrency above 0): so many clients, each sends its next request when its last one has ended.
struct LoadPlan {
    std::vector<LoadRequest> arrivals;  // open loop, in order

    std::int32_t concurrency = 0;
    std::optional<LengthSource> lengths;  // closed loop
    std::size_t count = 0;                // closed loop: no more requests than these,
    double duration_s = 0;                // and none is sent after so long

    std::uint64_t seed = 1;  // of prompts and, in a closed loop, of lengths
};

// Times in seconds since the load's start; -1 = did not happen.
struct RequestRecord {
    double scheduled_s = 0;  // when it was due
    double sent_s = 0;
    double first_s = -1;  // its first token came
    double last_s = -1;   // its last token came
    double end_s = -1;
    LoadRequest asked;
    std::int32_t prompt_tokens = 0;  // as the server counted them; 0 = it did not say
    std::int32_t output_tokens = 0;  // received
    std::optional<StreamFailure> failure;
};

// One token: when it came, and how long after the one before it; kFirst for the first of an answer
// and what came together with it. Later tokens that come together share the time since those
// before.
struct TokenArrival {
    static constexpr float kFirst = -1;
    float at_s = 0;
    float gap_s = kFirst;
};

struct LoadResult {
    std::vector<RequestRecord> requests;
    std::vector<TokenArrival> tokens;  // in order of arrival
    double seconds = 0;                // from the start until all was over
    bool interrupted = false;
};

struct LoadProgress {
    double seconds = 0;
    std::size_t sent = 0;
    std::size_t open = 0;
    std::size_t failed = 0;
    std::size_t tokens = 0;
};

// Returns when every request has ended. When *interrupted becomes true (wake the client then) what
// is still open counts as failed, "unfinished". on_progress is called some times a second.
LoadResult run_load(ApiClient& client, const LoadPlan& plan, const std::atomic<bool>& interrupted,
                    const std::function<void(const LoadProgress&)>& on_progress);

}  // namespace helix::lab
