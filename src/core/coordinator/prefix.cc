// The prefix cache, the coordinator's side: who knows which beginning (FEATURES V20), and when that
// decides the way.
//
// A request goes where the KV of its beginning is unless it would get its answer sooner elsewhere.
// What lies ahead of a worker is taken from its KV charge, as balancers by freeness do (L13): the
// tokens that its requests are expected to hold at their end, over its planned tokens per second.
// On a path the worst stage counts, and a hit takes off what it need not compute there. If some
// other way that has room has less ahead at every stage, the router decides as if there were no
// cache (and what the path it picks has is used). So a hot prefix moves on to the next pipeline as
// soon as computing it again takes less than the wait, and is known there from then on.

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "core/coordinator/coordinator_state.h"
#include "core/kv/block_hash.h"

namespace helix::core {
namespace {

constexpr double kLeastFlow = 1e-9;  // tokens/s, of a worker that the plan does not use

std::vector<double> flow_into(const PipelineGraph& graph) {
    std::vector<double> flows(graph.nodes().size(), kLeastFlow);
    for (const PipelineEdge& edge : graph.edges()) {
        if (edge.to == spec::kCoordinator) continue;
        flows[static_cast<std::size_t>(edge.to)] += edge.flow_tokens_per_s;
    }
    return flows;
}

}  // namespace

std::vector<PrefixHit> Coordinator::Impl::prefix_hits(RequestState& state) {
    // The rows of cached tokens would not be there to be scored.
    if (!config.prefix_cache || state.prefix.lost || unscored(state) > 0) return {};
    hash_blocks(state);
    // One token must be left to compute: what follows is drawn after it.
    const auto most = static_cast<std::size_t>((length(state) - 1) / config.block_size);
    return prefixes.find(std::span(state.prefix.blocks).first(most));
}

Path Coordinator::Impl::prefer_prefix(RequestState& state, const std::vector<PrefixHit>& hits) {
    state.prefix.cached = 0;
    if (hits.empty()) return {};
    const PipelineGraph& graph = router->graph();
    const std::vector<double> flow = flow_into(graph);
    const auto flow_of = [&](WorkerId worker) {
        return flow[static_cast<std::size_t>(graph.node_of(worker))];
    };
    const auto ahead_s = [&](WorkerId worker, std::int64_t saved_tokens) {
        const WorkerState& at = workers.at(worker);
        const std::int64_t tokens = at.kv.charged() * config.block_size / at.layers.size();
        return static_cast<double>(tokens - saved_tokens) / flow_of(worker);
    };
    const StageFits fits = fits_for(state);
    const PrefixHit* best = nullptr;
    double best_s = std::numeric_limits<double>::infinity();
    for (const PrefixHit& hit : hits) {
        state.prefix.cached = hit.blocks * config.block_size;
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
    const bool sooner_elsewhere = router->can_route([&](WorkerId worker, LayerRange layers) {
        return fits(worker, layers) && ahead_s(worker, 0) < best_s;
    });
    if (sooner_elsewhere) return {};
    state.prefix.cached = best->blocks * config.block_size;
    return best->path;
}

void Coordinator::Impl::hash_blocks(RequestState& state) const {
    std::vector<base::Hash128>& blocks = state.prefix.blocks;
    if (static_cast<std::int32_t>(blocks.size()) == length(state) / config.block_size) return;
    std::vector<Token> text = state.request.prompt;
    text.insert(text.end(), state.output.begin(), state.output.end());
    extend_block_hashes(text, config.block_size, blocks);
}

void Coordinator::Impl::remember_prefix(RequestState& state, std::int64_t tokens) {
    if (!config.prefix_cache || state.path.empty()) return;
    hash_blocks(state);
    const auto whole = static_cast<std::size_t>(tokens / config.block_size);
    if (whole > 0) prefixes.record(std::span(state.prefix.blocks).first(whole), state.path);
}

void Coordinator::Impl::note_first_token(RequestState& state) {
    if (!config.prefix_cache) return;
    prefix_queried_tokens += length(state);
    prefix_hit_tokens += state.prefix.cached;
    state.prefix.lost = false;
    remember_prefix(state, length(state));
}

// The worker has thrown away what we thought it had, or what a migration had brought. No
// preemption: nothing was lost but the way to the workers and back.
void Coordinator::Impl::restart_without_prefix(RequestState& state,
                                               std::vector<CoordinatorAction>& actions) {
    const Path path = state.path;
    restart(state, actions);
    prefixes.forget(state.prefix.blocks, path);
    state.prefix.lost = true;
}

}  // namespace helix::core
