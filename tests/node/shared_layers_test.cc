// Replicas of the same layers share them: real sockets, a real model, every worker with a cache.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/temp_folder.h"
#include "model/synth.h"
#include "node/cluster_fixture.h"
#include "node/even_coordinator.h"
#include "node/tcp_proxy.h"

namespace helix::node::shared_layers_test {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

class SharedLayers : public testing::Test {
  protected:
    // Every worker holds the whole model.
    void serve(std::int32_t workers, std::optional<net::CoordinatorKey> key = {}) {
        model::SynthOptions synth;
        synth.shape = "small";
        synth.path = folder_.path() + "/small.gguf";
        ASSERT_TRUE(model::synth_model(synth).ok());
        CoordinatorOptions options = even_coordinator(synth.path, workers);
        options.key = std::move(key);
        model_bytes_ = 0;
        for (const model::TensorDigest& tensor : options.model.manifest->tensors) {
            model_bytes_ += tensor.bytes;
        }
        options.planner = [model = options.model.spec](const spec::ClusterSpec& cluster) {
            plan::PlanOptions manual;
            manual.method = plan::Method::manual;
            manual.manual.layers.assign(cluster.nodes.size(), {0, model.n_layers});
            return plan::plan(cluster, model, manual);
        };
        server_ = start_coordinator(std::move(options));
        ASSERT_NE(server_, nullptr);
    }
    WorkerOptions options_of(const std::string& name) const {
        return cpu_worker(name, fs::path(folder_.path()) / name);
    }
    std::unique_ptr<RunningWorker> start(WorkerOptions options) {
        return std::make_unique<RunningWorker>(std::move(options), cluster_address(*server_));
    }
    bool are_ready(std::size_t workers) {
        return eventually([&] {
            const core::ClusterView view = server_->view();
            return view.serving && view.workers.size() == workers &&
                   std::ranges::all_of(view.workers, &core::WorkerView::ready);
        });
    }
    // Once all has been told that was read over the wire: so many times the model.
    core::WeightBytes bytes_over_the_wire(std::uint64_t models) {
        core::WeightBytes bytes;
        EXPECT_TRUE(eventually([&] {
            bytes = server_->view().weight_bytes;
            return bytes.coordinator + bytes.peer >= models * model_bytes_;
        })) << bytes.coordinator
            << " + " << bytes.peer << " of " << models * model_bytes_;
        EXPECT_EQ(bytes.coordinator + bytes.peer, models * model_bytes_);
        return bytes;
    }
    // The answers to one question that is asked several times at once, on all that serve.
    std::vector<std::vector<spec::Token>> ask(int times) {
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (int i = 0; i < times; ++i) {
            sinks.push_back(std::make_shared<RecordingSink>());
            server_->submit(greedy({5, 6, 7}, 8), sinks.back());
        }
        std::vector<std::vector<spec::Token>> answers;
        for (const auto& sink : sinks) {
            EXPECT_TRUE(sink->wait_done());
            EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_;
            used_.insert(sink->pipeline_.empty() ? 0 : sink->pipeline_[0].worker.value);
            answers.push_back(sink->tokens_);
        }
        return answers;
    }

    TempFolder folder_;
    std::uint64_t model_bytes_ = 0;
    std::unique_ptr<CoordinatorServer> server_;
    std::set<std::uint32_t> used_;
};

TEST_F(SharedLayers, TheCoordinatorSendsEachTensorAboutOnceToThreeColdReplicas) {
    serve(3);
    const auto a = start(options_of("a"));
    const auto b = start(options_of("b"));
    const auto c = start(options_of("c"));
    ASSERT_TRUE(are_ready(3));
    const core::WeightBytes bytes = bytes_over_the_wire(3);
    // Without sharing it would be three times the model.
    EXPECT_LT(bytes.coordinator, model_bytes_ * 3 / 2);
    const auto answers = ask(9);
    for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]);
    EXPECT_EQ(answers[0].size(), 8U);
    EXPECT_GT(used_.size(), 1U) << "of several replicas";
}

TEST_F(SharedLayers, WorkersOfOneMachineShareTheirFolder) {
    serve(2);
    WorkerOptions two = options_of("b");
    two.cache_dir = options_of("a").cache_dir;
    const auto a = start(options_of("a"));
    const auto b = start(std::move(two));
    ASSERT_TRUE(are_ready(2));
    const auto answers = ask(6);
    for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]);
    std::size_t files = 0;
    for (const auto& file : fs::recursive_directory_iterator(options_of("a").cache_dir)) {
        EXPECT_FALSE(file.path().string().ends_with(".part")) << file.path();
        ++files;
    }
    EXPECT_GT(files, 10U);
}

TEST_F(SharedLayers, AReplicaThatJoinsLaterHasItAllFromTheFirst) {
    serve(1);
    const auto a = start(options_of("a"));
    ASSERT_TRUE(are_ready(1));
    const auto first = ask(1);
    const auto b = start(options_of("b"));
    ASSERT_TRUE(are_ready(2));
    const core::WeightBytes bytes = bytes_over_the_wire(2);
    // A peer that is slow to answer is done without.
    EXPECT_LT(bytes.coordinator, model_bytes_ * 3 / 2);
    for (const auto& answer : ask(6)) EXPECT_EQ(answer, first[0]);
}

// As between machines: encrypted, and only workers of the cluster may ask.
TEST_F(SharedLayers, WithKeysItIsTheSame) {
    const std::string path = folder_.path() + "/c.key";
    ASSERT_TRUE(net::new_coordinator_key(path).ok());
    serve(1, *net::read_coordinator_key(path));
    const auto keyed = [&](const std::string& name) {
        const std::string file = folder_.path() + "/" + name + ".key";
        EXPECT_TRUE(net::new_worker_key(path, name, file).ok());
        WorkerOptions options = options_of(name);
        options.key = *net::read_worker_key(file);
        return options;
    };
    const auto a = start(keyed("a"));
    ASSERT_TRUE(are_ready(1));
    const auto b = start(keyed("b"));
    ASSERT_TRUE(are_ready(2));
    EXPECT_LT(bytes_over_the_wire(2).coordinator, model_bytes_ * 3 / 2);
}

TEST_F(SharedLayers, TheWorkerThatGivesDiesWhileAnotherLoads) {
    serve(1);
    WorkerOptions giver = options_of("a");
    giver.listen_port = TcpProxy::free_port();
    TcpProxy proxy(giver.listen_port);
    giver.peer_port = proxy.port();
    proxy.refuse_after(static_cast<std::int64_t>(model_bytes_ / 2));
    auto a = start(std::move(giver));
    ASSERT_TRUE(are_ready(1));
    const auto first = ask(1);
    const auto b = start(options_of("b"));
    // The connection is cut in the middle of a tensor, and the worker is gone.
    ASSERT_TRUE(
        eventually([&] { return proxy.bytes() > static_cast<std::int64_t>(model_bytes_ / 2); }));
    a->stop();
    ASSERT_TRUE(are_ready(1));
    const core::WeightBytes bytes = bytes_over_the_wire(2);
    EXPECT_GT(bytes.peer, model_bytes_ / 10);
    EXPECT_LT(bytes.peer, model_bytes_);
    EXPECT_EQ(ask(1), first);
}

TEST_F(SharedLayers, WrongBytesOfAWorkerNeverBecomeWeights) {
    serve(1);
    const auto a = start(options_of("a"));
    ASSERT_TRUE(are_ready(1));
    const auto first = ask(1);
    // It has checked these, and does not know that they are not what they were.
    for (const auto& file :
         fs::recursive_directory_iterator(options_of("a").cache_dir / "tensors")) {
        if (!file.is_regular_file()) continue;
        std::fstream(file.path(), std::ios::in | std::ios::out | std::ios::binary).write("bad", 3);
    }
    const auto b = start(options_of("b"));
    ASSERT_TRUE(are_ready(2));
    const core::WeightBytes bytes = bytes_over_the_wire(2);
    EXPECT_EQ(bytes.peer, 0U) << "after the first tensor it is not asked again";
    for (const auto& answer : ask(6)) EXPECT_EQ(answer, first[0]);
}

TEST_F(SharedLayers, WhatLiesInAWarmCacheIsOfferedBeforeItIsRead) {
    serve(1);
    auto a = start(options_of("a"));
    ASSERT_TRUE(are_ready(1));
    const auto first = ask(1);
    bytes_over_the_wire(1);
    a->stop();
    ASSERT_TRUE(eventually([&] { return server_->view().workers.empty(); }));
    server_.reset();
    // Another coordinator of the same model, which has heard of nobody. Both come at once.
    serve(2);
    a = start(options_of("a"));
    const auto b = start(options_of("b"));
    ASSERT_TRUE(are_ready(2));
    core::WeightBytes bytes;
    ASSERT_TRUE(eventually([&] {
        bytes = server_->view().weight_bytes;
        return bytes.peer >= model_bytes_ / 2 && bytes.cache >= model_bytes_ / 2;
    }));
    EXPECT_EQ(bytes.coordinator, 0U);
    for (const auto& answer : ask(6)) EXPECT_EQ(answer, first[0]);
}

TEST_F(SharedLayers, ACacheThatMayHoldLittleKeepsLittleAndTheWorkerServesAllTheSame) {
    serve(2);
    WorkerOptions little = options_of("a");
    little.cache_limit.bytes = model_bytes_ / 3;
    const auto a = start(little);
    const auto b = start(options_of("b"));
    ASSERT_TRUE(are_ready(2));
    bytes_over_the_wire(2);
    std::uint64_t kept = 0;
    for (const TensorCache::File& file : TensorCache(little.cache_dir).files()) kept += file.bytes;
    EXPECT_GT(kept, 0U);
    EXPECT_LE(kept, model_bytes_ / 3);
    const auto answers = ask(6);
    for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]);
}

TEST_F(SharedLayers, AWorkerThatStartsAgainReadsNothingOverTheWire) {
    serve(1);
    auto a = start(options_of("a"));
    ASSERT_TRUE(are_ready(1));
    const auto first = ask(1);
    bytes_over_the_wire(1);
    a->stop();
    ASSERT_TRUE(eventually([&] { return server_->view().workers.empty(); }));
    const std::uint64_t cached = server_->view().weight_bytes.cache;
    a = start(options_of("a"));
    ASSERT_TRUE(are_ready(1));
    EXPECT_EQ(ask(1), first);
    EXPECT_TRUE(
        eventually([&] { return server_->view().weight_bytes.cache >= cached + model_bytes_; }));
    bytes_over_the_wire(1);
}

}  // namespace
}  // namespace helix::node::shared_layers_test
