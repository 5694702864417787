#include "sim/throughput/helix_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/routing/pipeline_graph.h"
#include "sim/throughput/loaded_cluster.h"
#include "sim/throughput/modelled_network.h"

namespace helix::sim {
namespace {

bool holds_layers(const HelixSetup& setup, std::int32_t node) {
    const auto slot = static_cast<std::size_t>(node);
    return node >= 0 && slot < setup.placement.layers.size() &&
           !setup.placement.layers[slot].empty();
}

// Returns the most pages that a request of so many tokens may need of these layers at once.
std::int64_t pages_wanted(const HelixSetup& setup, spec::LayerRange layers, std::int64_t tokens) {
    const std::int32_t size = setup.worker.block_size;
    const std::int64_t blocks = (tokens + size - 1) / size;
    const spec::LayerRange own = spec::kv_layers(setup.model, layers);
    if (setup.worker.prompts_first || !setup.model.window.any()) return blocks * own.size();
    const std::int64_t rows = 1 + setup.coordinator.speculation.draft_rows;
    const std::int64_t least = setup.model.window.most_blocks(tokens, rows, size);
    return blocks * own.size() - (blocks - least) * setup.model.window.count(own);
}

// Every request fits every node, and some way leads through all layers.
base::Status check_room(const HelixSetup& setup) {
    std::vector<core::PipelineNode> nodes;
    const std::int64_t wanted = setup.lengths.longest_context() + 1;
    for (std::size_t n = 0; n < setup.placement.layers.size(); ++n) {
        nodes.push_back({WorkerId{static_cast<std::uint32_t>(n)}, setup.placement.layers[n]});
        if (setup.placement.layers[n].empty()) continue;
        const spec::LayerRange layers = setup.placement.layers[n];
        const std::int64_t blocks =
            static_cast<std::int64_t>(setup.kv_tokens[n]) / setup.worker.block_size;
        const std::int64_t pages = blocks * spec::kv_layers(setup.model, layers).size();
        if (pages >= pages_wanted(setup, layers, wanted)) continue;
        return base::invalid(
            fmt::format("node {} holds {} tokens of context; a request may need {}",
                        setup.cluster->nodes[n].name, blocks * setup.worker.block_size, wanted));
    }
    std::vector<core::PipelineEdge> edges;
    for (const spec::LinkFlow& flow : setup.flows) {
        edges.push_back({flow.from, flow.to, flow.tokens_per_s, 0, 0});
    }
    const auto router = setup.coordinator.router(
        {core::PipelineGraph(setup.model.n_layers, std::move(nodes), edges), setup.seed});
    if (!router->can_route([](WorkerId, spec::LayerRange) { return true; })) {
        return base::invalid("no pipeline runs through all layers along the flows");
    }
    return base::Ok{};
}

// What makes a setup impossible, before anything runs.
base::Status check_setup(const HelixSetup& setup) {
    if (setup.lengths.empty()) return base::invalid("no request lengths are given");
    if (!(setup.duration_s > 0) || setup.warmup_s < 0) {
        return base::invalid("the window's duration must be above 0 and its warm-up not below 0");
    }
    const std::int64_t longest = setup.lengths.longest_context() + 1;
    if (setup.worker.prompts_first && setup.worker.prompts_first->max_batched_tokens < longest) {
        return base::invalid(fmt::format(
            "batches of whole prompts of at most {} tokens; a request may need {} in one",
            setup.worker.prompts_first->max_batched_tokens, longest));
    }
    const std::size_t n = setup.cluster->nodes.size();
    if (setup.placement.layers.size() > n || setup.kv_tokens.size() != n) {
        return base::invalid("placement and KV memory must be those of the cluster's nodes");
    }
    for (const std::int32_t node : setup.spares) {
        if (holds_layers(setup, node)) continue;
        return base::invalid(fmt::format("spare node {}, which holds no layers", node));
    }
    const ModelledNetwork network(*setup.cluster);
    for (const spec::LinkFlow& flow : setup.flows) {
        for (const std::int32_t node : {flow.from, flow.to}) {
            if (node == spec::kCoordinator) continue;
            if (!holds_layers(setup, node)) {
                return base::invalid(fmt::format("flow over node {}, which holds no layers", node));
            }
        }
        if (!network.has_link(flow.from, flow.to)) {
            return base::invalid(
                fmt::format("flow {} -> {}: the cluster has no such link", flow.from, flow.to));
        }
    }
    return check_room(setup);
}

}  // namespace

double loading_s(const HelixSetup& setup, std::size_t node) {
    if (node >= setup.disk_bytes_per_s.size() || setup.disk_bytes_per_s[node] <= 0) return 0;
    const spec::LayerRange layers = setup.placement.layers[node];
    return static_cast<double>(spec::stored_bytes(setup.model, layers)) /
           setup.disk_bytes_per_s[node];
}

double helix_start_s(const HelixSetup& setup) {
    double slowest_s = 0;
    for (std::size_t n = 0; n < setup.placement.layers.size(); ++n) {
        slowest_s = std::max(slowest_s, loading_s(setup, n));
    }
    return std::ceil(slowest_s) + 1;
}

base::Result<SimReport> run_helix(const HelixSetup& setup, const SimProgress& progress) {
    TRY_VOID(check_setup(setup));
    LoadedCluster cluster(setup, progress);
    return cluster.run();
}

}  // namespace helix::sim
