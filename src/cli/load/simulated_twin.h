#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/load/api_client.h"
#include "cli/load/load_run.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/placement.h"

// The same load on the same cluster in virtual time: the very Coordinator and Worker code, machines
// that take the time of measured tables. What differs from the real one is what the simulator does
// not know.

namespace helix::cli {

// A cluster that serves, as GET /helix/cluster shows it.
struct ServedCluster {
    std::vector<spec::NodeSpec> nodes;  // names, types, hosts
    std::vector<std::int64_t> kv_pages;
    spec::Placement placement;
    std::vector<spec::LinkFlow> flows;  // node indices as above
    std::int32_t n_layers = 0;
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
    double activation_bytes = 0;  // per row
};

// Each answer's tokens after the first are taken to come evenly, so gaps of single tokens are
// means. costs must know the nodes' types. unavailable: the cluster did not come to serve, or
// requests did not end.
base::Result<LoadResult> simulate_load(const ServedCluster& cluster, const spec::CostModel& costs,
                                       const TwinOptions& options,
                                       const std::vector<LoadRequest>& arrivals);

}  // namespace helix::cli
