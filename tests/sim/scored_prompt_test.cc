// Log-probabilities of prompts in a simulated cluster of three stages: each position once, in
// order, right and before the first token, however prompts are cut and requests preempted.

#include <gtest/gtest.h>

#include "base/effort.h"
#include "base/random.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/fuzz/judge.h"
#include "sim/three_stages.h"

namespace helix::sim::scored_prompt_test {
namespace {

using test_support::crowded_stages;
using test_support::FlatCost;
using test_support::kLayers;
using test_support::kPromptVocab;
using test_support::random_prompt;
using test_support::three_stages;

// Some are scored.
core::Request random_request(base::Random& random) {
    core::Request request;
    request.prompt = random_prompt(random);
    request.max_tokens = static_cast<std::int32_t>(random.between(1, 60));
    request.sampling.seed = random.next();
    request.n = random.chance(0.2) ? 2 : 1;
    request.score_prompt = random.chance(0.7);
    if (request.score_prompt)
        request.sampling.n_logprobs = static_cast<std::int32_t>(random.between(0, 3));
    return request;
}

void expect_scored(const core::Request& request, const Outcome& outcome) {
    if (!request.score_prompt) {
        EXPECT_TRUE(outcome.scored.empty());
        return;
    }
    ASSERT_EQ(outcome.scored.size() + 1, request.prompt.size());
    const auto rows = toy_rows(request.prompt, kLayers);
    for (std::size_t i = 0; i < outcome.scored.size(); ++i) {
        EXPECT_EQ(outcome.scored[i].position, static_cast<std::int32_t>(i) + 1);
        EXPECT_EQ(outcome.scored[i].token, request.prompt[i + 1]);
        EXPECT_EQ(outcome.scored[i].top,
                  toy_top(rows[i], request.sampling.n_logprobs, kPromptVocab));
    }
}

struct Seen {
    std::int64_t preemptions = 0;
    std::int64_t resumed = 0;  // prompts that more than one attempt scored
};

void run(std::uint64_t seed, core::Preemption preemption, Seen& seen) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FaultyClusterConfig settings = crowded_stages();
    settings.coordinator.speculation.ngram_min = 1;
    settings.coordinator.preemption = preemption;
    const FlatCost cost;
    FaultyCluster world(settings, three_stages, cost);
    for (int i = 0; i < 3; ++i) world.add_worker({}, 2 * 70);
    world.run_for(2);
    base::Random random(seed);
    std::map<core::RequestId, core::Request> asked;
    for (int i = 0; i < 20; ++i) {
        const core::Request request = random_request(random);
        asked[world.submit(request)] = request;
        world.run_for(random.uniform() * 0.02);
    }
    ASSERT_TRUE(world.run_until_idle(600));
    for (const auto& [id, request] : asked) {
        const Outcome& outcome = world.outcomes().at(id);
        EXPECT_EQ(outcome.reason, core::FinishReason::length) << outcome.error;
        expect_scored(request, outcome);
        EXPECT_EQ(outcome.tokens, toy_generate(request.prompt, request.max_tokens, kLayers,
                                               request.sampling.seed, kPromptVocab));
        if (outcome.scored.empty()) continue;
        const bool twice = outcome.scored.front().key.attempt != outcome.scored.back().key.attempt;
        seen.resumed += twice ? 1 : 0;
    }
    seen.preemptions += world.view().preemptions;
}

TEST(ScoredPrompt, EveryPositionComesOnceAndInOrderWhateverIsPreempted) {
    for (const auto preemption : {core::Preemption::recompute, core::Preemption::swap}) {
        Seen seen;
        constexpr std::uint64_t kSeeds = kSanitized ? 5 : 15;
        for (std::uint64_t seed = 0; seed < kSeeds; ++seed) run(seed, preemption, seen);
        EXPECT_GT(seen.preemptions, static_cast<std::int64_t>(kSeeds));
        if (preemption == core::Preemption::recompute) {
            EXPECT_GT(seen.resumed, 0) << "no prompt was preempted while it was scored";
        }
    }
}

// What the judge says of these positions' log-probabilities, then of a right token.
std::string verdict(const std::vector<std::int32_t>& positions, core::Token shift = 0) {
    Judge judge({kLayers, kPromptVocab, 64, 4, 10, 10, true, true});
    core::Request request;
    request.id = {1};
    request.prompt = {1, 2, 3, 4};
    request.max_tokens = 1;
    request.score_prompt = true;
    request.sampling.n_logprobs = 2;
    judge.submitted({}, request);
    judge.accepted({}, {1});
    const auto rows = toy_rows(request.prompt, kLayers);
    core::ScoreTokens scored{{1}, {}};
    for (const std::int32_t at : positions) {
        const auto i = static_cast<std::size_t>(at);
        auto top = toy_top(rows[i - 1], 2, kPromptVocab);
        top[1].token += shift;
        scored.tokens.push_back({{{1}, 1}, at, request.prompt[i], 0, top});
    }
    judge.scored({}, scored);
    const auto right =
        toy_generate(request.prompt, 1, kLayers, request.sampling.seed, kPromptVocab);
    judge.token({}, {{1}, 0, {{{1}, 1}, 4, right[0], 0, {}}});
    return judge.verdict();
}

TEST(ScoredPrompt, TheJudgeSeesWhatIsMissingRepeatedOrWrong) {
    EXPECT_EQ(verdict({1, 2, 3}), "");
    EXPECT_EQ(verdict({1, 3}),
              "P2: the log-probability of position 3 came when 2 was next "
              "(request 1)");
    EXPECT_EQ(verdict({1, 2, 2, 3}),
              "P2: the log-probability of position 2 came when 3 was next "
              "(request 1)");
    EXPECT_EQ(verdict({1, 2}), "P2: a token before the prompt's log-probabilities (request 1)");
    EXPECT_EQ(verdict({1, 2, 3}, 1), "P3: wrong log-probability of position 1 (request 1)");
}

}  // namespace
}  // namespace helix::sim::scored_prompt_test
