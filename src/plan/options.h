#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/milp/milp.h"
#include "plan/predict/performance.h"
#include "plan/problem/capacity.h"
#include "plan/search/search.h"
#include "plan/search/throughput_search.h"
#include "spec/cost_model.h"
#include "spec/placement.h"

// What a caller of plan() may choose.

namespace helix::plan {

enum class Method {
    automatic,  // the search, from the best of all rules
    search,
    milp,  // the paper's program, and what its solver finds; for up to about six machines
    even,
    replicated,
    petals,
    swarm,
    separate,
    separate_plus,
    manual
};
const char* to_string(Method method);

enum class Objective {
    flow,        // the paper's: the most flow, then the fewest stages
    throughput,  // predicted decode tokens/s at saturation
    latency,     // the predicted time of an answer
    balanced     // both
};
const char* to_string(Objective objective);

// What is known while a plan is being made; from one thread.
struct PlanProgress {
    const char* phase = "";         // "heuristics", "bound", "search", ...
    double flow_tokens_per_s = 0;   // of the best placement so far; 0 = none
    double bound_tokens_per_s = 0;  // no placement has more; 0 = not known yet
};

// What Method::milp starts from: the plan of most flow that a rule makes, or that our own search
// finds in the first fifth of the time, with the bound that it proves (config_bound.h).
enum class MilpStart { none, rules, search };
const char* to_string(MilpStart start);

struct PlanOptions {
    Method method = Method::automatic;
    Objective objective = Objective::flow;
    FlowOptions flow;
    // Speeds: `capacities` if given, else from `costs`, else from each node's own measurements.
    // Objectives other than flow need costs or measurements too.
    const CapacityTable* capacities = nullptr;
    const spec::CostModel* costs = nullptr;
    Workload workload;
    MemoryRule memory;
    // What is offered, how workers batch, and the policy that serves the plan: with choose_policy
    // and a judge the search chooses another one.
    PerformanceOptions performance;
    // A plan must be good under each of these; the geometric mean of the predictions counts.
    std::vector<Batching> batchings = {Batching::helix};
    spec::Placement manual;                    // the placement that Method::manual judges
    std::vector<spec::LinkFlow> manual_flows;  // how it spreads requests; empty: the maximum flow
    std::int32_t swarm_stages = 0;             // equal stages of Method::swarm; 0: as few as
                                               // let the weakest node that holds anything hold one
    std::vector<spec::Placement> starts;       // further ones for the search, that fit the cluster
    MilpOptions milp;                          // start and upper_bound are filled in
    MilpStart milp_start = MilpStart::rules;

    // Limits; plans beyond them are not considered.
    double max_depth = 0;      // mean stages of a request; 0 = any
    double tpot_slo_s = 0;     // predicted mean time between tokens; 0 = any
    double survive_share = 0;  // of the flow, after the loss of any one machine or link

    // How much flow may be given up for fewer stages, by Objective::flow.
    double flow_tolerance = 0;
    std::uint64_t seed = 1;
    std::int64_t iterations = 100'000;             // of the search for flow
    std::int64_t throughput_iterations = 200'000;  // and of the one for throughput
    bool tight_bound = true;       // false: only the simple bounds, for many small plans
    bool delivered_bound = false;  // asked for (delivered_bound.h); not with Objective::flow
    // A deadline, from whoever has a clock; the best so far is returned. Asked by all threads of
    // the executor. flow_stop ends the search for flow alone, when another objective follows.
    std::function<bool()> stop;
    std::function<bool()> flow_stop;
    // The share of the time that is over, from 0 to 1: for plans that are made of several (roles of
    // machines), and for what is left at the end for the longest looks of a judge. Asked by all
    // threads of the executor. Without it the first of several may take it all.
    std::function<double()> time_used;
    Executor executor;
    int side_by_side = 1;  // jobs of the executor
    Judge judge;
    bool choose_policy = false;  // with a judge, not with Objective::flow
    // The policy that the choice begins with; absent: the usual beginning (policy_search.h).
    std::optional<spec::ServingPolicy> begin_with;
    std::function<void(const PlanProgress&)> progress;
};

}  // namespace helix::plan
