#include "core/coordinator/migration_pairing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "core/routing/widest_path.h"

namespace helix::core {
namespace {

constexpr double kFreeEnough = 0.5;  // a path is as good as the freest if it has half its freeness

class Round {
  public:
    Round(BalanceView& view, const PairingConfig& config, const MayTake& may_take)
        : view_(view),
          graph_(*view.graph),
          config_(config),
          may_take_(may_take),
          gave_(view.nodes.size(), 0),
          took_(view.nodes.size(), 0) {}

    std::vector<Move> plan() {
        std::vector<Move> moves;
        for (const std::int32_t source : sources()) {
            if (static_cast<std::int32_t>(moves.size()) >= config_.moves) break;
            // Requests that have left other sources may have helped this one, too.
            if (took_[index(source)] != 0 || !gives(source)) continue;
            if (auto move = move_from(source); !move.to.empty()) moves.push_back(std::move(move));
        }
        return moves;
    }

  private:
    static std::size_t index(std::int32_t node) { return static_cast<std::size_t>(node); }
    NodeLoad& node(std::int32_t n) { return view_.nodes[index(n)]; }
    const NodeLoad& node(std::int32_t n) const { return view_.nodes[index(n)]; }

    bool as_llumnix() const { return config_.rule == PairingRule::llumnix; }
    bool gives(std::int32_t n) const { return is_source(view_, index(n), config_); }

    std::vector<std::int32_t> sources() const {
        std::vector<std::int32_t> found;
        for (std::int32_t n = 0; index(n) < view_.nodes.size(); ++n) {
            if (gives(n)) found.push_back(n);
        }
        std::stable_sort(found.begin(), found.end(), [&](std::int32_t a, std::int32_t b) {
            return node(a).freeness() < node(b).freeness();
        });
        return found;
    }

    // Returns how many layers with KV of their own the edge's head runs.
    std::int32_t kv_layers_at(std::int32_t e) const {
        const LayerRange layers = graph_.stage(graph_.edge(e)).layers;
        return spec::kv_layers(layers, graph_.n_layers(), view_.shared_kv_layers).size();
    }
    // Returns as many as the request runs at the node; 0: none.
    std::int32_t layers_at(const Path& path, std::int32_t n) const {
        for (const std::int32_t e : path) {
            if (graph_.edge(e).to == n) return kv_layers_at(e);
        }
        return 0;
    }

    std::vector<BalanceRequest*> candidates(std::int32_t source) {
        std::vector<BalanceRequest*> found;
        for (BalanceRequest& request : view_.requests) {
            if (request.movable && layers_at(request.path, source) > 0) found.push_back(&request);
        }
        const auto key = [&](const BalanceRequest& r) {
            const auto order = static_cast<std::int64_t>(r.order);
            const std::int64_t by = config_.choice == MoveChoice::shortest  ? r.tokens
                                    : config_.choice == MoveChoice::longest ? -r.tokens
                                                                            : -order;
            return std::tuple(r.priority, by, -order);
        };
        std::sort(
            found.begin(), found.end(),
            [&](const BalanceRequest* a, const BalanceRequest* b) { return key(*a) < key(*b); });
        const std::size_t tries = as_llumnix() ? 1 : static_cast<std::size_t>(config_.tries);
        if (found.size() > tries) found.resize(tries);
        return found;
    }

    Move move_from(std::int32_t source) {
        for (BalanceRequest* request : candidates(source)) {
            // A way off all full nodes at once is tried first.
            for (const bool keep_sources : {false, true}) {
                if (as_llumnix() && !keep_sources) continue;
                Path to = destination(*request, source, keep_sources);
                if (to.empty() || !improves(*request, source, to)) continue;
                apply(*request, to);
                gave_[index(source)] = 1;
                return {request->id, std::move(to)};
            }
        }
        return {};
    }

    // Returns the freeness of an edge's head once the request is there. It is infinite where the
    // head takes nothing more than it has, and below 0 where the request may not go.
    double after(const BalanceRequest& request, std::int32_t source, std::int32_t e) const {
        const std::int32_t to = graph_.edge(e).to;
        if (to == spec::kCoordinator) return std::numeric_limits<double>::infinity();
        if (to == source) return -1;
        const Stage stage = graph_.stage(graph_.edge(e));
        const std::int32_t had = layers_at(request.path, to);
        const std::int32_t layers = kv_layers_at(e);
        if (layers <= had) return std::numeric_limits<double>::infinity();
        if (gave_[index(to)] != 0 || took_[index(to)] != 0) return -1;
        if (node(to).freeness() <= config_.destination_above) return -1;
        if (!may_take_(request, stage.worker, stage.layers)) return -1;
        if (as_llumnix()) return node(to).freeness();
        NodeLoad load = node(to);
        if (had > 0) load.remove(usage_at(request, had));
        load.add(usage_at(request, layers));
        return load.freeness();
    }

    Path destination(const BalanceRequest& request, std::int32_t source, bool keep_sources) const {
        std::vector<double> freeness(graph_.edges().size());
        for (std::size_t e = 0; e < freeness.size(); ++e) {
            freeness[e] = after(request, source, static_cast<std::int32_t>(e));
            const std::int32_t to = graph_.edges()[e].to;
            if (!keep_sources && to != spec::kCoordinator && gives(to)) freeness[e] = -1;
        }
        const auto width = [&](std::int32_t e) { return freeness[index(e)]; };
        const WidePath freest = widest_path(graph_, width);
        if (freest.path.empty() || as_llumnix()) return freest.path;
        const double enough = kFreeEnough * freest.width;
        return widest_path(graph_,
                           [&](std::int32_t e) {
                               return width(e) < enough ? -1 : graph_.edge(e).flow_tokens_per_s;
                           })
            .path;
    }

    // Says whether the difference between source and destination shrinks, and neither the source
    // nor anything else is as full afterwards as the source was.
    bool improves(const BalanceRequest& request, std::int32_t source, const Path& to) const {
        if (node(source).draining() || as_llumnix()) return true;
        NodeLoad left = node(source);
        const double before_source = left.freeness();
        left.remove(usage_at(request, layers_at(request.path, source)));
        double before = std::numeric_limits<double>::infinity();
        double afterwards = before;
        for (const std::int32_t e : to) {
            const double then = after(request, source, e);
            if (std::isinf(then)) continue;
            before = std::min(before, node(graph_.edge(e).to).freeness());
            afterwards = std::min(afterwards, then);
        }
        if (std::isinf(afterwards)) return false;  // the way only takes less of what it has
        return afterwards > before_source && afterwards >= config_.source_below &&
               std::abs(afterwards - left.freeness()) < before - before_source;
    }

    void apply(BalanceRequest& request, const Path& to) {
        const Path from = std::exchange(request.path, to);
        request.movable = false;
        for (const Path* path : {&from, &to}) {
            for (const std::int32_t e : *path) {
                const std::int32_t n = graph_.edge(e).to;
                if (n == spec::kCoordinator) continue;
                const Usage usage = usage_at(request, kv_layers_at(e));
                if (path == &from) {
                    node(n).remove(usage);
                } else {
                    node(n).add(usage);
                    if (layers_at(from, n) < usage.layers) took_[index(n)] = 1;
                }
            }
        }
    }

    BalanceView& view_;
    const PipelineGraph& graph_;
    const PairingConfig& config_;
    const MayTake& may_take_;
    std::vector<char> gave_;  // by node
    std::vector<char> took_;
};

}  // namespace

Usage usage_at(const BalanceRequest& request, std::int32_t layers) {
    return {UsageKind::running, request.tokens, layers, request.sequences, request.high()};
}

bool is_source(const BalanceView& view, std::size_t node, const PairingConfig& config) {
    if (view.nodes[node].freeness() < config.source_below) return true;
    if (config.rule == PairingRule::llumnix) return false;
    return node < view.preempts.size() && view.preempts[node] != 0;
}

std::vector<RequestId> recovered_moves(std::vector<NodeLoad> nodes,
                                       const std::vector<MoveUnderWay>& moves,
                                       const PairingConfig& config) {
    for (const MoveUnderWay& move : moves) {
        for (const auto& [node, usage] : move.leaves) {
            nodes[static_cast<std::size_t>(node)].add(usage);
        }
    }
    std::vector<RequestId> recovered;
    for (const MoveUnderWay& move : moves) {
        const bool needed =
            std::any_of(move.leaves.begin(), move.leaves.end(), [&](const auto& left) {
                return nodes[static_cast<std::size_t>(left.first)].freeness() < config.source_below;
            });
        if (!needed) recovered.push_back(move.id);
    }
    return recovered;
}

std::vector<Move> plan_moves(BalanceView view, const PairingConfig& config,
                             const MayTake& may_take) {
    CHECK(view.graph != nullptr && view.nodes.size() == view.graph->nodes().size());
    CHECK(config.source_below <= config.destination_above);
    return Round(view, config, may_take).plan();
}

}  // namespace helix::core
