// Real workers that leave and join while a real model answers.

#include <gmock/gmock.h>

#include "node/real_cluster.h"

namespace helix::node::drain_test {
namespace {

using test_support::greedy;
using test_support::RecordingSink;

class DrainTest : public test_support::RealCluster {
  protected:
    // Each worker holds the whole model.
    void serve_replicated(std::int32_t n) {
        path_ = synthetic();
        CoordinatorOptions options;
        auto model = open_served_model(path_);
        ASSERT_TRUE(model.ok()) << model.error().message;
        options.model = std::move(*model);
        options.model.spec.context_length = 256;
        options.core.min_workers = n;
        options.core.settle = base::from_ms(100);
        options.core.switch_gain = 1.001;
        options.planner = [spec = options.model.spec](const spec::ClusterSpec& cluster) {
            plan::PlanOptions manual;
            manual.method = plan::Method::manual;
            manual.manual.layers.assign(cluster.nodes.size(), {0, spec.n_layers});
            return plan::plan(cluster, spec, manual);
        };
        auto server = CoordinatorServer::start(std::move(options));
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(*server);
        for (std::int32_t i = 0; i < n; ++i) add_worker("w" + std::to_string(i));
        ASSERT_TRUE(eventually([&] { return server_->view().serving; }, 60));
    }
    void add_worker(const std::string& name) {
        WorkerOptions worker;
        worker.name = name;
        worker.memory_bytes = worker_memory_;
        worker.threads = 1;
        worker.backend = std::make_shared<engine::CpuProvider>();
        worker.model_file = path_;
        workers_.push_back(std::make_unique<test_support::RunningWorker>(
            std::move(worker), test_support::cluster_address(*server_)));
    }
    core::WorkerView worker(const std::string& name) const {
        for (const core::WorkerView& one : server_->view().workers) {
            if (one.node.name == name) return one;
        }
        return {};
    }
    static core::Request numbered(std::int32_t i, std::int32_t tokens) {
        core::Request request = greedy({1 + i, 7, 3, 2 * i + 5}, tokens);
        request.sampling.temperature = 1;
        request.sampling.seed = 100 + static_cast<std::uint64_t>(i);
        return request;
    }
    std::vector<std::shared_ptr<RecordingSink>> submit_all(std::int32_t n, std::int32_t tokens) {
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (std::int32_t i = 0; i < n; ++i) {
            sinks.push_back(std::make_shared<RecordingSink>());
            server_->submit(numbered(i, tokens), sinks.back());
        }
        return sinks;
    }
    static std::vector<std::vector<spec::Token>> answers(
        const std::vector<std::shared_ptr<RecordingSink>>& sinks) {
        std::vector<std::vector<spec::Token>> all;
        for (const auto& sink : sinks) {
            EXPECT_TRUE(sink->wait_done(120));
            EXPECT_EQ(sink->reason_, core::FinishReason::length)
                << sink->error_ << sink->rejection_;
            all.push_back(sink->tokens_);
        }
        return all;
    }

    std::string path_;
};

TEST_F(DrainTest, AWorkerIsRemovedUnderLoadAndNoAnswerShowsIt) {
    serve_replicated(2);
    constexpr std::int32_t kRequests = 6;
    constexpr std::int32_t kTokens = 200;
    const auto undisturbed = answers(submit_all(kRequests, kTokens));
    const auto sinks = submit_all(kRequests, kTokens);
    for (const auto& sink : sinks) {
        ASSERT_TRUE(sink->wait_for([](const auto& s) { return s.tokens_.size() > 3; }));
    }
    server_->drain({worker("w0").worker, true, false});
    const base::Status left = workers_[0]->join();  // it ends by itself
    EXPECT_TRUE(left.ok()) << left.error().message;
    EXPECT_TRUE(eventually([&] { return server_->view().workers.size() == 1; }));
    EXPECT_EQ(answers(sinks), undisturbed);
    EXPECT_EQ(server_->view().failed, 0);
    EXPECT_EQ(answers(submit_all(1, kTokens))[0], undisturbed[0]) << "the other one serves alone";
}

TEST_F(DrainTest, AWorkerThatJoinsUnderLoadTakesPartWithoutAnyAnswerFailing) {
    serve_replicated(1);
    constexpr std::int32_t kRequests = 4;
    constexpr std::int32_t kTokens = 200;
    const auto undisturbed = answers(submit_all(kRequests, kTokens));
    const auto sinks = submit_all(kRequests, kTokens);
    add_worker("late");
    EXPECT_TRUE(eventually([&] { return worker("late").ready; }, 60));
    EXPECT_EQ(answers(sinks), undisturbed);
    EXPECT_TRUE(eventually([&] { return server_->view().epoch > 1; }, 60));
    const auto more = answers(submit_all(kRequests, kTokens));
    EXPECT_EQ(more, undisturbed);
    EXPECT_TRUE(eventually([&] { return worker("late").rows > 0; })) << "it had its share";
    EXPECT_EQ(server_->view().failed, 0);
}

}  // namespace
}  // namespace helix::node::drain_test
