#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/layer_range.h"
#include "spec/model_spec.h"
#include "spec/profile_tables.h"

namespace helix::plan {

// What one node can do with j layers: T_i(j) of the paper, the KV memory that is left, and how many
// layers fit. All placement methods know nodes only through this.
struct NodeCapacity {
    // Most layers it may hold, by [holds layer 0][holds layer L-1]: embedding and head take memory.
    // [0][0] is the most of the four.
    std::array<std::array<std::int32_t, 2>, 2> max_layers{};
    std::vector<double> tokens_per_s;  // [j], 0 <= j <= max_layers[0][0]; [0] = 0
    std::vector<double> kv_tokens;     // [j]: tokens whose KV fits beside j layers, which
                                       // all have some where the model allows it
    // Above 0: with more layers than these the two above are no measurement (beyond_tables).
    std::int32_t tables_end_at = 0;
    std::int32_t joined_layers = 0;  // the model's: the last, which nobody holds in part

    std::int32_t most() const { return max_layers[0][0]; }
    bool fits(spec::LayerRange range, std::int32_t n_layers) const {
        for (const std::int32_t cut : {range.begin, range.end}) {
            if (cut > n_layers - joined_layers && cut < n_layers) return false;
        }
        return range.size() <= max_layers[range.begin == 0][range.end == n_layers];
    }
    double throughput(spec::LayerRange range) const {
        return tokens_per_s[static_cast<std::size_t>(range.size())];
    }
};

struct CapacityTable {
    std::vector<NodeCapacity> nodes = {};  // parallel to ClusterSpec::nodes
    // Empty where `nodes` does not end before the memory does; else parallel to it: the same nodes
    // with as many layers as their memory holds beside kLeastKvBeyondTables tokens of KV. Beyond
    // the tables seconds per token rise with each layer as they do with the last one that was
    // measured, and KV room falls as ProfileTables::Machine::kv_token_layers says. Only separate
    // pipelines by type are planned with it (rules/heuristics_separate.h): the published ones of
    // the 70B model hold more layers than were measured.
    std::vector<NodeCapacity> beyond_tables = {};

    // Of a node with so many layers, also beyond its tables.
    double kv_tokens(std::size_t node, std::int32_t layers) const;
    // Of a node with these layers of the model.
    double kv_tokens(std::size_t node, const spec::ModelSpec& model, spec::LayerRange layers) const;
};

// The load that T_i(j) is computed for: tokens per second count prompt and output tokens alike, in
// the ratio of the Azure conversation trace (means 763 and 232).
struct Workload {
    double prompt_tokens = 763;
    double output_tokens = 232;
    std::int32_t decode_batch = 8;     // sequences decoded together where the KV memory allows it
    std::int32_t prefill_chunk = 512;  // prompt tokens computed together
};

struct MemoryRule {
    // The share of a node's memory that stays free for KV, unless one full-context sequence needs
    // less.
    double kv_reserve = 0.2;
    // The paper's rule instead: layers take at most half of the memory, whatever the context
    // length.
    bool half_of_memory = false;
};

// The capacities by a cost model. A node with j layers is busy j * s seconds for each token, s =
// the mean of prefill and decode seconds per token and layer weighted by the workload, so T(j) = 1
// / (j s). The decode batch is what the KV memory holds, at least 1, at most workload.decode_batch;
// of a sequence layers with a window hold no more than the window (spec::kept_tokens).
// Nodes that share a host were each measured alone; their table does not know of each other.
CapacityTable capacity_from_costs(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                                  const spec::CostModel& costs, const Workload& workload,
                                  const MemoryRule& rule);

// The capacities that the paper plans with: T_j of a machine mix (spec::read_node_throughput),
// layer limits and KV room from the measured tables, and how both go on. Errors: a machine type
// that one of them lacks.
base::Result<CapacityTable> capacity_from_tables(const spec::ClusterSpec& cluster,
                                                 const spec::ProfileTables& tables,
                                                 const spec::TypeThroughput& throughput);

}  // namespace helix::plan
