#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/experiments/experiment_data.h"
#include "lab/experiments/published.h"
#include "lab/problem/problem.h"
#include "sim/published/reference_setup.h"
#include "sim/report/report.h"
#include "spec/placement_file.h"

namespace helix::lab {

enum class ExperimentPolicy {
    published,  // the published simulator's rules, with the case's scheduler
    prototype,  // the same schedulers over workers that run as the published prototype's do
    own,        // what `helix serve` runs
};

// One simulated run, or one for each part of a method that splits the cluster, put together.
struct ExperimentCase {
    std::string cluster;
    std::string model;
    std::string method;  // a published one's layout, or "own": our planner's
    ExperimentPolicy policy = ExperimentPolicy::published;
    std::string layout = {};  // stem of a layout file instead of the method's own
    // Instead of the method's own: Helix, Petals and our plans by max flow.
    std::optional<sim::ReferenceScheduler> scheduler = {};
    std::int32_t population = 0;  // offline, of each part; 0: the published one, else by KV memory
    std::vector<std::int32_t> populations = {};  // the same, part by part
    bool online = false;
    double online_tokens_per_s = 0;  // offered in all; 0: as published
    double warmup_s = 60;
    double duration_s = 600;
    bool all_links = false;  // every link between stages that fit, not only the layout's
    // Instead of one run the search for the highest rate that is sustained; load and window are the
    // search's own.
    bool find_peak = false;
    bool detail = false;  // reports say what links did (SimReport::detail)
    // Of our own policy: workers in vLLM's order, dispatch and moves as Llumnix is published.
    bool as_vllm = false;
    bool as_llumnix = false;

    std::string key() const;    // equal for equal cases
    std::string title() const;  // for people
};

struct ExperimentResult {
    sim::SimReport report;              // throughputs added up, latencies of all requests
    std::vector<sim::SimReport> parts;  // of each separate cluster
    bool planned = false;               // the layout is our planner's: none was published
    double offered_tokens_per_s = 0;    // online
    std::string error;                  // the case could not run; the rest means nothing
};

// Where a part of a method stands.
struct LayoutPart {
    std::string path = {};                         // a file, or
    std::optional<spec::PlacementFile> plan = {};  // our planner's, or
    bool published_rule = false;                   // one made as the published one is described
    std::int32_t population = 0;
    double online_tokens_per_s = 0;
    std::map<std::int32_t, std::int64_t> kv_token_layers = {};  // as in PublishedPart
};

// The method's layouts as they were published. Empty: they are not kept.
std::vector<LayoutPart> published_layout(const ExperimentData& data, const ExperimentCase& wanted);

// lengths and arrivals come from data, the layout from parts. May be called by several threads.
ExperimentResult run_case(const ExperimentData& data, const Problem& problem,
                          const ExperimentCase& wanted, const std::vector<LayoutPart>& parts);

// What separate clusters deliver together.
sim::SimReport add_reports(const std::vector<sim::SimReport>& parts);

}  // namespace helix::lab
