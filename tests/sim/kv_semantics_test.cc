// All that can happen to KV pages at once, on three pipelined workers with far too few of them:
// groups, beams, drafts, chunked prompts, kept prefixes and preemption in each mode. Every answer
// is that of the undisturbed run, and nothing is left behind.

#include <gtest/gtest.h>

#include "base/effort.h"
#include "base/random.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/three_stages.h"

namespace helix::sim::kv_semantics_test {
namespace {

using test_support::FlatCost;
using test_support::kLayers;
using test_support::three_stages;

constexpr std::int32_t kVocab = 4;  // so few that texts repeat themselves and drafts are right

struct Memory {
    std::int64_t pages = 0;
    std::int64_t swap_pages = 0;
    core::Preemption mode = core::Preemption::automatic;
    bool prefix_cache = false;
    std::int32_t drafts = 0;
    std::int32_t max_batch_rows = 512;
    bool push_out = false;      // every request, at least once
    bool as_published = false;  // vLLM's order of work, Llumnix' moves
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

// So long that none ends before it can be preempted.
std::vector<core::Request> long_requests(std::uint64_t seed) {
    std::vector<core::Request> all = requests(seed);
    for (core::Request& request : all) request.max_tokens += 80;
    return all;
}

// One that pushes others out: it goes before them and soon holds 24 texts of eight blocks each,
// almost all there is.
core::Request pushing(std::uint64_t seed) {
    core::Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 28;
    request.n = 24;
    request.priority = 1;
    request.sampling.seed = seed;
    return request;
}

// Requests of one token, after which the coordinator expects others to be short, too.
void run_short_ones(FaultyCluster& world) {
    std::vector<core::RequestId> ids;
    for (int i = 0; i < 100; ++i) {
        core::Request request;
        request.prompt = {1};
        request.max_tokens = 1;
        request.priority = 1;
        ids.push_back(world.submit(request));
    }
    for (const core::RequestId id : ids) {
        while (!world.outcomes().at(id).ended) world.run_for(0.01);
    }
}

bool was_preempted(const Outcome& outcome, core::Preemption mode) {
    const bool recomputed = outcome.attempt > 1;
    const bool swapped = outcome.swaps_out > 0;
    if (mode == core::Preemption::automatic) return recomputed || swapped;
    return mode == core::Preemption::swap ? swapped : recomputed;
}

// Once it runs, pushes the request out that came last: it is the first to go. Others that were
// pushed out before may be under way; where these leave the pushing ones no room until the request
// has ended, it is asked again.
core::RequestId submit_and_push_out(FaultyCluster& world, const core::Request& request,
                                    core::Preemption mode) {
    core::RequestId last;
    for (int attempt = 0; attempt < 10; ++attempt) {
        run_short_ones(world);
        last = world.submit(request);
        const Outcome& outcome = world.outcomes().at(last);
        while (outcome.pipelines.empty()) world.run_for(0.01);
        world.run_for(0.03);
        const core::RequestId pusher = world.submit(pushing(last.value));
        while (!outcome.ended && !world.outcomes().at(pusher).ended) {
            if (was_preempted(outcome, mode)) return last;
            world.run_for(0.01);
        }
    }
    return last;
}

struct Result {
    std::vector<std::map<std::int32_t, std::vector<core::Token>>> answers;
    std::vector<bool> preempted;
    core::ClusterView view;
};

Result run(const Memory& setup, std::uint64_t seed, const std::vector<core::Request>& asked) {
    FaultyClusterConfig config;
    config.coordinator.n_layers = config.worker.n_layers = kLayers;
    config.coordinator.block_size = config.worker.block_size = 4;
    config.coordinator.context_length = 256;
    config.coordinator.expected_output_tokens = 2;  // far too few: memory runs short
    config.coordinator.preemption = setup.mode;
    if (setup.push_out) config.coordinator.preemption_pause = base::from_ms(1);
    config.coordinator.prefix_cache = config.worker.prefix_cache = setup.prefix_cache;
    config.coordinator.speculation.ngram_tokens = setup.drafts;
    config.worker.max_batch_rows = setup.max_batch_rows;
    config.worker.mixed_prefill_rows = std::min(setup.max_batch_rows, 64);
    if (setup.as_published) {
        config.worker.prompts_first = core::PromptsFirst{128, 24, 0.5};
        core::balance_as_llumnix(config.coordinator);
    }
    config.swap_pages = setup.swap_pages;
    config.vocab = kVocab;
    const FlatCost cost;
    FaultyCluster world(config, three_stages, cost);
    for (int i = 0; i < 3; ++i) world.add_worker({}, setup.pages);
    world.run_for(2);
    base::Random random(seed + 1000);
    std::vector<core::RequestId> ids;
    for (const core::Request& request : asked) {
        ids.push_back(setup.push_out ? submit_and_push_out(world, request, setup.mode)
                                     : world.submit(request));
        world.run_for(random.chance(0.3) ? 0.1 : 0.0);
    }
    EXPECT_TRUE(world.run_until_idle(1200));
    Result result;
    for (const core::RequestId id : ids) {
        const Outcome& outcome = world.outcomes().at(id);
        EXPECT_EQ(outcome.error, "") << "request " << id.value;
        result.answers.push_back(outcome.choices);
        result.preempted.push_back(was_preempted(outcome, setup.mode));
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
    std::int64_t accepted = 0;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const auto asked = requests(seed);
        const Result undisturbed = run({2000, 0}, seed, asked);
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
            for (const std::int32_t drafts : {0, 4}) {
                const Memory short_of_memory{2 * 46,       2 * 90, GetParam(),
                                             prefix_cache, drafts, prefix_cache ? 7 : 512};
                const Result disturbed = run(short_of_memory, seed, asked);
                EXPECT_EQ(disturbed.answers, undisturbed.answers)
                    << (prefix_cache ? "kept prefixes, " : "") << drafts << " drafts";
                preemptions += disturbed.view.preemptions;
                accepted += disturbed.view.accepted_draft_tokens;
                hits += disturbed.view.prefix_hit_tokens;
            }
        }
    }
    EXPECT_GT(preemptions, 60) << "memory was to be short";
    EXPECT_GT(accepted, 50);
    EXPECT_GT(hits, 500);
}

// Neither the order of work nor who moves is seen in an answer.
TEST_P(KvSemantics, InVllmsOrderTheAnswersAreTheSame) {
    std::int64_t preemptions = 0;
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 1 : 4); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const auto asked = requests(seed);
        const Result undisturbed = run({2000, 0}, seed, asked);
        Memory tight{2 * 46, 2 * 90, GetParam(), seed % 2 == 0, seed > 2 ? 4 : 0};
        tight.as_published = true;
        const Result disturbed = run(tight, seed, asked);
        EXPECT_EQ(disturbed.answers, undisturbed.answers);
        preemptions += disturbed.view.preemptions;
    }
    EXPECT_GT(preemptions, kSanitized ? 0 : 8) << "memory was to be short";
}

// Each of 16 requests is pushed out by one of higher priority while it runs; under a sanitizer, of
// the first eight, which are of every kind.
TEST_P(KvSemantics, EveryRequestIsPreemptedAndSaysTheSame) {
    const std::uint64_t seed = 7;
    auto asked = long_requests(seed);
    if (kSanitized && !whole_sweeps()) asked.resize(8);
    const Result undisturbed = run({20000, 0}, seed, asked);
    for (const bool everything : {false, true}) {
        if (kSanitized && !everything) continue;
        SCOPED_TRACE(everything ? "drafts, kept prefixes, short batches" : "plain");
        Memory tight{2 * 200, 2 * 2000, GetParam()};
        tight.prefix_cache = everything;
        tight.drafts = everything ? 4 : 0;
        tight.max_batch_rows = everything ? 7 : 512;
        tight.push_out = true;
        const Result disturbed = run(tight, seed, asked);
        EXPECT_EQ(disturbed.answers, undisturbed.answers);
        for (std::size_t r = 0; r < asked.size(); ++r)
            EXPECT_TRUE(disturbed.preempted[r]) << "request " << r << " never was preempted";
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, KvSemantics,
                         ::testing::Values(core::Preemption::automatic, core::Preemption::recompute,
                                           core::Preemption::swap));

}  // namespace
}  // namespace helix::sim::kv_semantics_test
