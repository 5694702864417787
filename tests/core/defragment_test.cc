#include "core/coordinator/defragment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"

namespace helix::core::defragment_test {
namespace {

using spec::kCoordinator;

const MayTake kAny = [](const BalanceRequest&, WorkerId, LayerRange) { return true; };
const StageFits kHolds = [](WorkerId, LayerRange) { return true; };

// Nodes that each hold the whole model. Of one layer a page is a block.
PipelineGraph lanes(std::int32_t n, std::int32_t layers = 1) {
    std::vector<PipelineNode> nodes;
    std::vector<PipelineEdge> edges;
    for (std::int32_t i = 0; i < n; ++i) {
        nodes.push_back({{static_cast<std::uint32_t>(i)}, {0, layers}});
        edges.push_back({kCoordinator, i, 10});
        edges.push_back({i, kCoordinator, 10});
    }
    return {layers, std::move(nodes), edges};
}

struct Placed {
    std::int32_t lane;
    std::int64_t blocks;
    std::int32_t priority = 0;
};

RoomView view_of(const PipelineGraph& graph, std::int64_t pages, const std::vector<Placed>& all) {
    RoomView view;
    view.graph = &graph;
    view.room.assign(graph.nodes().size(), pages);
    for (std::size_t i = 0; i < all.size(); ++i) {
        PlacedRequest placed;
        placed.request.id = {i + 1};
        placed.request.priority = all[i].priority;
        placed.request.path =
            graph.path({{{static_cast<std::uint32_t>(all[i].lane)}, {0, graph.n_layers()}}});
        placed.blocks = all[i].blocks;
        view.room[static_cast<std::size_t>(all[i].lane)] -= all[i].blocks;
        view.requests.push_back(std::move(placed));
    }
    return view;
}

TEST(Defragment, TheRequestThatJustSufficesMakesRoom) {
    const PipelineGraph graph = lanes(2);
    // Each has 50 free, and 80 are wanted at once.
    const RoomView view = view_of(graph, 100, {{0, 10}, {0, 30}, {0, 10}, {1, 50}});
    const auto moves = plan_room(view, 80, 4, kHolds, kAny).moves;
    ASSERT_EQ(moves.size(), 1U);
    EXPECT_EQ(moves[0].id.value, 2U);
    EXPECT_EQ(graph.edge(moves[0].to.front()).to, 1);
}

TEST(Defragment, LayersWithoutKvOfTheirOwnTakeNoRoom) {
    const PipelineGraph graph = lanes(2, 4);
    RoomView view = view_of(graph, 100, {{0, 10}, {0, 30}, {0, 10}, {1, 50}});
    view.shared_kv_layers = 3;
    const auto moves = plan_room(view, 80, 4, kHolds, kAny).moves;
    ASSERT_EQ(moves.size(), 1U);
    EXPECT_EQ(moves[0].id.value, 2U);
}

TEST(Defragment, LowPriorityMovesBeforeWhatFitsBetter) {
    const PipelineGraph graph = lanes(2);
    const RoomView view = view_of(graph, 100, {{0, 30, 1}, {0, 40, 0}, {1, 30}});
    const auto moves = plan_room(view, 60, 4, kHolds, kAny).moves;
    ASSERT_EQ(moves.size(), 0U);  // there is a lane with 70
    const auto more = plan_room(view, 75, 4, kHolds, kAny).moves;
    ASSERT_EQ(more.size(), 1U);  // from the lane that lacks least
    EXPECT_EQ(more[0].id.value, 3U);
}

TEST(Defragment, NothingMovesInVain) {
    const PipelineGraph graph = lanes(2);
    const RoomView view = view_of(graph, 100, {{0, 60}, {1, 60}});
    EXPECT_TRUE(plan_room(view, 80, 4, kHolds, kAny).moves.empty());  // all in all too full
    EXPECT_TRUE(plan_room(view, 40, 4, kHolds, kAny).moves.empty());  // it fits as it is
    const RoomView many = view_of(graph, 100, {{0, 20}, {0, 20}, {0, 20}, {1, 20}});
    EXPECT_TRUE(plan_room(many, 100, 0, kHolds, kAny).moves.empty());  // no moves allowed
    EXPECT_EQ(plan_room(many, 100, 1, kHolds, kAny).moves.size(), 1U);
    const MayTake none = [](const BalanceRequest&, WorkerId, LayerRange) { return false; };
    EXPECT_TRUE(plan_room(many, 100, 4, kHolds, none).moves.empty());
    const StageFits never = [](WorkerId, LayerRange) { return false; };
    EXPECT_TRUE(plan_room(many, 100, 4, never, kAny).moves.empty());
}

// Of two stages only the second is scattered, so only that one moves.
TEST(Defragment, MovesOnlyTheStageThatIsInTheWay) {
    const PipelineGraph graph(
        2, {{{0}, {0, 1}}, {{1}, {1, 2}}, {{2}, {1, 2}}},
        {{kCoordinator, 0, 5}, {0, 1, 5}, {0, 2, 5}, {1, kCoordinator, 5}, {2, kCoordinator, 5}});
    RoomView view;
    view.graph = &graph;
    view.room = {500, 50, 50};
    for (std::uint64_t i = 0; i < 2; ++i) {
        PlacedRequest placed;
        placed.request.id = {i + 1};
        placed.request.path =
            graph.path({{{0}, {0, 1}}, {{static_cast<std::uint32_t>(i + 1)}, {1, 2}}});
        placed.blocks = 40;
        view.requests.push_back(placed);
    }
    const auto moves = plan_room(view, 80, 4, kHolds, kAny).moves;
    ASSERT_EQ(moves.size(), 1U);
    EXPECT_EQ(moves[0].id.value, 1U);
    EXPECT_EQ(graph.pipeline(moves[0].to).back().worker.value, 2U);
}

// Whatever it plans fits everywhere and leaves room for the one that waits.
TEST(Defragment, PlansHold) {
    std::size_t planned = 0;
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(2, 5));
        const PipelineGraph graph = lanes(n);
        std::vector<Placed> all;
        std::vector<std::int64_t> left(static_cast<std::size_t>(n), 100);
        for (int i = 0; i < 30; ++i) {
            const auto lane =
                static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(n)));
            const std::int64_t blocks = random.between(1, 25);
            if (left[static_cast<std::size_t>(lane)] < blocks) continue;
            left[static_cast<std::size_t>(lane)] -= blocks;
            all.push_back({lane, blocks, static_cast<std::int32_t>(random.between(0, 1))});
        }
        const RoomView view = view_of(graph, 100, all);
        const std::int64_t wanted = random.between(20, 100);
        const auto moves = plan_room(view, wanted, 6, kHolds, kAny).moves;
        if (moves.empty()) continue;
        ++planned;
        std::vector<std::int64_t> room = view.room;
        std::map<std::uint64_t, int> times;
        for (const Move& move : moves) {
            const PlacedRequest& placed = view.requests[move.id.value - 1];
            EXPECT_EQ(++times[move.id.value], 1) << "seed " << seed;
            room[static_cast<std::size_t>(graph.edge(placed.request.path.front()).to)] +=
                placed.blocks;
            room[static_cast<std::size_t>(graph.edge(move.to.front()).to)] -= placed.blocks;
        }
        for (const std::int64_t pages : room) EXPECT_GE(pages, 0) << "seed " << seed;
        EXPECT_GE(*std::max_element(room.begin(), room.end()), wanted) << "seed " << seed;
    }
    EXPECT_GT(planned, 50U);
}

}  // namespace
}  // namespace helix::core::defragment_test
