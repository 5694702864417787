#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "lab/load/api_client.h"
#include "lab/load/load_run.h"

// Load on a live server, from the words of a question to the words of its answer: what `helix
// bench` does.

namespace helix::lab {

// Quantities are words as people write them (spec/units.h); errors name them as the options of
// `helix bench`.
struct BenchQuestion {
    ApiTarget target;
    std::string endpoint = "completions";
    std::size_t requests = 0;
    std::string duration;
    std::string warmup;
    int concurrency = 0;
    double rate_per_s = 0;
    std::string arrivals = "poisson";
    std::string trace;
    std::string prompt_tokens = "256";
    std::string output_tokens = "128";
    std::string lengths;
    bool skip_too_long = false;
    std::string slo_ttft;
    std::string slo_tpot;
    std::string timeout = "10min";
    std::uint64_t seed = 1;
    bool against_simulation = false;
    std::string profiles;
    std::string profile;
    double time_scale = 1;
    std::string link_latency;
    std::string answer_delay;
    std::string link_bandwidth = "2GB/s";
    int block_size = 16;
    bool json = false;
};

// Who looks on while it runs.
struct BenchHooks {
    // Puts a load on the client's server, and returns when it is over.
    std::function<LoadResult(ApiClient& client, const LoadPlan& plan)> measure;
    // What will be sent, before it is; called unless the answer is JSON.
    std::function<void(const std::string& line)> announce;
};

struct BenchAnswer {
    std::string shown;        // the report, as text or as one JSON object
    bool all_failed = false;  // no request that counts was answered, and nobody interrupted it
};
base::Result<BenchAnswer> run_bench(const BenchQuestion& question, const BenchHooks& hooks);

}  // namespace helix::lab
