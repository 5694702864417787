#include "sim/faults/faulty_cluster.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "base/random.h"
#include "sim/faults/toy_model.h"

namespace helix::sim::world_test {
namespace {

constexpr std::int32_t kLayers = 8;
constexpr std::int32_t kVocab = 500;

// A machine's speed is in its decode_s_per_layer; prompts cost a quarter per token.
class SimpleCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        return node.decode_s_per_layer * (1 + 0.1 * decode_seqs + 0.25 * prefill_tokens);
    }
};

struct FixedPlan {
    std::vector<spec::LayerRange> layers;
    std::vector<spec::LinkFlow> flows;
};

// The flows of every valid edge, equally wide.
FixedPlan all_edges(std::vector<spec::LayerRange> layers) {
    FixedPlan plan;
    plan.layers = std::move(layers);
    const auto n = static_cast<std::int32_t>(plan.layers.size());
    for (std::int32_t i = 0; i < n; ++i) {
        const spec::LayerRange a = plan.layers[static_cast<std::size_t>(i)];
        if (a.empty()) continue;
        if (a.begin == 0) plan.flows.push_back({spec::kCoordinator, i, 10});
        if (a.end == kLayers) plan.flows.push_back({i, spec::kCoordinator, 10});
        for (std::int32_t j = 0; j < n; ++j) {
            const spec::LayerRange b = plan.layers[static_cast<std::size_t>(j)];
            if (b.begin <= a.end && a.end < b.end) plan.flows.push_back({i, j, 10});
        }
    }
    return plan;
}

// Gives worker k of the cluster the k-th range; fails when some layer has no holder.
FaultyCluster::Plan planner(FixedPlan plan) {
    return [plan](const core::PlanCluster& request) -> core::CoordinatorEvent {
        core::Planned planned;
        planned.plan = request.plan;
        std::vector<spec::LayerRange> mine;
        for (const core::WorkerId id : request.workers) mine.push_back(plan.layers.at(id.value));
        for (std::int32_t layer = 0; layer < kLayers; ++layer) {
            bool held = false;
            for (const auto& range : mine) held = held || range.contains(layer);
            if (!held) return core::NotPlanned{request.plan, "a layer has no holder"};
        }
        planned.placement.layers = mine;
        planned.flows = all_edges(mine).flows;
        return planned;
    };
}

FaultyClusterConfig small_config() {
    FaultyClusterConfig config;
    config.coordinator.n_layers = kLayers;
    config.coordinator.context_length = 512;
    config.coordinator.block_size = 4;
    config.coordinator.expected_output_tokens = 20;
    config.worker.n_layers = kLayers;
    config.worker.block_size = 4;
    config.worker.max_batch_rows = 32;
    config.worker.mixed_prefill_rows = 8;
    config.vocab = kVocab;
    return config;
}

core::Request random_request(base::Random& random, std::int32_t max_prompt,
                             std::int32_t max_output) {
    core::Request request;
    const std::int64_t length = random.between(1, max_prompt);
    for (std::int64_t i = 0; i < length; ++i) {
        request.prompt.push_back(static_cast<core::Token>(random.below(kVocab)));
    }
    request.max_tokens = static_cast<std::int32_t>(random.between(1, max_output));
    request.sampling.seed = random.next();
    return request;
}

void expect_exact(const FaultyCluster& world, const std::map<core::RequestId, core::Request>& sent,
                  std::uint64_t seed) {
    for (const auto& [id, outcome] : world.outcomes()) {
        const core::Request& request = sent.at(id);
        const std::vector<core::Token> expected =
            toy_generate(request.prompt, static_cast<std::int32_t>(outcome.tokens.size()), kLayers,
                         request.sampling.seed, kVocab);
        ASSERT_EQ(outcome.tokens, expected)
            << "request " << id.value << " of seed " << seed
            << ", replay: helix_sim_test --gtest_filter=FaultyCluster.* (the seed is in the loop)";
        ASSERT_TRUE(outcome.ended);
    }
}

spec::NodeSpec node(const std::string& name, double speed) {
    spec::NodeSpec made;
    made.name = name;
    made.decode_s_per_layer = speed;
    return made;
}

TEST(FaultyCluster, OneWorkerAnswersExactly) {
    const SimpleCost cost;
    FaultyCluster world(small_config(), planner(all_edges({{0, kLayers}})), cost);
    world.add_worker(node("a", 0.001), 4000);
    base::Random random(1);
    std::map<core::RequestId, core::Request> sent;
    const core::Request request = random_request(random, 30, 20);
    sent[world.submit(request)] = request;
    ASSERT_TRUE(world.run_until_idle(100));
    expect_exact(world, sent, 1);
    const Outcome& outcome = world.outcomes().begin()->second;
    EXPECT_EQ(static_cast<std::int32_t>(outcome.tokens.size()), request.max_tokens);
    EXPECT_EQ(outcome.reason, core::FinishReason::length);
}

TEST(FaultyCluster, OverlappingRangesAndInterleavedRequestsAnswerExactly) {
    const SimpleCost cost;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        base::Random random(seed);
        FaultyCluster world(small_config(),
                            planner(all_edges({{0, 4}, {2, 6}, {4, 8}, {0, 3}, {3, 8}})), cost);
        for (int i = 0; i < 5; ++i) world.add_worker(node("w", 0.0005 * (1 + i)), 3000);
        std::map<core::RequestId, core::Request> sent;
        for (int i = 0; i < 16; ++i) {
            const core::Request request = random_request(random, 60, 30);
            sent[world.submit(request)] = request;
            world.run_for(random.uniform() * 0.05);
        }
        ASSERT_TRUE(world.run_until_idle(600)) << "seed " << seed;
        expect_exact(world, sent, seed);
        for (const auto& [id, outcome] : world.outcomes()) {
            EXPECT_EQ(outcome.reason, core::FinishReason::length) << outcome.error;
        }
        world.run_for(2);
        EXPECT_EQ(world.pages_in_use(), 0) << "seed " << seed;
    }
}

// So little memory that requests wait, and expectations so wrong that running ones are preempted.
TEST(FaultyCluster, PreemptionIsExactAndLeaksNothing) {
    const SimpleCost cost;
    std::int64_t preemptions = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        base::Random random(seed);
        FaultyClusterConfig config = small_config();
        config.coordinator.expected_output_tokens = 1;
        FaultyCluster world(config, planner(all_edges({{0, 4}, {4, 8}})), cost);
        world.add_worker(node("a", 0.001), 4 * 30);
        world.add_worker(node("b", 0.001), 4 * 30);
        std::map<core::RequestId, core::Request> sent;
        for (int i = 0; i < 12; ++i) {
            const core::Request request = random_request(random, 40, 60);
            sent[world.submit(request)] = request;
        }
        ASSERT_TRUE(world.run_until_idle(2000)) << "seed " << seed;
        expect_exact(world, sent, seed);
        for (const auto& [id, outcome] : world.outcomes()) {
            EXPECT_EQ(outcome.reason, core::FinishReason::length) << outcome.error;
            EXPECT_EQ(static_cast<std::int32_t>(outcome.tokens.size()), sent.at(id).max_tokens);
        }
        preemptions += world.view().preemptions;
        world.run_for(2);
        EXPECT_EQ(world.pages_in_use(), 0) << "seed " << seed;
    }
    EXPECT_GT(preemptions, 20);
}

TEST(FaultyCluster, AWorkerThatDiesEndsItsRequestsOnlyAndCanComeBack) {
    const SimpleCost cost;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        base::Random random(seed);
        // Two whole pipelines: 0 -> 1 and 2 alone.
        FaultyCluster world(small_config(), planner(all_edges({{0, 4}, {4, 8}, {0, 8}})), cost);
        for (int i = 0; i < 3; ++i) world.add_worker(node("w" + std::to_string(i), 0.001), 3000);
        std::map<core::RequestId, core::Request> sent;
        for (int i = 0; i < 20; ++i) {
            const core::Request request = random_request(random, 30, 60);
            sent[world.submit(request)] = request;
        }
        world.run_for(1 + random.uniform());
        const core::WorkerId victim{static_cast<std::uint32_t>(random.below(3))};
        world.kill(victim);
        world.run_for(random.uniform());
        world.rejoin(victim);
        for (int i = 0; i < 5; ++i) {
            const core::Request request = random_request(random, 30, 20);
            sent[world.submit(request)] = request;
        }
        ASSERT_TRUE(world.run_until_idle(600)) << "seed " << seed;
        expect_exact(world, sent, seed);  // what was streamed is right even where it was cut short
        int served = 0;
        for (const auto& [id, outcome] : world.outcomes()) {
            if (outcome.reason == core::FinishReason::error) {
                EXPECT_NE(outcome.error.find("worker w" + std::to_string(victim.value)),
                          std::string::npos)
                    << outcome.error;
                bool used = false;
                for (const core::Stage& stage : outcome.pipelines.back()) {
                    used = used || stage.worker == victim;
                }
                EXPECT_TRUE(used) << "a request that did not use the victim was ended";
            } else {
                ++served;
            }
        }
        EXPECT_GE(served, 5);
        world.run_for(2);
        EXPECT_EQ(world.pages_in_use(), 0) << "seed " << seed;
    }
}

TEST(FaultyCluster, CancelledRequestsGiveTheirPagesBackAtOnce) {
    const SimpleCost cost;
    FaultyCluster world(small_config(), planner(all_edges({{0, 4}, {4, 8}})), cost);
    world.add_worker(node("a", 0.001), 3000);
    world.add_worker(node("b", 0.001), 3000);
    world.run_for(2);
    base::Random random(5);
    for (int i = 0; i < 10; ++i) {
        core::Request request = random_request(random, 100, 10);
        request.max_tokens = 300;
        const core::RequestId id = world.submit(request);
        world.run_for(random.uniform() * 0.3);
        world.cancel(id);
        EXPECT_EQ(world.outcomes().at(id).reason, core::FinishReason::cancelled);
    }
    world.run_for(2);
    EXPECT_EQ(world.pages_in_use(), 0);
}

TEST(FaultyCluster, WhatCanNeverFitIsRefusedWithTheReasonAndWhatDoesNotFitNowWaits) {
    const SimpleCost cost;
    FaultyCluster world(small_config(), planner(all_edges({{0, kLayers}})), cost);
    world.add_worker(node("a", 0.001), 8 * 25);  // room for 100 tokens, one page of it kept free
    core::Request request;
    request.prompt.assign(90, 1);
    request.max_tokens = 20;
    const core::RequestId never = world.submit(request);
    request.max_tokens = 5;
    const core::RequestId first = world.submit(request);
    const core::RequestId second = world.submit(request);
    request.prompt.assign(600, 1);
    const core::RequestId too_long = world.submit(request);
    ASSERT_TRUE(world.run_until_idle(100));
    EXPECT_TRUE(world.outcomes().at(never).rejected);
    EXPECT_NE(world.outcomes().at(never).error.find("holds 96"), std::string::npos)
        << world.outcomes().at(never).error;
    EXPECT_TRUE(world.outcomes().at(too_long).rejected);
    EXPECT_EQ(world.outcomes().at(first).reason, core::FinishReason::length);
    EXPECT_EQ(world.outcomes().at(second).reason, core::FinishReason::length);
    EXPECT_GT(world.outcomes().at(second).first_token_at, world.outcomes().at(first).ended_at);
}

TEST(FaultyCluster, ShortAnswersComeBackWhileALongOneRuns) {
    const SimpleCost cost;
    FaultyCluster world(small_config(), planner(all_edges({{0, 4}, {4, 8}})), cost);
    world.add_worker(node("a", 0.001), 4000);
    world.add_worker(node("b", 0.001), 4000);
    world.run_for(2);
    core::Request request;
    request.prompt.assign(10, 3);
    request.max_tokens = 200;
    const core::RequestId longer = world.submit(request);
    world.run_for(0.5);
    request.max_tokens = 3;
    const core::RequestId shorter = world.submit(request);
    ASSERT_TRUE(world.run_until_idle(100));
    EXPECT_LT((world.outcomes().at(shorter).ended_at - world.outcomes().at(shorter).submitted_at)
                  .seconds(),
              0.3);
    EXPECT_GT(world.outcomes().at(longer).ended_at, world.outcomes().at(shorter).ended_at);
}

TEST(FaultyCluster, AFullQueueRefuses) {
    const SimpleCost cost;
    FaultyClusterConfig config = small_config();
    config.coordinator.max_waiting = 3;
    FaultyCluster world(config, planner(all_edges({{0, kLayers}})), cost);
    core::Request request;
    request.prompt = {1, 2};
    request.max_tokens = 2;
    for (int i = 0; i < 5; ++i) world.submit(request);
    world.add_worker(node("a", 0.001), 1000);
    ASSERT_TRUE(world.run_until_idle(100));
    int rejected = 0;
    for (const auto& [id, outcome] : world.outcomes()) rejected += outcome.rejected ? 1 : 0;
    EXPECT_EQ(rejected, 2);
}

TEST(FaultyCluster, WithoutEnoughWorkersRequestsEndWithAReason) {
    const SimpleCost cost;
    FaultyCluster world(small_config(), planner(all_edges({{0, 4}, {4, 8}})), cost);
    world.add_worker(node("a", 0.001), 1000);
    core::Request request;
    request.prompt = {1, 2};
    request.max_tokens = 2;
    const core::RequestId id = world.submit(request);
    ASSERT_TRUE(world.run_until_idle(100));
    EXPECT_TRUE(world.outcomes().at(id).rejected);
    EXPECT_NE(world.outcomes().at(id).error.find("1 worker(s) joined"), std::string::npos);
}

TEST(FaultyCluster, EqualSeedsGiveEqualDigests) {
    const SimpleCost cost;
    const auto run = [&](std::uint64_t seed) {
        base::Random random(seed);
        FaultyCluster world(small_config(), planner(all_edges({{0, 4}, {4, 8}, {0, 8}})), cost);
        for (int i = 0; i < 3; ++i) world.add_worker(node("w", 0.001 * (i + 1)), 600);
        for (int i = 0; i < 10; ++i) {
            world.submit(random_request(random, 40, 30));
            world.run_for(random.uniform() * 0.1);
        }
        EXPECT_TRUE(world.run_until_idle(600));
        return world.digest();
    };
    EXPECT_EQ(run(3), run(3));
    EXPECT_NE(run(3), run(4));
}

}  // namespace
}  // namespace helix::sim::world_test
