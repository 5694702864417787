// Log-probabilities of prompts over real sockets, with a real model in three pieces.

#include <gtest/gtest.h>

#include "node/real_cluster.h"

namespace helix::node::score_cluster_test {
namespace {

using namespace test_support;

class ScoreCluster : public RealCluster {
  protected:
    std::shared_ptr<RecordingSink> run(core::Request request) {
        const auto sink = std::make_shared<RecordingSink>();
        server_->submit(std::move(request), sink);
        EXPECT_TRUE(sink->wait_done(60));
        EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_ << sink->rejection_;
        EXPECT_EQ(sink->pipeline_.size(), 3U);
        return sink;
    }
};

TEST_F(ScoreCluster, WhatWasAnsweredScoresAsItWasDrawn) {
    serve(synthetic(), [](CoordinatorOptions& options) { options.core.prefix_cache = true; });
    core::Request request = greedy({}, 30);
    for (int i = 0; i < 100; ++i) request.prompt.push_back(3 + (i * i) % 91);
    request.sampling.n_logprobs = 4;
    const auto drawn = run(request);
    ASSERT_EQ(drawn->produced_.size(), 30U);
    EXPECT_TRUE(drawn->scored_.empty());

    core::Request whole = request;
    whole.prompt.insert(whole.prompt.end(), drawn->tokens_.begin(), drawn->tokens_.end());
    whole.max_tokens = 1;
    whole.score_prompt = true;
    const auto scored = run(whole);
    EXPECT_EQ(scored->cached_tokens_, 0);
    ASSERT_EQ(scored->scored_.size(), 129U);
    for (std::size_t i = 0; i < 30; ++i) {
        const core::ProducedToken& one = scored->scored_[99 + i];
        EXPECT_EQ(one.position, drawn->produced_[i].position);
        EXPECT_EQ(one.token, drawn->produced_[i].token);
        EXPECT_EQ(one.logprob, drawn->produced_[i].logprob) << "output token " << i;
        EXPECT_EQ(one.top, drawn->produced_[i].top) << "output token " << i;
    }
}

}  // namespace
}  // namespace helix::node::score_cluster_test
