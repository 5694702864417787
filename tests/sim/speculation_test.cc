// Drafts in a simulated cluster: whatever is drafted, and whatever befalls the cluster meanwhile,
// every answer is the toy model's.

#include <gtest/gtest.h>

#include "base/random.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/three_stages.h"

namespace helix::sim::speculation_test {
namespace {

using test_support::FlatCost;
using test_support::kLayers;
using test_support::three_stages;

constexpr std::int32_t kVocab = 3;  // so few that texts repeat themselves

struct Result {
    FaultCounts counts;
    core::ClusterView view;
    double seconds = 0;
};

Result run(const core::SpeculationConfig& speculation, std::int64_t pages, std::uint64_t seed,
           bool prefix_cache = false) {
    FaultyClusterConfig config;
    config.coordinator.n_layers = config.worker.n_layers = kLayers;
    config.coordinator.block_size = config.worker.block_size = 4;
    config.coordinator.context_length = 256;
    config.coordinator.expected_output_tokens = 4;  // far too few: memory runs short
    config.coordinator.speculation = speculation;
    config.coordinator.prefix_cache = config.worker.prefix_cache = prefix_cache;
    config.vocab = kVocab;
    const FlatCost cost;
    FaultyCluster world(config, three_stages, cost);
    for (int i = 0; i < 3; ++i) world.add_worker({}, pages);
    world.run_for(2);
    base::Random random(seed);
    std::map<core::RequestId, core::Request> asked;
    std::vector<core::Token> shared;
    for (int i = 0; i < 30; ++i) shared.push_back(static_cast<core::Token>(random.below(kVocab)));
    for (int i = 0; i < 24; ++i) {
        core::Request request;
        request.prompt.assign(shared.begin(), shared.begin() + random.between(1, 30));
        for (std::int64_t n = random.between(0, 10); n > 0; --n) {
            request.prompt.push_back(static_cast<core::Token>(random.below(kVocab)));
        }
        request.max_tokens = static_cast<std::int32_t>(random.between(1, 60));
        request.sampling.seed = random.next();
        asked[world.submit(request)] = request;
        world.run_for(i % 3 == 0 ? 0.2 : 0.0);
    }
    const core::TimePoint began = world.now();
    EXPECT_TRUE(world.run_until_idle(600));
    const double seconds = (world.now() - began).seconds();
    for (const auto& [id, request] : asked) {
        EXPECT_EQ(world.outcomes().at(id).tokens,
                  toy_generate(request.prompt, request.max_tokens, kLayers, request.sampling.seed,
                               kVocab))
            << "request " << id.value;
    }
    world.run_for(5);
    EXPECT_EQ(world.leak(), "");
    return {world.counts(), world.view(), seconds};
}

TEST(Speculation, DraftsFromTheTextChangeNoAnswer) {
    std::int64_t preemptions = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        core::SpeculationConfig lookup;
        lookup.ngram_tokens = 5;
        const Result result = run(lookup, 2 * 50, seed);
        EXPECT_GT(result.view.accepted_draft_tokens, 0);
        EXPECT_LT(result.view.accepted_draft_tokens, result.view.draft_tokens);
        preemptions += result.view.preemptions;
    }
    EXPECT_GT(preemptions, 10) << "memory was to be short";
}

TEST(Speculation, DraftsOfADraftModelChangeNoAnswerAndSaveTime) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        core::SpeculationConfig model;
        model.draft_tokens = 4;
        const Result plain = run({}, 2 * 400, seed);
        const Result drafted = run(model, 2 * 400, seed);
        EXPECT_GT(drafted.view.accepted_draft_tokens, drafted.view.drafts);
        EXPECT_LT(drafted.seconds, plain.seconds);
        model.ngram_tokens = 3;
        run(model, 2 * 60, seed);  // with all that can happen to them
    }
}

TEST(PrefixCache, WhatIsCachedAndWhatIsThrownAwayChangesNoAnswer) {
    std::int64_t preemptions = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Result plenty = run({}, 2 * 800, seed, true);
        EXPECT_GT(plenty.view.prefix_hit_tokens, plenty.view.prefix_queried_tokens / 4);
        // So few pages that what was kept is gone when it is asked for, on one stage or another.
        core::SpeculationConfig lookup;
        lookup.ngram_tokens = 3;
        const Result scarce = run(lookup, 2 * 50, seed, true);
        EXPECT_LT(scarce.view.prefix_hit_tokens, scarce.view.prefix_queried_tokens);
        preemptions += scarce.view.preemptions;
    }
    EXPECT_GT(preemptions, 10);
}

}  // namespace
}  // namespace helix::sim::speculation_test
