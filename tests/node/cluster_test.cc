#include <gtest/gtest.h>

#include <algorithm>

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

TEST(Cluster, TheViewSaysWhatWasPlannedAndWhatWentOverEachLink) {
    const auto server = start(modelled_coordinator(3));
    const std::string join = cluster_address(*server);
    RunningWorker a(modelled_worker("a", 5), join);
    RunningWorker b(modelled_worker("b", 6), join);
    RunningWorker c(modelled_worker("c", 4), join);
    const auto sink = std::make_shared<RecordingSink>();
    server->submit(greedy({1, 2, 3}, 20), sink);
    ASSERT_TRUE(sink->wait_done());
    // The prompt, and each token of the answer but the last, which nothing follows.
    constexpr std::int64_t kRows = 3 + 19;
    const std::size_t links = sink->pipeline_.size() + 1;
    core::ClusterView view;
    ASSERT_TRUE(eventually([&] {
        view = server->view();
        return view.link_rows.size() == links && view.link_rows.front().rows == kRows;
    }));
    for (const core::LinkRows& link : view.link_rows) {
        EXPECT_EQ(link.rows, kRows) << link.from << " -> " << link.to;
    }
    EXPECT_GT(view.taken.ns, 0);

    const auto plan = server->plan_figures();
    ASSERT_TRUE(plan.has_value());
    EXPECT_EQ(plan->epoch, view.epoch);
    EXPECT_GT(plan->max_flow_tokens_per_s, 0);
    EXPECT_GE(plan->upper_bound_tokens_per_s, plan->max_flow_tokens_per_s);
    EXPECT_FALSE(plan->limited_by.empty());
    EXPECT_FALSE(plan->cut.empty());
    ASSERT_EQ(plan->nodes.size(), 3U);
    for (const api::PlanFigures::Node& node : plan->nodes) {
        EXPECT_TRUE(std::any_of(view.workers.begin(), view.workers.end(),
                                [&](const auto& one) { return one.worker == node.worker; }));
        EXPECT_GE(node.most_tokens_per_s * 1.000001, node.flow_tokens_per_s);
    }
}

}  // namespace
}  // namespace helix::node::cluster_test
