#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/capacity.h"
#include "plan/flow_graph.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

namespace helix::plan {

enum class Method { automatic, search, even, replicated, petals, swarm, manual };
const char* to_string(Method method);

// What is known while a plan is being made; from one thread.
struct PlanProgress {
    const char* phase = "";         // "heuristics", "bound", "search", ...
    double flow_tokens_per_s = 0;   // of the best placement so far; 0 = none
    double bound_tokens_per_s = 0;  // no placement has more; 0 = not known yet
};

struct PlanOptions {
    Method method = Method::automatic;  // automatic: the best of the heuristics and the search
    FlowOptions flow;
    // Speeds: `capacities` if given, else `costs`, else each node's own measurements.
    const CapacityTable* capacities = nullptr;
    const spec::CostModel* costs = nullptr;
    Workload workload;
    MemoryRule memory;
    spec::Placement manual;         // the placement that Method::manual judges
    std::int32_t swarm_stages = 0;  // 0: as FEATURES H21 says
    // How much flow may be given up for fewer stages. The plan's flow is at least that of the best
    // heuristic less this share.
    double flow_tolerance = 0.02;
    std::uint64_t seed = 1;
    std::int64_t iterations = 100'000;
    // A deadline, from whoever has a clock; the best so far is returned.
    std::function<bool()> stop;
    std::function<void(const PlanProgress&)> progress;
};

struct PlanReport {
    spec::Placement placement;          // nodes that get no flow are left out
    std::vector<spec::LinkFlow> flows;  // the links used, by (from, to)
    double max_flow_tokens_per_s = 0;
    double upper_bound_tokens_per_s = 0;  // of any placement on this cluster (bounds.h)
    double gap = 0;                       // 1 - max flow / bound
    bool proven_optimal = false;          // the flow, within a millionth: no placement has more
    std::string method;                   // what found the placement: "search", "even", ...
    std::string min_cut_text;             // what limits it, in words

    double mean_depth = 0;                  // stages a token passes
    double least_kv_tokens = 0;             // context the layer with least KV memory can hold
    std::vector<double> node_tokens_per_s;  // T of each node with its layers
    std::vector<double> node_flow;          // planned through each node
    std::vector<FlowPath> paths;            // the pipelines behind `flows`
};

// Which layers go on which machine, and what flows where. Every path over `flows` from the
// coordinator back to it is a valid pipeline. Errors: a cluster that cannot hold the model (says
// what is missing), speeds that are unknown, a manual placement that does not fit or does not
// connect.
base::Result<PlanReport> plan(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                              const PlanOptions& options);

// The same figures for a placement as it stands (Method::manual with nothing left out).
base::Result<PlanReport> evaluate_placement(const spec::ClusterSpec& cluster,
                                            const spec::ModelSpec& model,
                                            const CapacityTable& capacities,
                                            const spec::Placement& placement,
                                            const FlowOptions& options);

}  // namespace helix::plan
