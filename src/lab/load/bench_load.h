#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "lab/load/api_client.h"
#include "lab/load/load_report.h"
#include "lab/load/load_run.h"

namespace helix::lab {

// What `helix bench` sends, what of it counts, and how to say so.
struct BenchLoad {
    LoadPlan plan;
    double warmup_s = 0;
    double duration_s = 0;  // of the window; 0 = until all requests have ended
    std::string described;
    nlohmann::ordered_json json;  // the same for a report
};

// Requests that the server must refuse, or prompts that cannot be written, are an error before
// anything is sent; with skip_too_long those beyond the model's context are left out instead.
base::Status check_lengths(const ApiClient& client, bool skip_too_long, BenchLoad& load);

LoadWindow window_of(const BenchLoad& load, const LoadResult& result);

}  // namespace helix::lab
