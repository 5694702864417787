// Requests that move while they run, in the simulated world, whose pages have content.

#include <gtest/gtest.h>

#include "base/log.h"
#include "base/random.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/flat_cost.h"

namespace helix::sim::migration_test {
namespace {

constexpr std::int32_t kLayers = 8;
constexpr std::int32_t kVocab = 500;

// Of one stage and of two, which overlap.
constexpr spec::LayerRange kRanges[] = {{0, kLayers}, {0, 5}, {3, kLayers}, {0, 6}, {0, kLayers}};
constexpr int kWorkers = 5;

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

FaultyClusterConfig config() {
    FaultyClusterConfig config;
    config.coordinator.n_layers = kLayers;
    config.coordinator.context_length = 512;
    config.coordinator.block_size = 4;
    config.coordinator.expected_output_tokens = 40;
    config.worker.n_layers = kLayers;
    config.worker.block_size = 4;
    config.worker.transfer_pages = 64;
    config.vocab = kVocab;
    return config;
}

struct Moves {
    std::int64_t committed = 0;
    std::int64_t given_up = 0;
};

Moves run_seed(std::uint64_t seed, bool with_faults) {
    const FlatCost cost(0.001, 0.1, 0.25);
    FaultyClusterConfig how = config();
    how.fault_seed = seed;
    FaultyCluster world(how, plan_all, cost);
    spec::NodeSpec node;
    for (int i = 0; i < kWorkers; ++i) {
        node.name = "w" + std::to_string(i);
        world.add_worker(node, 4000);
    }
    base::Random random(seed);
    std::map<core::RequestId, core::Request> sent;
    for (int i = 0; i < 6; ++i) {
        core::Request request;
        for (std::int64_t t = random.between(1, 60); t > 0; --t) {
            request.prompt.push_back(static_cast<core::Token>(random.below(kVocab)));
        }
        request.max_tokens = static_cast<std::int32_t>(random.between(20, 120));
        request.sampling.seed = random.next();
        sent[world.submit(request)] = request;
    }
    if (with_faults) {
        FaultPlan faults;
        for (int i = 0; i < 4; ++i) {
            Fault fault;
            fault.at_us = static_cast<std::int64_t>(random.below(2'000'000));
            fault.for_us = static_cast<std::int64_t>(random.below(400'000));
            fault.kind = random.chance(0.5) ? FaultKind::kill : FaultKind::cut;
            fault.a = static_cast<std::int32_t>(random.below(kWorkers));
            fault.b = (fault.a + 1) % kWorkers;
            fault.drops = fault.kind == FaultKind::cut;
            faults.push_back(fault);
        }
        world.run_faults(faults);
    }
    for (int i = 0; i < 60; ++i) {
        world.run_for(random.uniform() * 0.1);
        const core::RequestId id{1 + random.below(6)};
        if (!world.outcomes().at(id).ended) world.tell(core::MoveRequest{id, {}});
    }
    EXPECT_TRUE(world.run_until_idle(300)) << "seed " << seed;
    world.calm();
    world.run_for(30);
    EXPECT_EQ(world.leak(), "") << "seed " << seed;
    for (const auto& [id, outcome] : world.outcomes()) {
        const core::Request& request = sent.at(id);
        EXPECT_EQ(outcome.tokens,
                  toy_generate(request.prompt, static_cast<std::int32_t>(outcome.tokens.size()),
                               kLayers, request.sampling.seed, kVocab))
            << "request " << id.value << " of seed " << seed;
        if (!with_faults) {
            EXPECT_EQ(outcome.reason, core::FinishReason::length);
        }
    }
    return {world.probes().count(Probe::migrated), world.probes().count(Probe::migration_given_up)};
}

TEST(Migration, MovedWhileTheyRunRequestsGoOnWithTheSameText) {
    Moves all;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        const Moves moves = run_seed(seed, false);
        all.committed += moves.committed;
        if (HasFailure()) return;
    }
    EXPECT_GT(all.committed, 200);
}

TEST(Migration, AlsoWhenWorkersDieAndLinksBreakMeanwhile) {
    Moves all;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        const Moves moves = run_seed(seed, true);
        all.committed += moves.committed;
        all.given_up += moves.given_up;
        if (HasFailure()) return;
    }
    EXPECT_GT(all.committed, 10);
    EXPECT_GT(all.given_up, 3);
}

struct SlowLink {
    FlatCost cost{0.001, 0.1, 0.25};
    FaultyCluster world;

    SlowLink(double bytes_per_s, std::int32_t moves_at_once)
        : world(how(bytes_per_s, moves_at_once), plan_all, cost) {
        spec::NodeSpec node;
        for (int i = 0; i < kWorkers; ++i) world.add_worker(node, 20'000);
        world.run_for(2);
        // As slow as somebody who reads.
        for (int i = 0; i < kWorkers; ++i) {
            Fault slow;
            slow.kind = FaultKind::slow_node;
            slow.a = i;
            slow.amount = 30;
            slow.for_us = 1'000'000'000;
            world.run_faults({slow});
        }
    }

    static FaultyClusterConfig how(double bytes_per_s, std::int32_t moves_at_once) {
        FaultyClusterConfig how = config();
        how.kv_page_bytes = 1 << 18;
        how.migration_bytes_per_s = bytes_per_s;
        how.coordinator.migration.last_round_blocks = 1;
        how.coordinator.migration.hold_timeout = base::from_seconds(2);
        how.coordinator.migration.per_worker = moves_at_once;
        how.worker.transfer_pages = 512;
        return how;
    }

    // Until its first token is there.
    void run_to_first(core::RequestId id) {
        while (world.outcomes().at(id).tokens.empty()) world.run_for(0.1);
    }
    core::WorkerId first_of(core::RequestId id) const {
        return world.outcomes().at(id).pipelines.back()[0].worker;
    }
};

core::Request long_request(core::Token token) {
    core::Request request;
    request.prompt.assign(240, token);
    request.max_tokens = 230;
    return request;
}

// 240 tokens are 60 blocks of 8 layers: 126 MB, which take half a minute, and nobody hears anything
// of it meanwhile.
TEST(Migration, OverASlowLinkItTakesItsTime) {
    SlowLink slow(5.5e6, 2);
    const core::Request request = long_request(3);
    const core::RequestId id = slow.world.submit(request);
    slow.run_to_first(id);
    const bool first = slow.first_of(id) == core::WorkerId{0};
    slow.world.tell(core::MoveRequest{id, {{{first ? 4U : 0U}, {0, kLayers}}}});
    slow.world.run_for(25);
    EXPECT_EQ(slow.world.view().migrating, 1) << "longer than MigrationConfig::timeout";
    EXPECT_TRUE(slow.world.run_until_idle(100));
    EXPECT_EQ(slow.world.moves().counts().committed, 1);
    EXPECT_EQ(slow.world.outcomes().at(id).tokens,
              toy_generate(request.prompt, 230, kLayers, request.sampling.seed, kVocab));
}

// Each by itself takes eight seconds; the last of them waits for all the others.
TEST(Migration, WhatWaitsForOthersOnItsLinkIsNotGivenUp) {
    SlowLink slow(16e6, 10);
    std::vector<core::RequestId> all;
    for (core::Token token = 1; token <= 24; ++token) {
        all.push_back(slow.world.submit(long_request(token)));
    }
    std::erase_if(all, [&](core::RequestId id) {
        const bool whole = slow.world.outcomes().at(id).pipelines.back().size() == 1;
        return !whole || slow.first_of(id) != core::WorkerId{0};
    });
    for (const core::RequestId id : all) slow.run_to_first(id);
    for (const core::RequestId id : all) {
        slow.world.tell(core::MoveRequest{id, {{{4U}, {0, kLayers}}}});
    }
    const std::int64_t begun = slow.world.moves().counts().begun;
    ASSERT_GE(begun, 5) << "so many in a row";
    EXPECT_TRUE(slow.world.run_until_idle(600));
    EXPECT_EQ(slow.world.moves().counts().committed, begun);
}

// What it takes to copy the last of it is a pause for the client.
TEST(Migration, OverALinkThatWouldHoldItTooLongItDoesNotBegin) {
    const FlatCost cost(0.001, 0.1, 0.25);
    FaultyClusterConfig how = config();
    how.kv_page_bytes = 1 << 18;
    how.link_bytes_per_s = 1e6;
    FaultyCluster world(how, plan_all, cost);
    spec::NodeSpec node;
    for (int i = 0; i < kWorkers; ++i) world.add_worker(node, 4000);
    world.run_for(2);
    core::Request request;
    request.prompt.assign(100, 3);
    request.max_tokens = 200;
    const core::RequestId id = world.submit(request);
    while (world.outcomes().at(id).tokens.empty()) world.run_for(0.01);
    world.tell(core::MoveRequest{id, {}});
    EXPECT_EQ(world.moves().counts().refused, 1);
    EXPECT_EQ(world.moves().counts().begun, 0);
}

}  // namespace
}  // namespace helix::sim::migration_test
