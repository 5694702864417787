#include "core/pipeline_router.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "base/random.h"

namespace helix::core {
namespace {

using spec::kCoordinator;

const StageFits kAlways = [](WorkerId, LayerRange) { return true; };

WorkerId worker(std::int32_t i) {
    return {static_cast<std::uint32_t>(i)};
}

struct Random3 {
    std::int32_t n_layers = 0;
    std::vector<PipelineRouter::Node> nodes;
    std::vector<spec::LinkFlow> flows;
};

// Ranges and flows without any plan behind them: overlaps, gaps, edges that cannot be used.
Random3 random_placement(base::Random& random) {
    Random3 made;
    made.n_layers = static_cast<std::int32_t>(random.between(1, 8));
    const auto n = static_cast<std::int32_t>(random.between(1, 6));
    for (std::int32_t i = 0; i < n; ++i) {
        const auto begin = static_cast<std::int32_t>(random.between(0, made.n_layers - 1));
        const auto end = static_cast<std::int32_t>(random.between(begin, made.n_layers));
        made.nodes.push_back({worker(i), {begin, end}});
    }
    for (std::int32_t from = kCoordinator; from < n; ++from) {
        for (std::int32_t to = kCoordinator; to < n; ++to) {
            if (from == to || random.chance(0.2)) continue;
            made.flows.push_back({from, to, random.chance(0.1) ? 0.0 : random.uniform() * 100});
        }
    }
    return made;
}

// Is there a pipeline, by trying all of them (independent of the router)?
bool exists(const Random3& p, const StageFits& fits, std::int32_t at, std::int32_t position) {
    for (const spec::LinkFlow& flow : p.flows) {
        if (flow.from != at || flow.tokens_per_s <= 1e-9) continue;
        if (flow.to == kCoordinator) {
            if (at != kCoordinator && position == p.n_layers) return true;
            continue;
        }
        const LayerRange next = p.nodes[static_cast<std::size_t>(flow.to)].layers;
        if (at == kCoordinator && next.begin != 0) continue;
        if (next.begin > position || next.end <= position) continue;
        if (!fits(worker(flow.to), {position, next.end})) continue;
        if (exists(p, fits, flow.to, next.end)) return true;
    }
    return false;
}

TEST(PipelineRouter, EveryPipelineJoinsAndOneIsFoundWheneverOneExists) {
    constexpr int kPlacements = 100000;
    int found = 0;
    for (int seed = 0; seed < kPlacements; ++seed) {
        base::Random random(static_cast<std::uint64_t>(seed));
        const Random3 placement = random_placement(random);
        std::set<std::uint32_t> full;
        for (const auto& node : placement.nodes) {
            if (random.chance(0.3)) full.insert(node.worker.value);
        }
        const StageFits fits = [&](WorkerId w, LayerRange) { return !full.contains(w.value); };
        PipelineRouter router(placement.n_layers, placement.nodes, placement.flows);
        const bool expected = exists(placement, fits, kCoordinator, 0);
        ASSERT_EQ(router.reachable(fits), expected) << "seed " << seed;
        const Pipeline pipeline = router.route(1 + static_cast<double>(random.below(1000)), fits);
        ASSERT_EQ(!pipeline.empty(), expected) << "seed " << seed;
        if (pipeline.empty()) continue;
        ++found;
        std::int32_t next = 0;
        for (const Stage& stage : pipeline) {
            ASSERT_EQ(stage.layers.begin, next) << "seed " << seed;
            ASSERT_FALSE(stage.layers.empty()) << "seed " << seed;
            ASSERT_TRUE(fits(stage.worker, stage.layers)) << "seed " << seed;
            const LayerRange held = placement.nodes[stage.worker.value].layers;
            ASSERT_TRUE(held.contains(stage.layers)) << "seed " << seed;
            ASSERT_EQ(held.end, stage.layers.end) << "seed " << seed;
            next = stage.layers.end;
        }
        ASSERT_EQ(next, placement.n_layers) << "seed " << seed;
    }
    EXPECT_GT(found, kPlacements / 10);  // the draw is not trivially empty
}

TEST(PipelineRouter, SharesFollowTheFlowWithoutBursts) {
    const std::vector<PipelineRouter::Node> nodes = {
        {worker(0), {0, 2}}, {worker(1), {0, 2}}, {worker(2), {2, 4}}};
    const std::vector<spec::LinkFlow> flows = {{kCoordinator, 0, 30},
                                               {kCoordinator, 1, 10},
                                               {0, 2, 30},
                                               {1, 2, 10},
                                               {2, kCoordinator, 40}};
    PipelineRouter router(4, nodes, flows);
    std::map<std::uint32_t, int> count;
    int run = 0;
    int longest = 0;
    std::uint32_t last = 99;
    for (int i = 0; i < 4000; ++i) {
        const Pipeline pipeline = router.route(1, kAlways);
        ASSERT_EQ(pipeline.size(), 2U);
        const std::uint32_t first = pipeline[0].worker.value;
        ++count[first];
        run = first == last ? run + 1 : 1;
        longest = std::max(longest, run);
        last = first;
    }
    EXPECT_NEAR(count[0] / 4000.0, 0.75, 0.01);
    EXPECT_LE(longest, 3);  // FEATURES H14: weights 3:1 never run more than 3 of a kind
}

TEST(PipelineRouter, PartialOverlapRunsOnlyWhatIsLeft) {
    const std::vector<PipelineRouter::Node> nodes = {{worker(0), {0, 5}}, {worker(1), {3, 8}}};
    PipelineRouter router(8, nodes, {{kCoordinator, 0, 1}, {0, 1, 1}, {1, kCoordinator, 1}});
    EXPECT_EQ(router.route(1, kAlways), (Pipeline{{worker(0), {0, 5}}, {worker(1), {5, 8}}}));
}

TEST(PipelineRouter, AFullWorkerDeepInTheRouteIsAvoidedAtTheFirstHop) {
    // 0 leads only to 2, which is full; 1 leads only to 3.
    const std::vector<PipelineRouter::Node> nodes = {
        {worker(0), {0, 2}}, {worker(1), {0, 2}}, {worker(2), {2, 4}}, {worker(3), {2, 4}}};
    const std::vector<spec::LinkFlow> flows = {
        {kCoordinator, 0, 99}, {kCoordinator, 1, 1}, {0, 2, 99}, {1, 3, 1},
        {2, kCoordinator, 99}, {3, kCoordinator, 1}};
    PipelineRouter router(4, nodes, flows);
    const StageFits fits = [](WorkerId w, LayerRange) { return w.value != 2; };
    EXPECT_EQ(router.route(1, fits), (Pipeline{{worker(1), {0, 2}}, {worker(3), {2, 4}}}));
}

TEST(PipelineRouter, NothingFitsGivesNothingAndChangesNoShare) {
    const std::vector<PipelineRouter::Node> nodes = {{worker(0), {0, 4}}, {worker(1), {0, 4}}};
    const std::vector<spec::LinkFlow> flows = {
        {kCoordinator, 0, 1}, {kCoordinator, 1, 1}, {0, kCoordinator, 1}, {1, kCoordinator, 1}};
    PipelineRouter a(4, nodes, flows);
    PipelineRouter b(4, nodes, flows);
    for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(a.route(1, [](WorkerId, LayerRange) { return false; }).empty());
        EXPECT_EQ(a.route(1, kAlways), b.route(1, kAlways));
    }
    EXPECT_EQ(a.min_depth(), 1);
}

}  // namespace
}  // namespace helix::core
