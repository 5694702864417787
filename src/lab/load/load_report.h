#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lab/load/load_run.h"

namespace helix::lab {

// Seconds, summarised. Percentiles are of the sorted samples at floor(n * p), as the simulator
// takes them.
struct LatencySummary {
    std::size_t count = 0;
    double mean = 0;
    double p50 = 0;
    double p95 = 0;
    double p99 = 0;
    double most = 0;
};
LatencySummary summarise(std::vector<double> seconds);

// What counts: requests due in [start_s, end_s), and tokens that came in it.
struct LoadWindow {
    double start_s = 0;
    double end_s = 0;
};

struct ServiceGoal {
    std::optional<double> ttft_s;
    std::optional<double> tpot_s;
    bool given() const { return ttft_s || tpot_s; }
};

// Latencies are of the requests due in the window, from when they were due: a server that falls
// behind cannot hide it. Failed requests are in `failures` only. Rates are of what came in the
// window.
struct LoadReport {
    LoadWindow window;
    std::size_t sent = 0;     // in the whole run
    std::size_t counted = 0;  // due in the window
    std::size_t failed = 0;   // of those
    LatencySummary ttft;
    LatencySummary tpot;              // each token after the first, from the one before it
    LatencySummary tpot_per_request;  // mean of a request's tokens after the first
    LatencySummary latency;           // until the last token
    LatencySummary send_delay;        // how late the load generator itself was
    double decode_tokens_per_s = 0;   // tokens after the first
    double output_tokens_per_s = 0;   // all of the answers
    double prompt_tokens_per_s = 0;   // of prompts whose first token came
    double requests_per_s = 0;        // whose last token came
    std::size_t within_goal = 0;      // requests that met the goal
    double goodput_per_s = 0;
    struct Failures {
        std::size_t count = 0;
        std::string example;
    };
    std::map<std::string, Failures> failures;  // by kind, of the whole run
    std::size_t wrong_length = 0;              // prompt or answer not as long as asked, whole run
    bool interrupted = false;
};

LoadReport make_report(const LoadResult& result, LoadWindow window, const ServiceGoal& goal);

// One figure of a measured and of a simulated load, and how far the simulated one is off.
struct Comparison {
    std::string name;  // as in the JSON: "ttft_s.mean"
    double measured = 0;
    double simulated = 0;
    double error() const { return measured > 0 ? simulated / measured - 1 : 0; }
};
std::vector<Comparison> compare(const LoadReport& measured, const LoadReport& simulated);
std::string comparison_text(const std::vector<Comparison>& comparisons);

// One JSON object; load describes what was asked for, a JSON object as text.
std::string report_json(const LoadReport& report, const ServiceGoal& goal, const std::string& load,
                        const std::vector<Comparison>& comparisons = {});
std::string report_text(const LoadReport& report, const ServiceGoal& goal);

}  // namespace helix::lab
