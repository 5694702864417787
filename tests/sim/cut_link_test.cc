// The link between two workers is cut for long, while both still reach the coordinator.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/flat_cost.h"

namespace helix::sim::cut_link_test {
namespace {

constexpr std::int32_t kLayers = 6;
constexpr std::int32_t kVocab = 500;

// Worker 0 has the first half, all others the second. Only over links that the cluster has.
core::CoordinatorEvent halves(const core::PlanCluster& request) {
    core::Planned planned;
    planned.plan = request.plan;
    planned.placement.layers.push_back({0, 3});
    planned.flows.push_back({spec::kCoordinator, 0, 9});
    const auto linked = [&](std::int32_t to) {
        const auto& links = request.cluster.links;
        return std::any_of(links.begin(), links.end(), [to](const spec::LinkSpec& link) {
            return link.from == 0 && link.to == to;
        });
    };
    bool any = false;
    for (std::int32_t i = 1; i < static_cast<std::int32_t>(request.workers.size()); ++i) {
        planned.placement.layers.push_back({3, kLayers});
        if (!linked(i)) continue;
        any = true;
        planned.flows.push_back({0, i, 4});
        planned.flows.push_back({i, spec::kCoordinator, 4});
    }
    if (!any) return core::NotPlanned{request.plan, "no links lead through all layers"};
    return planned;
}

FaultyClusterConfig config(std::int32_t workers) {
    FaultyClusterConfig made;
    made.coordinator.n_layers = kLayers;
    made.coordinator.context_length = 512;
    made.coordinator.block_size = 4;
    made.coordinator.expected_output_tokens = 100;
    made.coordinator.min_workers = workers;
    made.worker.n_layers = kLayers;
    made.worker.block_size = 4;
    made.vocab = kVocab;
    return made;
}

class CutLink : public ::testing::Test {
  protected:
    void submit(FaultyCluster& world, int count) {
        for (int i = 0; i < count; ++i) {
            core::Request request;
            request.prompt.assign(static_cast<std::size_t>(20 + i), i % 7 + 1);
            request.max_tokens = 150;
            request.sampling.seed = static_cast<std::uint64_t>(i);
            sent_[world.submit(request)] = request;
        }
    }
    void expect_exact(const FaultyCluster& world) const {
        for (const auto& [id, outcome] : world.outcomes()) {
            const core::Request& request = sent_.at(id);
            EXPECT_EQ(outcome.reason, core::FinishReason::length) << outcome.error;
            EXPECT_EQ(outcome.tokens, toy_generate(request.prompt, request.max_tokens, kLayers,
                                                   request.sampling.seed, kVocab))
                << "request " << id.value;
        }
    }
    static void cut(FaultyCluster& world, double seconds) {
        const auto length_us = static_cast<std::int64_t>(seconds * 1e6);
        world.run_faults({{0, FaultKind::cut, 0, 1, 0, length_us, true},
                          {0, FaultKind::cut, 1, 0, 0, length_us, true}});
    }
    static core::WorkerView worker(const FaultyCluster& world, std::uint32_t id) {
        return world.view().workers.at(id);
    }

    const FlatCost cost_{0.002};
    std::map<core::RequestId, core::Request> sent_;
};

TEST_F(CutLink, RequestsGoOnOverAnotherWorkerUntilItIsBack) {
    FaultyCluster world(config(3), halves, cost_);
    for (int i = 0; i < 3; ++i) world.add_worker({}, 4000);
    world.run_for(2);
    submit(world, 8);
    world.run_for(0.3);
    ASSERT_GT(worker(world, 1).running, 0);
    cut(world, 60);
    world.run_for(4);  // 2.5 until it is noticed, 0.3 for a death to be told
    EXPECT_EQ(world.view().links_down.size(), 1U);
    EXPECT_GT(world.view().failovers, 0);
    EXPECT_EQ(worker(world, 1).running, 0);
    ASSERT_TRUE(world.run_until_idle(30)) << "long before the link is back";
    submit(world, 8);
    ASSERT_TRUE(world.run_until_idle(20)) << "nobody tries that link any more";
    world.run_for(60);
    EXPECT_TRUE(world.view().links_down.empty());
    submit(world, 8);
    world.run_for(0.3);
    EXPECT_GT(worker(world, 1).running, 0) << "the link is used again";
    ASSERT_TRUE(world.run_until_idle(30));
    expect_exact(world);
    world.run_for(2);
    EXPECT_EQ(world.pages_in_use(), 0);
}

TEST_F(CutLink, WithNoOtherWorkerRequestsWaitForIt) {
    FaultyCluster world(config(2), halves, cost_);
    for (int i = 0; i < 2; ++i) world.add_worker({}, 4000);
    world.run_for(2);
    submit(world, 4);
    world.run_for(0.3);
    cut(world, 20);
    world.run_for(10);
    EXPECT_EQ(world.view().waiting, 4);
    submit(world, 4);
    ASSERT_TRUE(world.run_until_idle(60));
    expect_exact(world);
    world.run_for(2);
    EXPECT_EQ(world.pages_in_use(), 0);
}

// ---- a link that carries only KV
// ---------------------------------------------------------------------------------------

// Every worker has the whole model: no rows go between them.
core::CoordinatorEvent alike(const core::PlanCluster& request) {
    core::Planned planned;
    planned.plan = request.plan;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(request.workers.size()); ++i) {
        planned.placement.layers.push_back({0, kLayers});
        planned.flows.push_back({spec::kCoordinator, i, 5});
        planned.flows.push_back({i, spec::kCoordinator, 5});
    }
    return planned;
}

TEST_F(CutLink, OneThatCarriesOnlyKvIsKnownToBeDownAndMovesGoElsewhere) {
    FaultyCluster world(config(3), alike, cost_);
    for (int i = 0; i < 3; ++i) world.add_worker({}, 4000);
    world.run_for(2);
    const auto move_from_first = [&](const core::Pipeline& to) {
        for (const auto& [id, outcome] : world.outcomes()) {
            if (outcome.ended || outcome.pipelines.back().front().worker.value != 0) continue;
            world.tell(core::MoveRequest{id, to});
        }
    };
    const auto moved = [&] {
        return world.view().migrations.of(core::MigrationReason::asked,
                                          core::MigrationPhase::committed);
    };
    const core::Pipeline over_the_link = {{{1}, {0, kLayers}}};
    submit(world, 12);
    world.run_for(0.3);
    ASSERT_GT(worker(world, 0).running, 0);
    cut(world, 60);
    move_from_first(over_the_link);
    world.run_for(0.5);
    EXPECT_GT(world.view().migrating, 0) << "nobody knows yet";
    world.run_for(3.5);
    EXPECT_EQ(world.view().links_down.size(), 1U);
    EXPECT_EQ(world.view().failovers, 0) << "no rows went over it";
    EXPECT_EQ(moved(), 0);
    ASSERT_TRUE(world.run_until_idle(60));
    submit(world, 12);
    world.run_for(0.3);
    move_from_first({});
    ASSERT_TRUE(world.run_until_idle(60));
    EXPECT_GT(moved(), 0) << "to the third worker";
    EXPECT_EQ(world.view().links_down.size(), 1U);
    world.run_for(60);
    EXPECT_TRUE(world.view().links_down.empty());
    const std::int64_t before = moved();
    submit(world, 12);
    world.run_for(0.3);
    move_from_first(over_the_link);
    ASSERT_TRUE(world.run_until_idle(60));
    EXPECT_GT(moved(), before) << "it is used again";
    expect_exact(world);
    world.run_for(2);
    EXPECT_EQ(world.leak(), "");
}

}  // namespace
}  // namespace helix::sim::cut_link_test
