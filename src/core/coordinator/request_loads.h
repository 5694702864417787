#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/coordinator/freeness.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/request_table.h"
#include "core/routing/pipeline_graph.h"

namespace helix::core {

// Returns the pipeline on which the request runs, or on which it is going to run.
inline const Pipeline& pipeline_of(const RequestState& state) {
    return state.migration ? state.migration->pipeline : state.pipeline;
}
inline std::int64_t live_sequences(const RequestState& state) {
    return state.group ? static_cast<std::int64_t>(state.group->members.size()) : 1;
}

// RequestLoads has what all running requests together take of each node's memory. A request is
// counted anew when its blocks, its sequences or its pipeline are others than before; else it is
// only looked at, since most take a block more in one of dozens of looks.
class RequestLoads {
  public:
    // Makes nodes() right. router tells this graph from others.
    void update(const PipelineGraph& graph, std::uint64_t router, const RequestTable& requests,
                const KvDemand& demand);
    // By index in the graph: loads of nodes without memory.
    const std::vector<NodeLoad>& nodes() const { return nodes_; }

  private:
    // What of a request decides what it counts for.
    struct Look {
        RequestId id;
        std::uint64_t order = 0;    // of its arrival: an id may come again
        std::uint32_t attempt = 0;  // whose pipeline it is
        std::int64_t tokens = 0;
        std::int32_t sequences = 0;
        bool high = false;
        bool operator==(const Look&) const = default;
    };
    struct Counted {
        Look look;
        std::vector<std::pair<std::int32_t, std::int32_t>> stages;  // node, layers with KV
    };
    void count(const Counted& one, bool add);

    std::uint64_t router_ = 0;
    std::vector<NodeLoad> nodes_;
    std::vector<Counted> counted_;  // by rising id
};

}  // namespace helix::core
