#include <gtest/gtest.h>

#include "node/cluster_fixture.h"

namespace helix::node::cluster_test {
namespace {

using namespace test_support;

std::unique_ptr<CoordinatorServer> start(CoordinatorOptions options) {
    auto server = CoordinatorServer::start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.error().message;
    return server.ok() ? std::move(*server) : nullptr;
}

TEST(Cluster, AWorkerInTheCoordinatorsProcessAnswers) {
    CoordinatorOptions options = modelled_coordinator(1);
    options.local_workers = {modelled_worker("local", 12)};
    const auto server = start(std::move(options));
    const auto sink = std::make_shared<RecordingSink>();
    server->submit(greedy({1, 2, 3}, 20), sink);
    ASSERT_TRUE(sink->wait_done());
    EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_ << sink->rejection_;
    EXPECT_EQ(sink->tokens_, expected_tokens({1, 2, 3}, 20));
}

TEST(Cluster, ThreeWorkersThatHoldAPartEachSayWhatOneSays) {
    const auto server = start(modelled_coordinator(3));
    const std::string join = cluster_address(*server);
    RunningWorker a(modelled_worker("a", 5), join);
    RunningWorker b(modelled_worker("b", 6), join);
    RunningWorker c(modelled_worker("c", 4), join);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (spec::Token i = 0; i < 16; ++i) {
        sinks.push_back(std::make_shared<RecordingSink>());
        server->submit(greedy({i, 7, 8, 9}, 30), sinks.back());
    }
    for (spec::Token i = 0; i < 16; ++i) {
        RecordingSink& sink = *sinks[static_cast<std::size_t>(i)];
        ASSERT_TRUE(sink.wait_done());
        EXPECT_EQ(sink.reason_, core::FinishReason::length) << sink.error_ << sink.rejection_;
        EXPECT_EQ(sink.tokens_, expected_tokens({i, 7, 8, 9}, 30));
        EXPECT_GE(sink.pipeline_.size(), 3U);
    }
}

}  // namespace
}  // namespace helix::node::cluster_test
