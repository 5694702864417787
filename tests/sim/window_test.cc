// Models of which some layers have a window, in the simulated world: what was given back is not
// missed wherever a request goes, and its memory is there for others.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/flat_cost.h"

namespace helix::sim::window_test {
namespace {

constexpr std::int32_t kLayers = 8;
constexpr std::int32_t kVocab = 500;
constexpr std::int32_t kBlock = 4;

// Of one stage and of two, which overlap.
constexpr spec::LayerRange kRanges[] = {{0, kLayers}, {0, 5}, {3, kLayers}, {0, 6}, {0, kLayers}};

core::CoordinatorEvent plan_all(const core::PlanCluster& request) {
    core::Planned planned;
    planned.plan = request.plan;
    const auto n = static_cast<std::int32_t>(request.workers.size());
    bool served = false;
    for (const core::WorkerId id : request.workers) {
        planned.placement.layers.push_back(kRanges[id.value]);
        served = served || kRanges[id.value].size() == kLayers;
    }
    if (!served) return core::NotPlanned{request.plan, "nobody holds all layers"};
    for (std::int32_t i = 0; i < n; ++i) {
        const spec::LayerRange from = planned.placement.layers[static_cast<std::size_t>(i)];
        if (from.begin == 0) planned.flows.push_back({spec::kCoordinator, i, 10});
        if (from.end == kLayers) planned.flows.push_back({i, spec::kCoordinator, 10});
        for (std::int32_t j = 0; j < n; ++j) {
            const spec::LayerRange to = planned.placement.layers[static_cast<std::size_t>(j)];
            if (to.begin <= from.end && from.end < to.end) planned.flows.push_back({i, j, 10});
        }
    }
    return planned;
}

FaultyClusterConfig config(const spec::AttentionWindow& window) {
    FaultyClusterConfig config;
    config.coordinator.n_layers = kLayers;
    config.coordinator.context_length = 512;
    config.coordinator.block_size = kBlock;
    config.coordinator.expected_output_tokens = 40;
    config.worker.n_layers = kLayers;
    config.worker.block_size = kBlock;
    config.worker.transfer_pages = 64;
    config.worker.max_batch_rows = 32;
    config.vocab = kVocab;
    config.coordinator.window = config.worker.window = window;
    return config;
}

spec::AttentionWindow three_of_four(std::int32_t positions, bool chunked = false) {
    return {positions, chunked, spec::all_but_every(4, kLayers)};
}

class World {
  public:
    World(const FaultyClusterConfig& how, int workers, std::int64_t pages)
        : window_(how.coordinator.window), cluster_(how, plan_all, cost_) {
        spec::NodeSpec node;
        for (int i = 0; i < workers; ++i) {
            node.name = "w" + std::to_string(i);
            cluster_.add_worker(node, pages);
        }
    }
    core::RequestId submit(base::Random& random, std::int64_t prompt, std::int32_t output) {
        core::Request request;
        for (std::int64_t t = prompt; t > 0; --t)
            request.prompt.push_back(static_cast<core::Token>(random.below(kVocab)));
        request.max_tokens = output;
        request.sampling.seed = random.next();
        const core::RequestId id = cluster_.submit(request);
        sent_[id] = request;
        return id;
    }
    // That all have ended with the right tokens, and nothing is left of them.
    void expect_right() {
        cluster_.calm();
        cluster_.run_for(30);
        EXPECT_EQ(cluster_.leak(), "");
        for (const auto& [id, outcome] : cluster_.outcomes()) {
            const core::Request& request = sent_.at(id);
            EXPECT_EQ(outcome.reason, core::FinishReason::length) << id.value;
            EXPECT_EQ(outcome.tokens, toy_generate(request.prompt, request.max_tokens, kLayers,
                                                   request.sampling.seed, kVocab, window_))
                << "request " << id.value;
        }
    }
    FaultyCluster& operator*() { return cluster_; }
    FaultyCluster* operator->() { return &cluster_; }

  private:
    const FlatCost cost_{0.001, 0.1, 0.25};
    spec::AttentionWindow window_;
    FaultyCluster cluster_;
    std::map<core::RequestId, core::Request> sent_;
};

// Returns how many moves were committed.
std::int64_t move_about(std::uint64_t seed, const spec::AttentionWindow& window) {
    FaultyClusterConfig how = config(window);
    how.fault_seed = seed;
    how.coordinator.prefix_cache = how.worker.prefix_cache = seed % 2 == 0;
    how.coordinator.speculation.ngram_tokens = seed % 3 == 0 ? 4 : 0;
    World world(how, 5, 4000);
    base::Random random(seed);
    for (int i = 0; i < 6; ++i) {
        world.submit(random, random.between(1, 60),
                     static_cast<std::int32_t>(random.between(20, 120)));
    }
    for (int i = 0; i < 60; ++i) {
        world->run_for(random.uniform() * 0.1);
        const core::RequestId id{1 + random.below(6)};
        if (!world->outcomes().at(id).ended) world->tell(core::MoveRequest{id, {}});
    }
    EXPECT_TRUE(world->run_until_idle(300)) << "seed " << seed;
    world.expect_right();
    return world->probes().count(Probe::migrated);
}

TEST(Window, RequestsMoveWithoutWhatTheyGaveBack) {
    std::int64_t moves = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        constexpr std::int32_t kPositions[] = {1, 3, 8, 20, 33};
        spec::AttentionWindow window = three_of_four(kPositions[seed % 5], seed % 4 == 1);
        // In some all layers have it, so that now and then a round has nothing left to send.
        if (seed % 6 == 2) window.layers.assign(kLayers, true);
        moves += move_about(seed, window);
        if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    }
    EXPECT_GT(moves, 150);
}

// How many requests ran at once, at most, on a worker with so many pages.
std::int64_t most_running(const spec::AttentionWindow& window, core::Preemption preemption,
                          std::int64_t pages) {
    FaultyClusterConfig how = config(window);
    how.coordinator.preemption = preemption;
    how.swap_pages = preemption == core::Preemption::swap ? 2000 : 0;
    World world(how, 1, pages);
    base::Random random(3);
    for (int i = 0; i < 12; ++i) world.submit(random, 120, 60);
    std::int64_t most = 0;
    for (int i = 0; i < 4000 && !world->run_until_idle(0.05); ++i) {
        for (const core::WorkerView& worker : world->view().workers)
            most = std::max(most, worker.running);
    }
    world.expect_right();
    return most;
}

TEST(Window, MoreRequestsRunAtATime) {
    // 45 blocks of each of 8 layers are one request without a window.
    const std::int64_t plain = most_running({}, core::Preemption::recompute, 800);
    const std::int64_t windowed = most_running(three_of_four(12), core::Preemption::recompute, 800);
    EXPECT_LE(plain, 3);
    EXPECT_GE(windowed, 6);
    EXPECT_GE(most_running(three_of_four(12, true), core::Preemption::swap, 800), 6);
}

TEST(Window, RequestsAreSwappedWithoutWhatTheyGaveBack) {
    // So that they are let in and then find no page.
    FaultyClusterConfig how = config(three_of_four(12));
    how.coordinator.preemption = core::Preemption::swap;
    how.coordinator.expected_output_tokens = 0;
    how.coordinator.policy.kv_high_water = 1;
    how.swap_pages = 2000;
    World world(how, 1, 500);
    base::Random random(4);
    for (int i = 0; i < 12; ++i) world.submit(random, 30, 180);
    EXPECT_TRUE(world->run_until_idle(300));
    EXPECT_GT(world->probes().count(Probe::preempted), 0);
    world.expect_right();
}

TEST(Window, ARequestFitsThatKeepingAllWouldNot) {
    const auto rejected = [](const spec::AttentionWindow& window) {
        World world(config(window), 1, 8 * 40);
        base::Random random(5);
        const core::RequestId id = world.submit(random, 250, 60);
        EXPECT_TRUE(world->run_until_idle(300));
        const Outcome& outcome = world->outcomes().at(id);
        if (!outcome.rejected) world.expect_right();
        return outcome.rejected;
    };
    EXPECT_TRUE(rejected({}));
    EXPECT_FALSE(rejected(three_of_four(12)));
}

}  // namespace
}  // namespace helix::sim::window_test
