// An operator says which worker holds which layers, while the cluster serves.

#include <gtest/gtest.h>

#include "node/cluster_fixture.h"

namespace helix::node::chosen_placement_test {
namespace {

using test_support::RecordingSink;

class ChosenPlacement : public ::testing::Test {
  protected:
    void start(CoordinatorOptions options) {
        auto server = CoordinatorServer::start(std::move(options));
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(*server);
        for (const char* name : {"den", "hall"}) {
            workers_.push_back(std::make_unique<test_support::RunningWorker>(
                test_support::modelled_worker(name, 14), test_support::cluster_address(*server_)));
        }
        ASSERT_TRUE(eventually([&] { return server_->view().serving; }, 60));
    }
    std::map<std::string, spec::LayerRange> held() const {
        std::map<std::string, spec::LayerRange> layers;
        for (const core::WorkerView& worker : server_->view().workers) {
            if (worker.ready) layers[worker.node.name] = worker.layers;
        }
        return layers;
    }
    void expect_answer() {
        const auto sink = std::make_shared<RecordingSink>();
        server_->submit(test_support::greedy({1, 2, 3}, 8), sink);
        ASSERT_TRUE(sink->wait_done(60));
        EXPECT_EQ(sink->tokens_, test_support::expected_tokens({1, 2, 3}, 8));
    }

    std::unique_ptr<CoordinatorServer> server_;
    std::vector<std::unique_ptr<test_support::RunningWorker>> workers_;
};

// Both could hold everything, so that a chain of two is none that planning would come to: it has
// less flow than two whole models side by side, and is put in force all the same.
TEST_F(ChosenPlacement, IsPutInForceWhateverItGains) {
    start(test_support::modelled_coordinator(2));
    const std::uint64_t before = server_->view().epoch;
    const std::map<std::string, spec::LayerRange> chosen = {{"den", {0, 5}}, {"hall", {5, 12}}};
    ASSERT_NE(held(), chosen);
    ASSERT_TRUE(server_->place(chosen).ok());
    EXPECT_TRUE(eventually([&] { return server_->view().epoch > before && held() == chosen; }, 30));
    expect_answer();
}

TEST_F(ChosenPlacement, OfAWorkerThatIsNotThereLeavesTheClusterServing) {
    start(test_support::modelled_coordinator(2));
    const auto before = held();
    ASSERT_TRUE(server_->place({{"den", {0, 5}}, {"attic", {5, 12}}}).ok());
    expect_answer();
    // One that can be comes after it, so that the other was looked at before.
    ASSERT_TRUE(eventually([&] { return server_->view().serving; }));
    EXPECT_EQ(held(), before);
    const std::map<std::string, spec::LayerRange> chosen = {{"den", {0, 6}}, {"hall", {6, 12}}};
    ASSERT_TRUE(server_->place(chosen).ok());
    EXPECT_TRUE(eventually([&] { return held() == chosen; }, 30));
    expect_answer();
}

TEST_F(ChosenPlacement, IsRefusedWhereAFileDecides) {
    CoordinatorOptions options = test_support::modelled_coordinator(2);
    options.planner = [spec = options.model.spec](const spec::ClusterSpec& cluster) {
        plan::PlanOptions manual;
        manual.method = plan::Method::manual;
        manual.manual.layers.assign(cluster.nodes.size(), {0, spec.n_layers});
        return plan::plan(cluster, spec, manual);
    };
    start(std::move(options));
    const base::Status placed = server_->place({{"den", {0, 12}}});
    ASSERT_FALSE(placed.ok());
    EXPECT_EQ(placed.error().code, base::Errc::denied);
}

}  // namespace
}  // namespace helix::node::chosen_placement_test
