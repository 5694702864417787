#include "plan/problem/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace helix::plan {
namespace {

using spec::ModelSpec;
using spec::NodeSpec;

// Bytes left for KV; negative when the rule forbids this many layers.
double kv_bytes_left(const NodeSpec& node, const ModelSpec& model, std::int32_t layers, bool first,
                     bool last, const MemoryRule& rule) {
    const double memory = static_cast<double>(node.memory_bytes);
    const double weights =
        static_cast<double>(model.common_bytes) +
        static_cast<double>(spec::most_stored_bytes(model, layers, first, last)) +
        (first ? static_cast<double>(model.embedding_bytes) : 0.0) +
        (last ? static_cast<double>(model.head_bytes) : 0.0);
    const double left = memory - weights;
    if (rule.half_of_memory) return 2 * weights <= memory ? left : -1;
    double reserve = rule.kv_reserve * memory;
    const double one_sequence = static_cast<double>(model.kv_bytes_per_token_layer) *
                                spec::kept_tokens(model, model.context_length) *
                                static_cast<double>(spec::most_kv_layers(model, layers, last));
    if (one_sequence > 0) reserve = std::min(reserve, one_sequence);
    return left >= reserve ? left : -1;
}

std::int32_t most_layers(const NodeSpec& node, const ModelSpec& model, bool first, bool last,
                         const MemoryRule& rule) {
    std::int32_t layers = 0;
    while (layers < model.n_layers &&
           kv_bytes_left(node, model, layers + 1, first, last, rule) >= 0) {
        ++layers;
    }
    return layers;
}

double seconds_per_token_layer(const NodeSpec& node, const ModelSpec& model,
                               const spec::CostModel& costs, const Workload& workload,
                               double kv_tokens) {
    const double sequence = workload.prompt_tokens + workload.output_tokens;
    const double room = std::clamp(kv_tokens / spec::kept_tokens(model, sequence), 1.0,
                                   static_cast<double>(workload.decode_batch));
    const auto batch = static_cast<std::int32_t>(std::floor(room));
    const double decode = costs.layer_s(node, batch, 0) / static_cast<double>(batch);
    const double prefill = costs.layer_s(node, 0, workload.prefill_chunk) /
                           static_cast<double>(workload.prefill_chunk);
    return (workload.prompt_tokens * prefill + workload.output_tokens * decode) / sequence;
}

// The node as CapacityTable::beyond_tables has it.
NodeCapacity with_all_its_memory(const NodeSpec& node, const NodeCapacity& measured,
                                 const spec::ProfileTables::Machine& machine,
                                 const ModelSpec& model) {
    NodeCapacity out = measured;
    const std::int32_t most = measured.most();
    out.tables_end_at = most;
    if (most < 1 || !(measured.tokens_per_s.back() > 0)) return out;
    const double last_s = 1 / measured.tokens_per_s.back();
    const auto before = measured.tokens_per_s[static_cast<std::size_t>(most) - 1];
    const double step_s = before > 0 ? std::max(last_s - 1 / before, 0.0) : last_s;
    const std::int64_t one_layer =
        model.layer_bytes + spec::kLeastKvBeyondTables * model.kv_bytes_per_token_layer;
    for (std::int32_t j = most + 1; j <= model.n_layers && j * one_layer <= node.memory_bytes;
         ++j) {
        out.tokens_per_s.push_back(1 / (last_s + step_s * (j - most)));
        out.kv_tokens.push_back(static_cast<double>(machine.kv_token_layers(j)) / j);
        for (auto& row : out.max_layers) row = {j, j};
    }
    return out;
}

}  // namespace

double CapacityTable::kv_tokens(std::size_t node, std::int32_t layers) const {
    const auto j = static_cast<std::size_t>(layers);
    if (j < nodes[node].kv_tokens.size()) return nodes[node].kv_tokens[j];
    CHECK(node < beyond_tables.size() && j < beyond_tables[node].kv_tokens.size());
    return beyond_tables[node].kv_tokens[j];
}

double CapacityTable::kv_tokens(std::size_t node, const ModelSpec& model,
                                spec::LayerRange layers) const {
    const double tokens = kv_tokens(node, layers.size());
    if (model.shared_kv_layers == 0 || layers.empty()) return tokens;
    return tokens * spec::most_kv_layers(model, layers.size()) /
           std::max(1, spec::kv_layers(model, layers).size());
}

CapacityTable capacity_from_costs(const spec::ClusterSpec& cluster, const ModelSpec& model,
                                  const spec::CostModel& costs, const Workload& workload,
                                  const MemoryRule& rule) {
    CHECK(workload.decode_batch > 0 && workload.prefill_chunk > 0);
    CHECK(workload.prompt_tokens + workload.output_tokens > 0);
    CapacityTable table;
    for (const NodeSpec& node : cluster.nodes) {
        NodeCapacity capacity;
        for (const bool first : {false, true}) {
            for (const bool last : {false, true}) {
                // The ends may be the smallest layers; nobody holds more of them than of others.
                const std::int32_t most = most_layers(node, model, first, last, rule);
                const bool inner = !first && !last;
                capacity.max_layers[first][last] = inner ? most : std::min(most, capacity.most());
            }
        }
        capacity.joined_layers = model.joined_layers;
        capacity.tokens_per_s.push_back(0);
        capacity.kv_tokens.push_back(0);
        for (std::int32_t j = 1; j <= capacity.most(); ++j) {
            const double left = kv_bytes_left(node, model, j, false, false, rule);
            const double kv_per_token = static_cast<double>(model.kv_bytes_per_token_layer) *
                                        static_cast<double>(spec::most_kv_layers(model, j));
            const double kv_tokens = kv_per_token > 0 ? left / kv_per_token : 1e18;
            const double seconds = seconds_per_token_layer(node, model, costs, workload, kv_tokens);
            CHECK(seconds > 0);
            capacity.tokens_per_s.push_back(1.0 / (static_cast<double>(j) * seconds));
            capacity.kv_tokens.push_back(kv_tokens);
        }
        table.nodes.push_back(std::move(capacity));
    }
    return table;
}

base::Result<CapacityTable> capacity_from_tables(const spec::ClusterSpec& cluster,
                                                 const spec::ProfileTables& tables,
                                                 const spec::TypeThroughput& throughput) {
    TRY_VOID(tables.check(cluster));
    CapacityTable table;
    for (const NodeSpec& node : cluster.nodes) {
        const spec::ProfileTables::Machine& machine = tables.machines().at(node.type);
        const auto found = throughput.find(node.type);
        if (found == throughput.end()) {
            return base::invalid(fmt::format(
                "node {}: the machine mix has no throughputs for type {}", node.name, node.type));
        }
        const auto listed = static_cast<std::int32_t>(found->second.size()) - 1;
        const std::int32_t most = std::min({machine.max_layers, listed, tables.model().n_layers});
        NodeCapacity capacity;
        for (auto& row : capacity.max_layers) row = {most, most};
        for (std::size_t j = 0; j <= static_cast<std::size_t>(most); ++j) {
            capacity.tokens_per_s.push_back(found->second[j]);
            capacity.kv_tokens.push_back(machine.held[j].kv_tokens_per_layer);
        }
        table.beyond_tables.push_back(with_all_its_memory(node, capacity, machine, tables.model()));
        table.nodes.push_back(std::move(capacity));
    }
    return table;
}

}  // namespace helix::plan
