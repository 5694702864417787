#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/bounds/bounds.h"
#include "plan/bounds/delivered_bound.h"
#include "plan/flow/flow_graph.h"
#include "plan/losses/robustness.h"
#include "plan/losses/stall_bound.h"
#include "plan/milp/milp.h"
#include "plan/predict/performance.h"
#include "plan/search/throughput_search.h"
#include "spec/kv_type.h"
#include "spec/placement.h"
#include "spec/serving_policy.h"

namespace helix::plan {

// What a plan says. Flows count prompt and output tokens alike.
struct PlanReport {
    spec::Placement placement;                 // nodes that get no flow are left out
    std::vector<spec::LinkFlow> flows;         // the links used, by (from, to)
    spec::ServingPolicy policy;                // that it is served by
    std::optional<spec::KvType> kv_type = {};  // of KV memory, where a type was asked for
    double max_flow_tokens_per_s = 0;
    double upper_bound_tokens_per_s = 0;      // of any placement on this cluster (config_bound.h)
    Bounds bounds;                            // the simpler ones
    double gap = 0;                           // 1 - max flow / bound
    bool proven_optimal = false;              // the flow, within a millionth: no placement has more
    std::string method;                       // what found the placement: "search", "even", ...
    std::string min_cut_text;                 // what limits the flow, in words
    std::vector<FlowGraph::Meaning> min_cut;  // the same; indices are those of the cluster

    double mean_depth = 0;                  // stages a token passes
    double least_kv_tokens = 0;             // context the layer with least KV memory can hold
    std::vector<double> node_tokens_per_s;  // T of each node with its layers
    std::vector<double> node_flow;          // planned through each node
    std::vector<FlowPath> paths;            // the pipelines behind `flows`

    // What users will see, where speeds of batches are known: decode tokens/s and latencies under
    // our batching, and what limits them in words.
    std::optional<Prediction> prediction;
    std::string limit_text;
    double judged_tokens_per_s = 0;  // by PlanOptions::judge; 0 = not judged
    std::int32_t judged_plans = 0;
    // No placement delivers more decode tokens/s under any schedule, where it was asked for.
    std::optional<DeliveredBound> delivered_bound;
    // What one user gets who has the cluster alone: means over requests in the simulator of which
    // each has ended before the next one comes.
    struct Alone {
        double ttft_s = 0;
        double tpot_s = 0;
        std::int64_t requests = 0;
    };
    std::optional<Alone> alone;  // where plans are judged
    // What is left of the flow after the worst single loss; not looked at in clusters of hundreds.
    Robustness robustness;
    std::vector<Stall>
        stalls;  // after the loss of each machine, by the default StallRule under the policy

    struct Choice {  // another plan that this one does not beat in everything, or this one
        Merits merits;
        double judged_tokens_per_s = 0;
        bool chosen = false;
    };
    std::vector<Choice> pareto;
    std::optional<MilpReport> milp;     // of Method::milp: what the solver itself found
    std::vector<std::string> warnings;  // what was asked for and cannot be kept: roles of machines
    std::vector<std::string> notes;     // of the method: machines it has no use for, and why
};

}  // namespace helix::plan
