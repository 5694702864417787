#include "core/coordinator/prefix_routing.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "core/kv/block_hash.h"

namespace helix::core {
namespace {

// Returns the planned tokens/s into each worker. Even one that the plan does not use has a little.
std::vector<double> flow_into(const PipelineGraph& graph) {
    std::vector<double> flows(graph.nodes().size(), kMinFlow);
    for (const PipelineEdge& edge : graph.edges()) {
        if (edge.to == spec::kCoordinator) continue;
        flows[static_cast<std::size_t>(edge.to)] += edge.flow_tokens_per_s;
    }
    return flows;
}

}  // namespace

PrefixIndex& PrefixRouting::index() {
    if (is_stale()) index_.clear();
    router_ = placements_.routers_made();
    return index_;
}

std::vector<PrefixHit> PrefixRouting::prefix_hits(RequestState& state) {
    // With a hit, the rows of cached tokens would not be there to be scored or pooled.
    const spec::Pooling pooling = state.request.pooling;
    const bool pools = pooling != spec::Pooling::none && !spec::needs_last_alone(pooling);
    if (!config_.prefix_cache || state.prefix.lost || unscored(state) > 0 || pools) return {};
    hash_blocks(state);
    // One token must be left to compute: what follows is drawn after it.
    const auto most = static_cast<std::size_t>((length(state) - 1) / config_.block_size);
    return index().find(std::span(state.prefix.blocks).first(most));
}

Path PrefixRouting::prefer_prefix(RequestState& state, const std::vector<PrefixHit>& hits,
                                  const StageFits& fits) {
    state.prefix.cached = 0;
    if (hits.empty()) return {};
    const PipelineGraph& graph = placements_.router()->graph();
    const std::vector<double> flow = flow_into(graph);
    const auto flow_of = [&](WorkerId worker) {
        return flow[static_cast<std::size_t>(graph.node_of(worker))];
    };
    const auto ahead_s = [&](WorkerId worker, std::int64_t saved_tokens) {
        const WorkerState& at = fleet_.at(worker);
        const std::int32_t layers = std::max(1, config_.kv_layers(at.layers).size());
        const std::int64_t tokens = at.kv.charged() * config_.block_size / layers;
        return static_cast<double>(tokens - saved_tokens) / flow_of(worker);
    };
    const PrefixHit* best = nullptr;
    double best_s = std::numeric_limits<double>::infinity();
    for (const PrefixHit& hit : hits) {
        state.prefix.cached = hit.blocks * config_.block_size;
        const Pipeline pipeline = graph.pipeline(hit.path);
        if (!std::all_of(pipeline.begin(), pipeline.end(),
                         [&](const Stage& s) { return fits(s.worker, s.layers); })) {
            continue;
        }
        const auto worst =
            std::max_element(pipeline.begin(), pipeline.end(), [&](const Stage& a, const Stage& b) {
                return ahead_s(a.worker, 0) < ahead_s(b.worker, 0);
            });
        const double hit_s = ahead_s(worst->worker, state.prefix.cached);
        if (hit_s < best_s) {
            best = &hit;
            best_s = hit_s;
        }
    }
    state.prefix.cached = 0;
    if (best == nullptr) return {};
    const bool sooner_elsewhere =
        placements_.router()->can_route([&](WorkerId worker, LayerRange layers) {
            return fits(worker, layers) && ahead_s(worker, 0) < best_s;
        });
    if (sooner_elsewhere) return {};
    state.prefix.cached = best->blocks * config_.block_size;
    return best->path;
}

void PrefixRouting::remember_prefix(RequestState& state, std::int64_t tokens) {
    if (!config_.prefix_cache || state.path.empty()) return;
    // A migration brought only what was not given back yet of layers with a window.
    if (state.moved && config_.window.any()) return;
    hash_blocks(state);
    const auto whole = static_cast<std::size_t>(tokens / config_.block_size);
    if (whole > 0) index().record(std::span(state.prefix.blocks).first(whole), state.path);
}

void PrefixRouting::note_first_token(RequestState& state) {
    if (!config_.prefix_cache) return;
    prefix_queried_tokens_ += length(state);
    prefix_hit_tokens_ += state.prefix.cached;
    state.prefix.lost = false;
    remember_prefix(state, length(state));
}

void PrefixRouting::hash_blocks(RequestState& state) const {
    std::vector<base::Hash128>& blocks = state.prefix.blocks;
    if (static_cast<std::int32_t>(blocks.size()) == length(state) / config_.block_size) return;
    std::vector<Token> text = state.request.prompt;
    text.insert(text.end(), state.output.begin(), state.output.end());
    extend_block_hashes(text, config_.block_size, blocks);
}

}  // namespace helix::core
