#include "core/coordinator/defragment.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "core/routing/widest_path.h"

namespace helix::core {
namespace {

constexpr std::int32_t kPaths = 4;  // the most paths that are tried

// Returns how many layers with KV of their own the edge's head runs.
std::int32_t kv_layers_at(const RoomView& view, std::int32_t e) {
    const PipelineGraph& graph = *view.graph;
    const LayerRange layers = graph.stage(graph.edge(e)).layers;
    return spec::kv_layers(layers, graph.n_layers(), view.shared_kv_layers).size();
}

std::size_t index(std::int32_t i) {
    return static_cast<std::size_t>(i);
}

// This is one path that is being cleared for the waiting request.
class Clearing {
  public:
    Clearing(const RoomView& view, const Path& path, std::int64_t blocks, const MayTake& may_take)
        : view_(view),
          graph_(*view.graph),
          may_take_(may_take),
          room_(view.room),
          requests_(view.requests) {
        for (const std::int32_t e : path) {
            const std::int32_t node = graph_.edge(e).to;
            if (node == spec::kCoordinator) continue;
            room_[index(node)] -= blocks * kv_layers_at(view_, e);
            nodes_.push_back(node);
        }
    }

    // Moves requests away until every stage has room. If it fails, stuck_at() is the node without.
    bool clear(std::size_t most_moves) {
        for (const std::int32_t node : nodes_) {
            while (room_[index(node)] < 0) {
                if (moves_.size() == most_moves || !move_one(node)) {
                    stuck_at_ = node;
                    return false;
                }
            }
        }
        return true;
    }
    std::vector<Move> moves() { return std::move(moves_); }
    std::int32_t stuck_at() const { return stuck_at_; }

  private:
    std::int64_t pages_at(const PlacedRequest& placed, const Path& path, std::int32_t node) const {
        for (const std::int32_t e : path) {
            if (graph_.edge(e).to != node) continue;
            return placed.blocks * kv_layers_at(view_, e);
        }
        return 0;
    }

    bool move_one(std::int32_t node) {
        const std::int64_t lacks = -room_[index(node)];
        // The smallest request that makes enough room is taken; where none does, the largest.
        using Key = std::tuple<std::int32_t, bool, std::int64_t, RequestId>;
        std::vector<std::pair<Key, PlacedRequest*>> here;
        for (PlacedRequest& placed : requests_) {
            if (!placed.request.movable) continue;
            const std::int64_t pages = pages_at(placed, placed.request.path, node);
            if (pages <= 0) continue;
            const bool enough = pages >= lacks;
            here.push_back(
                {{placed.request.priority, !enough, enough ? pages : -pages, placed.request.id},
                 &placed});
        }
        std::sort(here.begin(), here.end());
        for (const auto& [key, placed] : here) {
            const Path to = destination(*placed, node);
            if (to.empty()) continue;
            apply(*placed, to);
            return true;
        }
        return false;
    }

    // Returns the path with the most room left that does not touch the node.
    Path destination(const PlacedRequest& placed, std::int32_t cleared) const {
        return widest_path(graph_,
                           [&](std::int32_t e) {
                               const std::int32_t to = graph_.edge(e).to;
                               constexpr double kAny = std::numeric_limits<double>::infinity();
                               if (to == spec::kCoordinator) return kAny;
                               if (to == cleared) return -1.0;
                               const Stage stage = graph_.stage(graph_.edge(e));
                               const std::int64_t more = placed.blocks * kv_layers_at(view_, e) -
                                                         pages_at(placed, placed.request.path, to);
                               if (more <= 0) return kAny;
                               const std::int64_t left = room_[index(to)] - more;
                               if (left < 0) return -1.0;
                               if (!may_take_(placed.request, stage.worker, stage.layers))
                                   return -1.0;
                               return static_cast<double>(left);
                           })
            .path;
    }

    void apply(PlacedRequest& placed, const Path& to) {
        for (const std::int32_t e : placed.request.path) add(placed, e, 1);
        for (const std::int32_t e : to) add(placed, e, -1);
        placed.request.path = to;
        placed.request.movable = false;
        moves_.push_back({placed.request.id, to});
    }
    void add(const PlacedRequest& placed, std::int32_t e, std::int64_t sign) {
        const std::int32_t node = graph_.edge(e).to;
        if (node == spec::kCoordinator) return;
        room_[index(node)] += sign * placed.blocks * kv_layers_at(view_, e);
    }

    const RoomView& view_;
    const PipelineGraph& graph_;
    const MayTake& may_take_;
    std::vector<std::int64_t> room_;  // the waiting request's part is already taken off
    std::vector<PlacedRequest> requests_;
    std::vector<std::int32_t> nodes_;  // the nodes of the path
    std::vector<Move> moves_;
    std::int32_t stuck_at_ = -1;
};

}  // namespace

RoomPlan plan_room(const RoomView& view, std::int64_t blocks, std::int32_t most_moves,
                   const StageFits& may_hold, const MayTake& may_take) {
    CHECK(view.graph != nullptr && view.room.size() == view.graph->nodes().size());
    const PipelineGraph& graph = *view.graph;
    std::vector<char> excluded(view.room.size(), 0);
    // All widths are shifted above 0, because a lack of room is no reason to be closed.
    double shift = 1;
    for (const std::int64_t room : view.room) {
        shift = std::max(shift, static_cast<double>(blocks * graph.n_layers() - room));
    }
    for (std::int32_t tried = 0; tried < kPaths; ++tried) {
        const WidePath nearest = widest_path(graph, [&](std::int32_t e) {
            const std::int32_t to = graph.edge(e).to;
            if (to == spec::kCoordinator) return std::numeric_limits<double>::infinity();
            const Stage stage = graph.stage(graph.edge(e));
            if (excluded[index(to)] != 0 || !may_hold(stage.worker, stage.layers)) return -1.0;
            return shift +
                   static_cast<double>(view.room[index(to)] - blocks * kv_layers_at(view, e));
        });
        if (nearest.path.empty() || nearest.width >= shift) return {};
        Clearing clearing(view, nearest.path, blocks, may_take);
        if (clearing.clear(static_cast<std::size_t>(most_moves))) {
            return {nearest.path, clearing.moves()};
        }
        excluded[index(clearing.stuck_at())] = 1;
    }
    return {};
}

}  // namespace helix::core
