#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/load/load.h"
#include "sim/report/observer.h"
#include "spec/cluster_spec.h"
#include "spec/layer_range.h"
#include "spec/placement.h"
#include "spec/profile_tables.h"

// A run of the published simulator: what stands where, who decides, what is asked of it.

namespace helix::sim {

// max_flow: interleaved weighted round robin along a maximum flow, with KV estimates. The others
// are the published baselines; separate pipelines are clusters of their own under `random`.
enum class ReferenceScheduler { max_flow, swarm, random, shortest_queue };

// What a node computes next.
// fifo: the published rule: whatever waits before the current layer, prompts and decodes mixed.
// decode_first: layers at which decodes wait come first; a prompt's layer runs when no decode
// waits, or after `prompt_every` layers of decodes; with 0, only when no decode waits.
// two_passes: as the workers of the published prototype run, which the published simulator leaves
// out. A worker takes in all that has arrived and runs the prompts among it, up to
// `pass_prompt_tokens`, through all of its layers; their results leave; then the decodes that it
// had taken in. A batch's results are copied off the device before the worker goes on, at the rates
// that the published simulator has for the way in. Every layer is a step of vLLM's engine, which
// the host prepares while the device works on the layer before: none takes less than
// `layer_host_s`.
struct ReferenceBatching {
    enum class Order { fifo, decode_first, two_passes };
    Order order = Order::fifo;
    std::int32_t prompt_every = 4;
    std::int32_t prompts_per_layer = 1;      // decode_first: most prompts in one layer's batch
    bool links_too = true;                   // decode_first: decodes overtake prompts on links
    std::int32_t pass_prompt_tokens = 4096;  // two_passes; vLLM's max_num_batched_tokens there
    // two_passes: with it four A100s with 15 layers of LLaMA 30B each deliver what was measured of
    // them. 0 and 2 ms were tried, too, against all that was measured: no blind prediction.
    double layer_host_s = 1.5e-3;
};

struct ReferenceNode {
    std::int32_t node = 0;  // in the cluster
    spec::LayerRange layers;
    std::int32_t machine = 0;      // index into ReferenceSetup::machines
    std::int64_t kv_capacity = 0;  // tokens x layers
    std::int32_t prompt_max_requests = 1;
    std::int64_t prompt_max_tokens = 0;
    std::int64_t decode_max_context = 0;
    std::int32_t decode_max_sequences = 0;
    double nic_in_bytes_per_s = 0;
    double nic_out_bytes_per_s = 0;
};

struct ReferenceLink {
    std::int32_t from = spec::kCoordinator;  // index into ReferenceSetup::nodes
    std::int32_t to = spec::kCoordinator;
    double latency_s = 0;
    double bandwidth_bytes_per_s = 0;
    double flow_tokens_per_s = 0;  // max_flow's weight
};

struct ReferenceMachine {
    spec::TimeCurve prompt_s;
    spec::TimeCurve decode_s;
};

struct ReferenceSetup {
    std::int32_t n_layers = 0;
    double token_bytes = 0;
    double activation_bytes = 0;
    std::size_t n_cluster_nodes = 0;
    std::vector<ReferenceMachine> machines;
    std::vector<ReferenceNode> nodes;  // those that hold layers
    std::vector<ReferenceLink> links;  // the order breaks ties
    double coordinator_nic_in_bytes_per_s = 0;
    double coordinator_nic_out_bytes_per_s = 0;
    double start_s = 0;  // when the models are loaded; load and window count from here
    double max_flow_tokens_per_s = 0;

    ReferenceScheduler scheduler = ReferenceScheduler::max_flow;
    ReferenceBatching batching;
    double kv_high_water = 0.85;  // max_flow admits below this share of a node's KV (online: 0.9)
    double output_ratio = 1.0;    // of 240 expected output tokens (online: 0.6)

    LengthSource lengths;
    std::optional<OnlineLoad> online;  // without it: offline
    OfflineLoad offline;
    double warmup_s = 60;
    double duration_s = 600;
    std::uint64_t seed = 0;
    // Told of everything if not null; must outlive the run. Pipelines are empty where the routing
    // finds its way hop by hop. KV is in tokens x layers.
    Observer* observer = nullptr;
};

// A placement of a cluster. Only the given links are used; without any, every link between stages
// that fit, partial inference included. flows are the weights of max_flow; links that carry none
// are known to the other schedulers only. Load and policy keep their defaults. beyond_tables: nodes
// may hold more layers than their tables know, as the published separate pipelines do. Batch limits
// are then those of the most layers known, and KV memory goes on shrinking as it did from the last
// layer but one to the last, to no less than 4096 tokens of context.
base::Result<ReferenceSetup> reference_setup(
    const spec::ClusterSpec& cluster, const spec::ProfileTables& tables,
    const spec::Placement& placement,
    const std::vector<std::pair<std::int32_t, std::int32_t>>& links,
    const std::vector<spec::LinkFlow>& flows, bool beyond_tables = false);

// One of the files data/replay/<cluster>__<layout>.json: layers, limits, links in the published
// order and the flow that the published solver put on them. The cluster gives types and NICs.
base::Result<ReferenceSetup> read_replay_setup(const std::string& path,
                                               const spec::ClusterSpec& cluster,
                                               const spec::ProfileTables& tables);

}  // namespace helix::sim
