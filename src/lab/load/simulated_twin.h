#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/load/api_client.h"
#include "lab/load/load_run.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/placement.h"

// The same load on the same cluster in virtual time, as `helix simulate` would have it: the very
// Coordinator and Worker code, machines that take the time of measured tables. What differs from
// the real one is what the simulator does not know.

namespace helix::lab {

// A cluster that serves, as GET /helix/cluster shows it.
struct ServedCluster {
    std::vector<spec::NodeSpec> nodes;  // names, types, hosts
    std::vector<std::int64_t> kv_pages;
    spec::Placement placement;
    std::vector<spec::LinkFlow> flows;  // node indices as above
    std::int32_t n_layers = 0;
    std::size_t requests = 0;  // that it has served, as far as it remembers
};
// unavailable when it does not serve; invalid when the server is none of ours.
base::Result<ServedCluster> read_served_cluster(ApiClient& client);
base::Result<ServedCluster> parse_served_cluster(const std::string& json, const std::string& url);

struct TwinOptions {
    std::int32_t block_size = 16;
    std::int32_t context_length = 0;
    double time_scale = 1;  // of the machines' times
    double link_latency_s = 1e-4;
    double link_bytes_per_s = 2e9;
    double row_bytes = 0;       // of activations, as they really travel
    double answer_delay_s = 0;  // of a token on its way from the coordinator to the client
    // Of the latency, what the receiving machine's own threads take: no batch runs meanwhile. The
    // rest is a message's way.
    double wake_share = 0.25;
    std::uint64_t seed = 0;  // of what the wakes really are
    // What the cluster served before the load, in its own time: machines and coordinator learn from
    // what they serve.
    std::vector<LoadRequest> before{};
};

// The load on the cluster under sim::run_helix. costs must know the nodes' types. Errors: a cluster
// that does not serve, requests longer than a node's KV memory.
base::Result<LoadResult> simulate_load(const ServedCluster& cluster, const spec::CostModel& costs,
                                       const TwinOptions& options,
                                       const std::vector<LoadRequest>& arrivals);

// Requests one after the other, on a cluster that does nothing else: what they take beyond the
// machines' times is what hops and answers cost.
struct LoneProbe {
    std::int32_t prompt_tokens = 16;
    std::int32_t output_tokens = 9;
    std::int32_t requests = 9;
};

// Where a request went.
using ServedPipeline = std::vector<std::pair<std::int32_t, spec::LayerRange>>;  // index of the node
// Of the last so many requests, in the order in which they came.
base::Result<std::vector<ServedPipeline>> read_last_pipelines(ApiClient& client,
                                                              std::size_t requests);
base::Result<std::vector<ServedPipeline>> parse_last_pipelines(const std::string& json,
                                                               const std::string& url,
                                                               std::size_t requests);

// Sets link_latency_s and answer_delay_s to the medians of what the lone requests took besides: per
// hop of a token, and until the first token. pipelines are parallel to the requests.
base::Status fit_to_lone(const ServedCluster& cluster, const spec::CostModel& costs,
                         const LoadResult& lone, const std::vector<ServedPipeline>& pipelines,
                         TwinOptions& options);

}  // namespace helix::lab
