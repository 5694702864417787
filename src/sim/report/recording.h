#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/report/distribution.h"
#include "spec/layer_range.h"

// What a Recorder has seen of a run, ready to be drawn. Times are seconds of the world's clock.

namespace helix::sim {

// One value for each bucket of the time axis of its recording.
using Series = std::vector<double>;

struct NodeRecord {
    std::string name;
    std::string type;
    std::string region;
    spec::LayerRange layers;
    double kv_capacity = 0;  // 0 = unknown
    // Inside the window.
    double busy = 0;  // share of time
    double decode_tokens_per_s = 0;
    double prompt_tokens_per_s = 0;
    double mean_decodes = 0;  // in a batch that has any
    std::uint64_t batches = 0;
    double kv_mean = 0;  // as shares of kv_capacity
    double kv_peak = 0;
    std::vector<double> layer_tokens_per_s;  // through each layer of the model
    // Over the whole run, as shares.
    Series busy_over_time;
    Series kv_over_time;  // greatest in each bucket
};

struct LinkRecord {
    std::int32_t from = 0;
    std::int32_t to = 0;
    double bytes_per_s = 0;  // capacity; 0 = unknown
    // Inside the window.
    double busy = 0;     // share of time
    double busiest = 0;  // of the buckets of busy_over_time
    double carried_bytes = 0;
    std::uint64_t transfers = 0;
    double mean_wait_s = 0;
    double most_wait_s = 0;
    Series busy_over_time;  // over the whole run, on link_bucket_s
};

// A stay somewhere: a batch on a node, or a journey to it (from >= spec::kCoordinator).
struct TimelineSlice {
    double begin_s = 0;
    double end_s = 0;
    std::int32_t node = 0;
    spec::LayerRange layers{};  // empty: on the way to node
    std::int32_t tokens = 0;
};

struct Timeline {
    std::uint64_t request = 0;
    std::int32_t prompt_tokens = 0;
    std::int32_t output_tokens = 0;  // as seen
    double created_s = 0;
    double admitted_s = -1;  // the first time; these are -1 where it has not happened
    double first_token_s = -1;
    double ended_s = -1;
    bool rejected = false;
    std::int32_t preemptions = 0;
    std::vector<double> token_s;  // of the first tokens
    std::vector<TimelineSlice> slices;
    bool complete = true;  // false: later slices were left out
};

struct Recording {
    std::vector<NodeRecord> nodes;  // parallel to the cluster's nodes
    std::vector<LinkRecord> links;  // those that carried something, most loaded first
    std::int32_t n_layers = 0;
    double begin_s = 0;
    double end_s = 0;  // of what was seen
    double window_begin_s = 0;
    double window_end_s = 0;

    // Inside the window: requests by when it happened to them.
    bool from_admission = false;     // ttft and latency count from admission, not creation
    Distribution ttft;               // creation to first token, of first tokens
    Distribution tpot;               // of each token after a request's first: since the one before
    Distribution queueing;           // creation to first admission
    Distribution latency;            // creation to end, of finished requests
    double decode_tokens_per_s = 0;  // tokens after a request's first one
    double prompt_tokens_per_s = 0;  // of prompts whose first token came
    std::uint64_t created = 0;
    std::uint64_t finished = 0;
    std::uint64_t rejected = 0;
    std::uint64_t preempted = 0;
    // A finished request is good when its TTFT and the mean of its TPOT keep both limits; a limit
    // of 0 is none.
    double ttft_limit_s = 0;
    double tpot_limit_s = 0;
    std::uint64_t good = 0;
    double goodput_per_s = 0;  // good requests
    double mean_running = 0;   // admitted and not ended
    double mean_waiting = 0;   // created and not admitted

    // Over the whole run.
    double bucket_s = 0;
    double link_bucket_s = 0;
    Series decode_over_time;  // tokens/s
    Series prompt_over_time;
    Series running_over_time;  // requests
    Series waiting_over_time;
    std::vector<Timeline> timelines;  // in order of creation
    std::vector<std::pair<double, std::string>> marks;
    std::uint64_t marks_left_out = 0;

    double window_s() const { return window_end_s - window_begin_s; }
};

}  // namespace helix::sim
