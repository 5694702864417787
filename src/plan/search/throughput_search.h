#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/losses/robustness.h"
#include "plan/predict/performance.h"
#include "plan/problem/problem.h"
#include "plan/search/executor.h"
#include "plan/search/pareto.h"
#include "spec/placement.h"

namespace helix::plan {

enum class ThroughputObjective {
    throughput,  // predicted decode tokens/s
    latency,     // time of a mean answer on the empty cluster
    balanced     // the geometric mean of both
};

// What a better measure than the predictions says of a plan, for instance a simulation.
struct Judgement {
    double decode_tokens_per_s = 0;  // 0 = it does not run
    double merit = 0;                // what plans are ranked by; more is better
};
using Judge = std::function<Judgement(const spec::Placement&, const std::vector<spec::LinkFlow>&)>;

struct ThroughputOptions {
    ThroughputObjective objective = ThroughputObjective::throughput;
    // What predicts; with several the geometric mean of their figures counts. At least one; by
    // default those of robust_models().
    std::vector<const PerformanceModel*> models;
    FlowOptions flow;
    double max_depth = 0;   // mean stages of a request; 0 = any
    double tpot_slo_s = 0;  // predicted mean time between tokens; 0 = any
    double survive = 0;  // share of the flow that must remain after any one machine or link is lost

    std::uint64_t seed = 1;
    std::int64_t iterations = 2'000'000;  // placements tried in all
    std::function<bool()> stop;           // asked between rounds and every few tries
    std::size_t shortlist = 30;

    // Without one the jobs run one after the other. The result does not depend on it unless stop
    // interferes.
    Executor executor;

    // Judges a plan. Called from the executor's jobs. Without it the predictions decide.
    Judge judge;
    std::int32_t most_judged = 200;
};

struct ThroughputCandidate {
    spec::Placement placement;          // nodes without flow are left out
    std::vector<spec::LinkFlow> flows;  // the split chosen, scaled to what it carries
    std::vector<Estimate> estimates;    // parallel to ThroughputOptions::models
    double score = 0;                   // by the predictions, more is better
    Judgement judgement;                // zeros = not judged
    double flow_tokens_per_s = 0;       // of `flows`
};

struct ThroughputResult {
    // Best first: the judged ones by judgement, then the others by prediction. Distinct. Empty when
    // no start and nothing found from them serves all layers within the limits.
    std::vector<ThroughputCandidate> shortlist;
    std::int64_t iterations = 0;
    std::int32_t judged = 0;
};

// Anneals placements towards the best prediction, from all starts and from what proved best, in
// rounds; from the third on each round's best are judged and guide the next. Never worse (by the
// judge's measure, if there is one) than the starts that keep the limits.
ThroughputResult search_throughput(const Problem& problem,
                                   const std::vector<spec::Placement>& starts,
                                   const ThroughputOptions& options);

// A placement as it stands, with the split of requests that the search would choose for it and its
// predictions. Of `options` only models, flow and limits matter. Nothing if it serves no request
// within the limits.
std::optional<ThroughputCandidate> split_placement(const Problem& problem,
                                                   const spec::Placement& placement,
                                                   const ThroughputOptions& options);

// One line of the comparison that is shown to people.
struct ParetoEntry {
    Merits merits;
    Robustness robustness;
    std::size_t candidate = 0;  // index into the shortlist
};

// The first candidate, which a judge may have put there, and those that no other beats in
// everything. Costs a maximum flow per part of each.
std::vector<ParetoEntry> pareto_table(const Problem& problem, const FlowOptions& flow,
                                      const std::vector<ThroughputCandidate>& shortlist);

}  // namespace helix::plan
