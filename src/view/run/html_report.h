#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/report/recording.h"

namespace helix::view {

// What the recording does not know about itself.
struct ReportInfo {
    std::string title;                                       // of the page: the cluster's name
    std::vector<std::pair<std::string, std::string>> facts;  // "Scheduler", "helix", shown on top
    double max_flow_tokens_per_s = 0;                        // 0 = not computed
};

// The run as one HTML page that needs nothing else: no network, no fonts, no other files. Light and
// dark; for a handful of machines as for a thousand.
std::string html_report(const sim::Recording& recording, const ReportInfo& info);

}  // namespace helix::view
