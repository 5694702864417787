#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/change/cluster_change.h"
#include "plan/change/replan.h"
#include "plan/problem/problem.h"
#include "plan/report/plan_report.h"

// What changes of a cluster would bring, and which changes are worth their money.

namespace helix::plan {

// Speeds of a cluster's machines: from measured tables, the catalogue or the machines themselves.
using CapacityFunction =
    std::function<base::Result<CapacityTable>(const spec::ClusterSpec& cluster)>;
// Tokens/s that users will see, of a placement of the problem (a PerformanceModel); may be empty,
// then the flow decides.
using PredictFunction =
    std::function<double(const Problem& problem, const spec::Placement& placement)>;

// The figures of one plan that people compare.
struct Effect {
    double flow = 0;
    double bound = 0;
    double predicted_tokens_per_s = 0;  // as the plan says; 0: it does not
    double mean_depth = 0;
    double least_kv_tokens = 0;
};

struct WhatIf {
    ChangedCluster changed;
    PlanReport before;
    PlanReport after;
    Effect effect_before;
    Effect effect_after;
};

// Plans both clusters. planner: plan() with the caller's options; start is the plan before, carried
// over, or null.
using PlanFunction =
    std::function<base::Result<PlanReport>(const Problem& problem, const spec::Placement* start)>;
base::Result<WhatIf> what_if(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                             const std::vector<Change>& changes, const CapacityFunction& capacities,
                             const PlanFunction& planner);

// "                     before     after
//  flow, tokens/s      2045.6    2257.1   +10.3 %" and so on, a line for each figure.
std::string describe_effect(const Effect& before, const Effect& after);

struct AdviceOptions {
    std::int32_t picks = 1;  // changes to choose, one after the other, each on top of those before
    FlowOptions flow = {};
    // Types to buy or upgrade to, besides those of the cluster.
    std::vector<std::string> types = {};
    // USD an hour, by type as written above or in the cluster; the catalogue's where not given.
    std::map<std::string, double> prices = {};
    // USD an hour for a Gbit/s more, on links of less and of more than 5 ms.
    double near_gbit_price = 0.05;
    double far_gbit_price = 0.70;
    double link_factor = 2;  // how much faster a link upgrade makes it
    std::uint64_t seed = 1;
    std::int64_t iterations = 20'000;  // moves tried for each candidate
    std::function<bool()> stop = {};   // what is known by then is returned
    std::function<void(int done, int all, const std::string& change)> progress = {};
};

struct Advice {
    Change change;
    double usd_per_hour = 0;
    double tokens_per_s = 0;  // flow, or predicted, with it
    double gain = 0;          // against the cluster without it
    double gain_per_usd = 0;  // tokens/s for each USD an hour
};

struct AdviceReport {
    double tokens_per_s = 0;           // as it is, searched as long as each candidate
    std::vector<Advice> ranked;        // all first picks that gain, best by gain per price first
    std::vector<Advice> picks;         // chosen greedily; ends early when nothing gains
    std::vector<std::string> skipped;  // what could not be judged, and why
    bool stopped = false;
};

// Candidates: a machine of each type in each region, each machine kind of a region upgraded to each
// dearer type, and the links of the minimum cut made faster. Each is judged by a short replan()
// from the current placement, which must fit the cluster.
base::Result<AdviceReport> advise(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                                  const spec::Placement& current,
                                  const CapacityFunction& capacities,
                                  const PredictFunction& predict, const AdviceOptions& options);

std::string describe_advice(const AdviceReport& report);

}  // namespace helix::plan
