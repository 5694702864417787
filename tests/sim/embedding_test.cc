// Embeddings in a simulated cluster of three stages: each comes once and is right, however prompts
// are cut, whatever is preempted and whoever dies.

#include <gtest/gtest.h>

#include "base/random.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/faults/toy_model.h"
#include "sim/three_stages.h"

namespace helix::sim::embedding_test {
namespace {

using test_support::crowded_stages;
using test_support::FlatCost;
using test_support::kLayers;
using test_support::kPromptVocab;
using test_support::random_prompt;
using test_support::three_stages;

// Most want an embedding.
core::Request random_request(base::Random& random) {
    core::Request request;
    request.prompt = random_prompt(random);
    request.sampling.seed = random.next();
    request.pooling = static_cast<spec::Pooling>(random.below(5));
    request.max_tokens =
        request.wants_embedding() ? 1 : static_cast<std::int32_t>(random.between(1, 60));
    return request;
}

void expect_answer(const core::Request& request, const Outcome& outcome) {
    if (!request.wants_embedding()) {
        EXPECT_EQ(outcome.tokens, toy_generate(request.prompt, request.max_tokens, kLayers,
                                               request.sampling.seed, kPromptVocab));
        EXPECT_TRUE(outcome.embedding.empty());
        return;
    }
    EXPECT_EQ(outcome.reason, core::FinishReason::stop) << outcome.error;
    EXPECT_TRUE(outcome.tokens.empty());
    std::uint64_t pooled = 0;
    std::int32_t position = 0;
    for (const std::uint64_t row : toy_rows(request.prompt, kLayers))
        pooled = toy_pool(pooled, row, position++, request.pooling);
    EXPECT_EQ(outcome.embedding, toy_embedding(pooled, request.pooling))
        << spec::to_string(request.pooling);
}

struct Seen {
    std::int64_t preemptions = 0;
    std::int64_t again = 0;  // embeddings that took more than one attempt
};

void run(std::uint64_t seed, core::Preemption preemption, bool dies, Seen& seen) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FaultyClusterConfig settings = crowded_stages();
    settings.coordinator.preemption = preemption;
    const FlatCost cost;
    FaultyCluster world(settings, three_stages, cost);
    for (int i = 0; i < 3; ++i) world.add_worker({}, 2 * 70);
    world.run_for(2);
    base::Random random(seed);
    std::map<core::RequestId, core::Request> asked;
    const core::WorkerId victim{static_cast<std::uint32_t>(seed % 3)};
    for (int i = 0; i < 20; ++i) {
        const core::Request request = random_request(random);
        asked[world.submit(request)] = request;
        world.run_for(random.uniform() * 0.02);
        if (dies && i == 10) world.kill(victim);
    }
    if (dies) {
        world.run_for(1);
        world.rejoin(victim);
    }
    ASSERT_TRUE(world.run_until_idle(600));
    for (const auto& [id, request] : asked) {
        const Outcome& outcome = world.outcomes().at(id);
        expect_answer(request, outcome);
        if (request.wants_embedding() && outcome.pipelines.size() > 1) ++seen.again;
    }
    world.run_for(3);  // reports tell what is held
    EXPECT_EQ(world.leak(), "");
    seen.preemptions += world.view().preemptions;
}

TEST(Embedding, IsRightWhateverIsPreempted) {
    for (const auto preemption : {core::Preemption::recompute, core::Preemption::swap}) {
        Seen seen;
        for (std::uint64_t seed = 0; seed < 15; ++seed) run(seed, preemption, false, seen);
        EXPECT_GT(seen.preemptions, 5);
    }
}

TEST(Embedding, IsComputedAgainWhenAWorkerDies) {
    Seen seen;
    for (std::uint64_t seed = 0; seed < 15; ++seed)
        run(seed, core::Preemption::recompute, true, seen);
    EXPECT_GT(seen.again, 10) << "no worker died while a prompt was pooled";
}

}  // namespace
}  // namespace helix::sim::embedding_test
