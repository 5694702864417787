// All that can happen to KV pages at once, on three pipelined workers with far too few of them:
// groups, beams, guesses, chunked prompts, kept prefixes and preemption in each mode. Every answer
// is that of the undisturbed run, and nothing is left behind.

#include <gtest/gtest.h>

#include "base/random.h"
#include "sim/three_stages.h"
#include "sim/toy_model.h"
#include "sim/world.h"

namespace helix::sim {
namespace {

using testing::FlatCost;
using testing::kLayers;
using testing::three_stages;

constexpr std::int32_t kVocab = 4;  // so few that texts repeat themselves and guesses are right

struct Memory {
    std::int64_t pages = 0;
    std::int64_t swap_pages = 0;
    core::Preemption mode = core::Preemption::automatic;
    bool prefix_cache = false;
    std::int32_t guesses = 0;
    std::int32_t max_batch_rows = 512;
};

std::vector<core::Request> requests(std::uint64_t seed) {
    base::Random random(seed);
    std::vector<core::Token> shared;
    for (int i = 0; i < 30; ++i) shared.push_back(static_cast<core::Token>(random.below(kVocab)));
    std::vector<core::Request> all(16);
    for (core::Request& request : all) {
        request.prompt.assign(shared.begin(), shared.begin() + random.between(1, 30));
        for (std::int64_t n = random.between(0, 10); n > 0; --n) {
            request.prompt.push_back(static_cast<core::Token>(random.below(kVocab)));
        }
        request.max_tokens = static_cast<std::int32_t>(random.between(8, 40));
        request.sampling.seed = random.next();
        const auto kind = random.below(3);
        if (kind > 0) request.n = static_cast<std::int32_t>(random.between(2, 3));
        if (kind == 2) {
            request.beam = core::BeamSearch{};
            request.beam->width = request.n;
            request.sampling.temperature = 0;
        }
    }
    return all;
}

struct Result {
    std::vector<std::map<std::int32_t, std::vector<core::Token>>> answers;
    core::ClusterView view;
};

Result run(const Memory& setup, std::uint64_t seed) {
    WorldConfig config;
    config.coordinator.n_layers = config.worker.n_layers = kLayers;
    config.coordinator.block_size = config.worker.block_size = 4;
    config.coordinator.context_length = 256;
    config.coordinator.expected_output_tokens = 2;  // far too few: memory runs short
    config.coordinator.preemption = setup.mode;
    config.coordinator.prefix_cache = config.worker.prefix_cache = setup.prefix_cache;
    config.coordinator.speculation.ngram_tokens = setup.guesses;
    config.worker.max_batch_rows = setup.max_batch_rows;
    config.worker.mixed_prefill_rows = std::min(setup.max_batch_rows, 64);
    config.swap_pages = setup.swap_pages;
    config.vocab = kVocab;
    const FlatCost cost;
    World world(config, three_stages, cost);
    for (int i = 0; i < 3; ++i) world.add_worker({}, setup.pages);
    world.run_for(2);
    base::Random random(seed + 1000);
    std::vector<core::RequestId> ids;
    for (const core::Request& request : requests(seed)) {
        ids.push_back(world.submit(request));
        world.run_for(random.chance(0.3) ? 0.1 : 0.0);
    }
    EXPECT_TRUE(world.run_until_idle(1200));
    Result result;
    for (const core::RequestId id : ids) {
        const Outcome& outcome = world.outcomes().at(id);
        EXPECT_EQ(outcome.error, "") << "request " << id.value;
        result.answers.push_back(outcome.choices);
    }
    world.run_for(5);
    EXPECT_EQ(world.leak(), "");
    result.view = world.view();
    return result;
}

class KvSemantics : public ::testing::TestWithParam<core::Preemption> {};

TEST_P(KvSemantics, WhateverHappensToThePagesTheAnswersStay) {
    std::int64_t preemptions = 0;
    std::int64_t hits = 0;
    std::int64_t guessed = 0;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Result undisturbed = run({2000, 0}, seed);
        const auto asked = requests(seed);
        for (std::size_t r = 0; r < asked.size(); ++r) {
            ASSERT_EQ(undisturbed.answers[r].size(), static_cast<std::size_t>(asked[r].n));
            if (asked[r].beam) continue;
            for (const auto& [choice, tokens] : undisturbed.answers[r]) {
                const std::uint64_t own =
                    spec::member_seed(asked[r].sampling.seed, static_cast<std::uint32_t>(choice));
                EXPECT_EQ(tokens,
                          toy_generate(asked[r].prompt, asked[r].max_tokens, kLayers, own, kVocab));
            }
        }
        for (const bool prefix_cache : {false, true}) {
            for (const std::int32_t guesses : {0, 4}) {
                const Memory short_of_memory{2 * 46,       2 * 90,  GetParam(),
                                             prefix_cache, guesses, prefix_cache ? 7 : 512};
                const Result disturbed = run(short_of_memory, seed);
                EXPECT_EQ(disturbed.answers, undisturbed.answers)
                    << (prefix_cache ? "kept prefixes, " : "") << guesses << " guesses";
                preemptions += disturbed.view.preemptions;
                guessed += disturbed.view.accepted_draft_tokens;
                hits += disturbed.view.prefix_hit_tokens;
            }
        }
    }
    EXPECT_GT(preemptions, 60) << "memory was to be short";
    EXPECT_GT(guessed, 50);
    EXPECT_GT(hits, 500);
}

INSTANTIATE_TEST_SUITE_P(Modes, KvSemantics,
                         ::testing::Values(core::Preemption::automatic, core::Preemption::recompute,
                                           core::Preemption::swap));

}  // namespace
}  // namespace helix::sim
