#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/flow/traffic.h"
#include "plan/problem/lengths.h"
#include "plan/problem/problem.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/placement.h"
#include "spec/serving_policy.h"

namespace helix::plan {

// How the workers batch and the coordinator admits.
enum class Batching {
    // Ours (core::Worker, core::Coordinator): a batch runs all layers of a worker, decodes first in
    // as many groups as a pipeline has stages, prompts in chunks beside them.
    helix,
    // The published simulator's: a worker runs one layer at a time for whatever waits before it,
    // prompts whole and mixed with decodes, so that decodes queue up behind prompts.
    reference,
};
const char* to_string(Batching batching);

struct PerformanceOptions {
    Batching batching = Batching::helix;
    LengthMoments lengths = {};
    double requests_per_s = 0;     // offered; 0 = always as many waiting as the KV memory takes
    double expected_output = 240;  // tokens that admission reserves for an answer
    // That requests are served by; of it the model knows kv_high_water and groups_per_machine, and
    // Batching::helix only.
    spec::ServingPolicy policy = {};
    // Batching::helix only; the defaults of core::WorkerConfig.
    std::int32_t batch_rows = 512;
    std::int32_t mixed_prefill_rows = 64;
};

// What keeps the predicted throughput from being higher.
struct PerformanceLimit {
    enum class Kind {
        load,   // nothing: the offered load is served
        kv,     // KV memory of layers: with more, more requests would run at a time
        node,   // a machine is busy all the time
        link,   // a link is
        broken  // the flows do not lead all requests through all layers
    };
    Kind kind = Kind::broken;
    std::int32_t index = 0;   // node, or index into ClusterSpec::links
    spec::LayerRange layers;  // kv: the layers with the least memory
};

struct Prediction {
    double decode_tokens_per_s = 0;
    double prompt_tokens_per_s = 0;
    double ttft_s = 0;  // from admission to the first token, mean
    double tpot_s = 0;  // between two tokens of an answer, mean
    // The same two of a request that has the cluster for itself.
    double alone_ttft_s = 0;
    double alone_tpot_s = 0;
    double resident = 0;            // requests that hold KV memory, mean
    double kv_requests = 0;         // how many of them there is memory for
    double depth = 0;               // stages of a request, mean
    std::vector<double> node_busy;  // share of the time, [node]
    std::vector<double> link_busy;  // parallel to ClusterSpec::links
    PerformanceLimit limit;
};

// What searches need of a prediction. All figures are 0 where the flows are broken.
struct Estimate {
    double decode_tokens_per_s = 0;
    double ttft_s = 0;
    double tpot_s = 0;
    // The times of the first token and between the others of a request that is alone.
    double alone_ttft_s = 0;
    double alone_tpot_s = 0;
    double depth = 0;
    std::int32_t scarce_layer = 0;  // the first of those with least KV memory
};

// The memory that one evaluation writes on; each thread needs its own.
struct PerformanceScratch {
    struct Load {                 // of a stage
        double cycle_s = 0;       // a batch of decodes alone
        double prompt_s = 0;      // a batch with a prompt (reference: whole, helix: a chunk)
        double batch = 0;         // decodes of a batch alone
        double prompt_batch = 0;  // and beside a prompt
        double prompting = 0;     // share of the time in which a prompt is there
        double arriving = 0;      // share of the decodes that come behind a prompt
        double trapped = 0;       // and that leave behind one
        double message = 0;       // decodes that come together
        double pace_s = 0;        // of a prompt's chunks so far: its slowest place
        double queue_s = 0;       // wait of a prompt for others at the worst place so far
    };
    Traffic traffic;
    std::vector<Load> loads;  // parallel to traffic.stages
    std::vector<double> layer_kv;
    std::vector<double> layer_use;
    double groups = 1;      // that decodes travel in (helix)
    double decode_s = 0;    // the latest time between tokens
    double exit_batch = 0;  // decodes that come to the coordinator together
};

// Predicts what a placement delivers in the steady state: Little's law with the requests that fit
// in the KV memory, x D + (x / output) P = N, where the time between tokens D and the prompt's time
// P follow from queues at machines and links that depend on the rate x. N is the number of requests
// for which the scarcest layer has KV memory; x is found by bisection. performance_helix.cc and
// performance_reference.cc say how D and P come about under each kind of batching.
class PerformanceModel {
  public:
    // Takes what it needs from costs; the other references must outlive it.
    PerformanceModel(const Problem& problem, const spec::CostModel& costs,
                     const PerformanceOptions& options);
    ~PerformanceModel();
    PerformanceModel(PerformanceModel&&) noexcept;
    PerformanceModel& operator=(PerformanceModel&&) noexcept;

    // flows: along valid hops of the placement; requests are routed in their proportions.
    Prediction predict(std::span<const spec::LayerRange> layers,
                       std::span<const spec::LinkFlow> flows) const;
    // The figures that searches need; reuses the memory of scratch.
    Estimate estimate(std::span<const spec::LayerRange> layers,
                      std::span<const spec::LinkFlow> flows, PerformanceScratch& scratch) const;

    const PerformanceOptions& options() const;

    struct Impl;

  private:
    std::unique_ptr<Impl> impl_;
};

// "the KV memory of layers 24-27", "L4-3 (busy 97 % of the time)", "the link a -> b".
std::string describe_limit(const spec::ClusterSpec& cluster, const PerformanceLimit& limit);

}  // namespace helix::plan
