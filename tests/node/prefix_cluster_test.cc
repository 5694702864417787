// The prefix cache over real sockets, with a real model in three pieces.

#include <gtest/gtest.h>

#include "node/real_cluster.h"

namespace helix::node::prefix_cluster_test {
namespace {

using namespace test_support;

class PrefixCluster : public RealCluster {
  protected:
    void serve_with_cache() {
        serve(synthetic(), [](CoordinatorOptions& options) { options.core.prefix_cache = true; });
    }
};

TEST_F(PrefixCluster, TheSecondEqualPromptIsTakenFromTheCacheAndHasTheSameAnswer) {
    serve_with_cache();
    std::vector<spec::Token> prompt;
    for (int i = 0; i < 100; ++i) prompt.push_back(3 + (i * i) % 91);
    const auto first = ask(greedy(prompt, 20));
    EXPECT_EQ(cached_, 0);
    EXPECT_EQ(ask(greedy(prompt, 20)), first);
    EXPECT_EQ(cached_, 96) << "six blocks of 16";
    // A conversation: prompt, answer, and more.
    std::vector<spec::Token> longer = prompt;
    longer.insert(longer.end(), first.begin(), first.end());
    longer.insert(longer.end(), {5, 6, 7});
    const auto continued = ask(greedy(longer, 20));
    EXPECT_EQ(cached_, 112) << "the last token of 120 was not computed";
    serve_with_cache();  // anew: nothing is cached
    EXPECT_EQ(ask(greedy(longer, 20)), continued);
    EXPECT_EQ(cached_, 0);
}

TEST_F(PrefixCluster, SamplingWithPenaltiesOverACachedPromptIsTheSame) {
    serve_with_cache();
    core::Request request = greedy({}, 30);
    for (int i = 0; i < 50; ++i) request.prompt.push_back(3 + (i * i) % 91);
    request.sampling.temperature = 0.9F;
    request.sampling.seed = 4;
    request.sampling.repetition_penalty = 1.3F;
    request.sampling.presence_penalty = 0.5F;
    const auto first = ask(request);
    EXPECT_EQ(ask(request), first);
    EXPECT_EQ(cached_, 48);
}

}  // namespace
}  // namespace helix::node::prefix_cluster_test
