#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/losses/robustness.h"
#include "plan/predict/performance.h"
#include "plan/problem/executor.h"
#include "plan/problem/problem.h"
#include "plan/search/pareto.h"
#include "spec/cost_model.h"
#include "spec/placement.h"
#include "spec/serving_policy.h"

namespace helix::plan {

enum class ThroughputObjective {
    throughput,  // predicted decode tokens/s
    latency,     // time of a mean answer on the empty cluster
    balanced     // the geometric mean of both
};

// How long a judge looks at a plan. Longer looks cost more and are surer; merits are comparable
// within a look only.
enum class Look { none, glance, full, last };

// What a better measure than the predictions says of a plan, for instance a simulation.
struct Judgement {
    double decode_tokens_per_s = 0;
    double merit = 0;        // what plans are ranked by; more is better, 0 = it does not run
    Look look = Look::none;  // of which this is the result; none = not judged
};
using Judge = std::function<Judgement(const spec::Placement&, const std::vector<spec::LinkFlow>&,
                                      const spec::ServingPolicy&, Look)>;

// By what requests are spread over a placement.
enum class SplitBy {
    prediction,  // what the predictions like best
    most_flow    // a maximum flow
};

// A placement that a search begins with.
struct ThroughputStart {
    spec::Placement placement;
    // Only these links may carry its flow, as with pipelines that are kept apart; empty = all.
    // What is found from it may use all.
    std::vector<std::pair<std::int32_t, std::int32_t>> only_links = {};
};

struct ThroughputOptions {
    ThroughputObjective objective = ThroughputObjective::throughput;
    // What predicts; with several the geometric mean of their figures counts. At least one.
    std::vector<const PerformanceModel*> models;
    FlowOptions flow;
    double max_depth = 0;   // mean stages of a request; 0 = any
    double tpot_slo_s = 0;  // predicted mean time between tokens; 0 = any
    double survive = 0;  // share of the flow that must remain after any one machine or link is lost

    std::uint64_t seed = 1;
    std::int64_t iterations = 2'000'000;  // placements tried in all
    std::function<bool()> stop;           // asked between rounds and every few tries
    // The share of the time that is over, from 0 to 1: what is best by then is looked at once more
    // before the end, for which time is kept by what full looks took. Asked from the executor's
    // jobs, too. Without it the iterations are the measure.
    std::function<double()> time_used;
    std::size_t shortlist = 30;

    // Without one the jobs run one after the other. The result does not depend on it unless stop
    // interferes.
    Executor executor;
    int side_by_side = 1;  // jobs of the executor; for how long looks take together

    // Judges a plan. Called from the executor's jobs. Without it the predictions decide. One that
    // is out of time says Look::none.
    Judge judge;
    // With a judge: at the end the best plans are judged under other policies as well
    // (policy_search.h); else all are served by `policy`.
    bool choose_policy = false;
    std::optional<spec::ServingPolicy> begin_with;  // with choose_policy; absent: first_policy()
    spec::ServingPolicy policy;
    // With these, and with choose_policy, plans are also judged with some of their pipelines for
    // prompts and the others for what follows (role_search.h): where the judge knows of roles.
    const spec::CostModel* costs = nullptr;
};

struct ThroughputCandidate {
    spec::Placement placement;          // nodes without flow are left out
    std::vector<spec::LinkFlow> flows;  // the split chosen, scaled to what it carries
    std::vector<Estimate> estimates;    // parallel to ThroughputOptions::models
    spec::ServingPolicy policy;         // that it is judged under
    double score = 0;                   // by the predictions, more is better
    Judgement judgement;
    double flow_tokens_per_s = 0;  // of `flows`
    SplitBy split = SplitBy::prediction;
    std::int32_t start = -1;  // it is this start as it was; -1: it was found
};

struct ThroughputResult {
    // Best first: the judged ones by how long they were looked at and by judgement, then the others
    // by prediction. Distinct. Empty when no start and nothing found from them serves all layers
    // within the limits.
    std::vector<ThroughputCandidate> shortlist;
    std::int64_t iterations = 0;
    std::int32_t judged = 0;  // plans
};

// Looks for the placement that serves most, in rounds. Each anneals placements towards the best
// prediction, from the starts and from what proved best. With a judge, every start is judged first,
// with the split that the predictions like best and with a maximum flow; then each round judges
// what is new and most promising, and changes of what was judged best so far. All of them get a
// glance, the better ones a full look, and at the end the best two, and two more that are within
// 2 % of the best, a last one (successive halving);
// then the policy is chosen, too, if that is asked for. Never worse (by the judge's measure, if
// there is one) than the starts that keep the limits.
ThroughputResult search_throughput(const Problem& problem,
                                   const std::vector<ThroughputStart>& starts,
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
