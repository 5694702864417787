// Embeddings over real sockets, with a real model in three pieces.

#include <gtest/gtest.h>

#include <optional>

#include "node/real_cluster.h"

namespace helix::node::embedding_cluster_test {
namespace {

using namespace test_support;

core::Request embed(std::size_t length, std::size_t first, spec::Pooling pooling) {
    core::Request request;
    for (std::size_t i = first; i < first + length; ++i)
        request.prompt.push_back(static_cast<spec::Token>(3 + (i * i) % 91));
    request.max_tokens = 1;
    request.pooling = pooling;
    return request;
}

class EmbeddingCluster : public RealCluster {
  protected:
    using Sink = std::shared_ptr<RecordingSink>;
    Sink submit(core::Request request) {
        auto sink = std::make_shared<RecordingSink>();
        server_->submit(std::move(request), sink);
        return sink;
    }
    std::vector<float> result(const Sink& sink) const {
        EXPECT_TRUE(sink->wait_done(60));
        EXPECT_EQ(sink->reason_, core::FinishReason::stop) << sink->error_ << sink->rejection_;
        if (stages_) {
            EXPECT_EQ(sink->pipeline_.size(), *stages_);
        }
        EXPECT_TRUE(sink->tokens_.empty());
        return sink->embedding_;
    }
    std::optional<std::size_t> stages_ = 3;  // nothing: any number
};

TEST_F(EmbeddingCluster, AreTheSameBitsOnOneTwoAndThreeStages) {
    const std::string path = synthetic();
    std::vector<std::vector<float>> first;
    for (const std::int32_t stages : {1, 2, 3}) {
        SCOPED_TRACE(stages);
        stages_ = static_cast<std::size_t>(stages);
        serve(
            path, [](CoordinatorOptions&) {}, stages);
        std::vector<std::vector<float>> all;
        for (std::size_t i = 0; i < 6; ++i)
            all.push_back(
                result(submit(embed(40 + 30 * i, i, static_cast<spec::Pooling>(1 + i % 3)))));
        if (first.empty()) first = all;
        EXPECT_EQ(all, first);
        EXPECT_FALSE(all.front().empty());
    }
}

TEST_F(EmbeddingCluster, ScoresAreTheSameBitsOnOneTwoAndThreeStages) {
    const std::string path = synthetic("tiny-reranker");
    std::vector<std::vector<float>> first;
    for (const std::int32_t stages : {1, 2, 3}) {
        SCOPED_TRACE(stages);
        stages_ = static_cast<std::size_t>(stages);
        serve(
            path, [](CoordinatorOptions&) {}, stages);
        std::vector<std::vector<float>> all;
        for (std::size_t i = 0; i < 6; ++i)
            all.push_back(result(submit(embed(40 + 30 * i, i, spec::Pooling::rank))));
        if (first.empty()) first = all;
        EXPECT_EQ(all, first);
        EXPECT_EQ(all.front().size(), 1U);
        EXPECT_NE(all[0], all[1]);
    }
}

TEST_F(EmbeddingCluster, AreTheSameBitsAloneInCompanyAndAfterAWorkerDied) {
    const std::string path = synthetic();
    serve(path, [](CoordinatorOptions& options) { options.core.prefix_cache = true; });
    constexpr std::size_t kTexts = 12;
    const auto pooling_of = [](std::size_t i) { return static_cast<spec::Pooling>(1 + i % 3); };
    std::vector<std::vector<float>> alone;
    for (std::size_t i = 0; i < kTexts; ++i) {
        alone.push_back(result(submit(embed(20 + 15 * i, i, pooling_of(i)))));
        ASSERT_FALSE(alone.back().empty());
    }
    EXPECT_NE(alone[0], alone[3]);
    for (const bool dies : {false, true}) {
        SCOPED_TRACE(dies ? "a worker dies" : "in company");
        std::vector<Sink> sinks;
        std::vector<Sink> others;
        for (std::size_t i = 0; i < kTexts; ++i) {
            core::Request other = embed(30, 7 * i, spec::Pooling::none);
            other.max_tokens = 20;
            others.push_back(submit(std::move(other)));
            sinks.push_back(submit(embed(20 + 15 * i, i, pooling_of(i))));
        }
        if (dies) {
            stages_.reset();  // the two that are left may hold all layers by then
            workers_[1].reset();
            WorkerOptions worker;
            worker.name = "b";
            worker.memory_bytes = worker_memory_;
            worker.threads = 1;
            worker.backend = std::make_shared<engine::CpuProvider>();
            worker.model_file = path;
            workers_[1] =
                std::make_unique<RunningWorker>(std::move(worker), cluster_address(*server_));
        }
        for (std::size_t i = 0; i < kTexts; ++i) EXPECT_EQ(result(sinks[i]), alone[i]) << i;
        for (const Sink& other : others) EXPECT_TRUE(other->wait_done(60));
    }
}

}  // namespace
}  // namespace helix::node::embedding_cluster_test
