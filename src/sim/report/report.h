#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/latency_stats.h"
#include "sim/report/run_detail.h"

namespace helix::sim {

// What a simulated cluster delivered in the window [start + warm-up, start + warm-up + duration].
// Decode tokens are those after the first: the prompt's own pass yields the first one.
struct SimReport {
    double decode_tokens_per_s = 0;
    double prompt_tokens_per_s = 0;
    LatencySummary ttft;          // from creation of the request to the end of its prompt's pass
    LatencySummary tpot;          // each decode token, from the one before it
    double mean_depth = 0;        // stages of a request, over those admitted in the whole run
    double mean_resident = 0;     // admitted and unfinished requests, over the window
    double kv_peak = 0;           // fullest node in the whole run, as a share of its KV memory
    double kv_layer_peak = 0;     // fullest layer: used over capacity, summed over its holders
    bool kv_overflowed = false;   // a node held more than it can; real memory would have run out
    std::uint64_t rejected = 0;   // requests refused (the reference drops them)
    std::uint64_t preempted = 0;  // times a request lost its KV memory and began again
    std::uint64_t migrated = 0;   // times a request moved with its KV
    std::uint64_t migrations_given_up = 0;
    std::uint64_t admitted = 0;
    std::uint64_t finished = 0;    // requests, in the whole run
    std::uint64_t iterations = 0;  // passes through the model, prompts and decodes, whole run
    std::uint64_t events = 0;
    double max_flow_tokens_per_s = 0;
    std::vector<double> node_busy;      // share of the window, parallel to the cluster's nodes
    std::uint64_t digest = 0;           // of every pass's end; equal runs have equal digests
    double node_s = 0;                  // that were paid for, in the window; 0: not counted
    double ready_s = 0;                 // when models were loaded and the placement in force
    double peak_tokens_per_s = 0;       // what the cluster sustains, where that was looked for
    std::optional<RunDetail> detail{};  // where somebody looked on
};

// One JSON object; a table for people.
std::string report_json(const SimReport& report);
std::string report_table(const SimReport& report);

}  // namespace helix::sim
