#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace helix::lab {

// What `helix experiment` is asked, in words; budgets as people write durations (spec/units.h).
struct ExperimentQuestion {
    std::string name;    // of one, of a topic, or "all"
    std::string data;    // ExperimentData::open(); "": the project's own
    std::string output;  // folder for the pages; "": only JSON is asked for
    std::string plan_budget = "10s";
    std::string solver_budget = "60s";
    int threads = 0;     // 0: as many as the machine has
    bool quick = false;  // a tenth of every window
    bool json = false;
};

// Runs what was asked for and writes its pages; say gets lines on how it gets on. Tables and runs
// as one JSON object, without a line end. Errors name the option of `helix experiment`.
base::Result<std::string> answer_experiment(const ExperimentQuestion& question,
                                            std::function<void(const std::string&)> say);

}  // namespace helix::lab
