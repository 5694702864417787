// A gateway and its coordinators over real sockets: answers outlive coordinators that die.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/model_codec.h"
#include "node/cluster_fixture.h"
#include "node/gateway_server.h"
#include "node/real_cluster.h"

namespace helix::node::gateway_cluster_test {
namespace {

using ::testing::HasSubstr;
using namespace test_support;

const std::vector<spec::Token> kPrompt = {5, 17, 203, 9};

// Each token takes about 24 ms: two workers with six layers each.
WorkerOptions slow_worker(const std::string& name) {
    return modelled_worker(name, 6, 2e-3);
}

class GatewayCluster : public ::testing::Test {
  protected:
    void TearDown() override {
        gateway_.reset();
        server_.reset();
        workers_.clear();
    }

    // A coordinator, at first on any free port, then always on that one.
    void start_coordinator(const std::function<void(CoordinatorOptions&)>& change = {}) {
        const auto try_start = [&] {
            CoordinatorOptions options = modelled_coordinator(2);
            options.listen_port = port_;
            if (change) change(options);
            auto started = CoordinatorServer::start(std::move(options));
            if (started.ok()) server_ = std::move(*started);
            return server_ != nullptr;
        };
        ASSERT_TRUE(eventually(try_start)) << "the port is not free again";
        port_ = server_->join_info().cluster_port;
        server_->serve_gateways({{"thin"}, 7, "", "auto", "http://*:81"});
    }
    void start_cluster() {
        start_coordinator();
        for (const char* name : {"one", "two"}) {
            workers_.push_back(
                std::make_unique<RunningWorker>(slow_worker(name), cluster_address(*server_)));
        }
    }
    void start_gateway(const std::function<void(GatewayOptions&)>& change = {}) {
        GatewayOptions options;
        options.link.name = "gate";
        options.link.join = {"127.0.0.1:" + std::to_string(port_)};
        if (change) change(options);
        auto started = GatewayServer::start(std::move(options));
        ASSERT_TRUE(started.ok()) << started.error().message;
        gateway_ = std::move(*started);
    }
    std::shared_ptr<RecordingSink> submit(core::Request request) {
        auto sink = std::make_shared<RecordingSink>();
        gateway_->submit(std::move(request), sink);
        return sink;
    }
    bool serves() {
        return eventually([&] { return gateway_->view().serving; }, 60);
    }
    static bool has_tokens(RecordingSink& sink, std::size_t count) {
        return sink.wait_for(
            [&](const RecordingSink& s) { return s.tokens_.size() >= count || s.done_; }, 60);
    }

    std::uint16_t port_ = 0;
    std::unique_ptr<CoordinatorServer> server_;
    std::vector<std::unique_ptr<RunningWorker>> workers_;
    std::unique_ptr<GatewayServer> gateway_;
};

TEST_F(GatewayCluster, AnAnswerIsTheSameThroughAGatewayAndWithoutOne) {
    start_cluster();
    start_gateway();
    ASSERT_TRUE(serves());
    const auto direct = std::make_shared<RecordingSink>();
    server_->submit(greedy(kPrompt, 20), direct);
    const auto sink = submit(greedy(kPrompt, 20));
    ASSERT_TRUE(direct->wait_done(60));
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->tokens_, direct->tokens_);
    EXPECT_EQ(sink->tokens_, expected_tokens(kPrompt, 20));
    EXPECT_EQ(sink->reason_, core::FinishReason::length);
    EXPECT_EQ(sink->pipeline_.size(), 2U);
    EXPECT_GT(gateway_->view().capacity_tokens, 0);
    EXPECT_EQ(gateway_->coordinator_url(), "http://127.0.0.1:81");

    core::Request several = greedy(kPrompt, 10);
    several.n = 3;
    several.sampling.temperature = 1;
    several.sampling.seed = 11;
    const auto one = std::make_shared<RecordingSink>();
    server_->submit(several, one);
    const auto other = submit(several);
    ASSERT_TRUE(one->wait_done(60));
    ASSERT_TRUE(other->wait_done(60));
    EXPECT_EQ(other->choices_, one->choices_);
    EXPECT_EQ(other->choice_reasons_.size(), 3U);
}

TEST_F(GatewayCluster, AnswersGoOnWhenTheCoordinatorDiesAndAnotherStartsInItsPlace) {
    start_cluster();
    start_gateway();
    ASSERT_TRUE(serves());
    core::Request several = greedy(kPrompt, 60);
    several.n = 2;
    several.sampling.temperature = 1;
    several.sampling.seed = 11;
    const auto direct = std::make_shared<RecordingSink>();
    server_->submit(several, direct);
    ASSERT_TRUE(direct->wait_done(60));

    const auto sink = submit(greedy(kPrompt, 100));
    const auto group = submit(several);
    ASSERT_TRUE(has_tokens(*sink, 10));
    ASSERT_TRUE(has_tokens(*group, 5));
    server_.reset();
    ASSERT_FALSE(sink->wait_for([](const RecordingSink& s) { return s.done_; }, 0));
    ASSERT_TRUE(eventually([&] { return !gateway_->view().serving; }));
    // Who comes meanwhile waits.
    const auto late = submit(greedy({1, 2, 3}, 8));
    start_coordinator();
    ASSERT_TRUE(sink->wait_done(60));
    ASSERT_TRUE(group->wait_done(60));
    ASSERT_TRUE(late->wait_done(60));
    EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_;
    EXPECT_EQ(sink->tokens_, expected_tokens(kPrompt, 100));
    EXPECT_EQ(group->choices_, direct->choices_) << group->error_;
    EXPECT_EQ(late->tokens_, expected_tokens({1, 2, 3}, 8)) << late->rejection_ << late->error_;
    // Nothing is left of them.
    EXPECT_TRUE(eventually([&] {
        std::int64_t used = 0;
        for (const core::WorkerView& worker : server_->view().workers) used += worker.used_pages;
        return server_->view().running == 0 && used == 0;
    }));
}

TEST_F(GatewayCluster, AnAnswerOutlivesSeveralCoordinators) {
    start_cluster();
    start_gateway();
    ASSERT_TRUE(serves());
    const auto sink = submit(greedy(kPrompt, 120));
    for (std::size_t times = 1; times <= 3; ++times) {
        ASSERT_TRUE(has_tokens(*sink, 20 * times));
        server_.reset();
        start_coordinator();
    }
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->reason_, core::FinishReason::length) << sink->error_;
    EXPECT_EQ(sink->tokens_, expected_tokens(kPrompt, 120));
}

// Another coordinator, with machines of its own.
TEST_F(GatewayCluster, TheNextAddressIsTriedWhenNobodyIsAtTheFirst) {
    start_cluster();
    auto spare = CoordinatorServer::start(modelled_coordinator(1));
    ASSERT_TRUE(spare.ok()) << spare.error().message;
    (*spare)->serve_gateways({{"thin"}, 7, "", "auto", "http://*:82"});
    RunningWorker third(modelled_worker("third", 12, 2e-3), cluster_address(**spare));
    start_gateway(
        [&](GatewayOptions& options) { options.link.join.push_back(cluster_address(**spare)); });
    ASSERT_TRUE(serves());
    EXPECT_EQ(gateway_->coordinator_url(), "http://127.0.0.1:81");
    const auto sink = submit(greedy(kPrompt, 60));
    ASSERT_TRUE(has_tokens(*sink, 10));
    server_.reset();
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->tokens_, expected_tokens(kPrompt, 60)) << sink->error_;
    EXPECT_EQ(gateway_->coordinator_url(), "http://127.0.0.1:82");
    third.stop();
}

TEST_F(GatewayCluster, WithoutACoordinatorForTooLongAnswersEndWithWords) {
    start_cluster();
    start_gateway(
        [](GatewayOptions& options) { options.rules.coordinator_wait = base::from_ms(300); });
    ASSERT_TRUE(serves());
    const auto sink = submit(greedy(kPrompt, 200));
    ASSERT_TRUE(has_tokens(*sink, 5));
    server_.reset();
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->reason_, core::FinishReason::error);
    EXPECT_THAT(sink->error_, HasSubstr("the coordinator is gone"));
    const auto late = submit(greedy(kPrompt, 5));
    ASSERT_TRUE(late->wait_done(60));
    EXPECT_THAT(late->rejection_, HasSubstr("there has been no coordinator"));
    start_coordinator();
    ASSERT_TRUE(serves());
    const auto again = submit(greedy(kPrompt, 5));
    ASSERT_TRUE(again->wait_done(60));
    EXPECT_EQ(again->tokens_, expected_tokens(kPrompt, 5));
}

TEST_F(GatewayCluster, ACoordinatorOfALowerTermIsNotHanded) {
    start_coordinator([](CoordinatorOptions& options) { options.term = 2'000; });
    for (const char* name : {"one", "two"}) {
        workers_.push_back(
            std::make_unique<RunningWorker>(slow_worker(name), cluster_address(*server_)));
    }
    start_gateway();
    ASSERT_TRUE(serves());
    const auto sink = submit(greedy(kPrompt, 60));
    ASSERT_TRUE(has_tokens(*sink, 5));
    server_.reset();
    ASSERT_TRUE(eventually([&] { return !gateway_->view().serving; }));
    start_coordinator([](CoordinatorOptions& options) { options.term = 1'000; });
    for (int i = 0; i < 30; ++i) {
        EXPECT_FALSE(gateway_->view().serving);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    server_.reset();
    start_coordinator([](CoordinatorOptions& options) { options.term = 2'001; });
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->tokens_, expected_tokens(kPrompt, 60)) << sink->error_;
}

TEST_F(GatewayCluster, WithAnotherModelItsAnswersEndAndItHasToBeStartedAgain) {
    start_cluster();
    start_gateway();
    ASSERT_TRUE(serves());
    const auto sink = submit(greedy(kPrompt, 200));
    ASSERT_TRUE(has_tokens(*sink, 5));
    server_.reset();
    workers_.clear();
    start_coordinator([](CoordinatorOptions& options) {
        spec::ModelSpec other = small_model(8);
        other.name = "stout";
        options.model = modelled_model(other, kVocab);
    });
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->reason_, core::FinishReason::error);
    EXPECT_THAT(sink->error_, HasSubstr("thin"));
    EXPECT_THAT(sink->error_, HasSubstr("has to be started again"));
    EXPECT_TRUE(eventually([&] { return gateway_->ended().has_value(); }));
    const auto late = submit(greedy(kPrompt, 5));
    ASSERT_TRUE(late->wait_done(60));
    EXPECT_NE(late->rejection_, "");
}

TEST_F(GatewayCluster, TokensOfAnotherKvTypeAreNotThoseThatWereBegun) {
    start_cluster();
    start_gateway();
    ASSERT_TRUE(serves());
    const auto sink = submit(greedy(kPrompt, 200));
    ASSERT_TRUE(has_tokens(*sink, 5));
    server_.reset();
    start_coordinator(
        [](CoordinatorOptions& options) { options.model.kv_type = engine::ops::KvType::bf16; });
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->reason_, core::FinishReason::error);
    EXPECT_THAT(sink->error_, HasSubstr("KV as f16"));
    EXPECT_THAT(sink->error_, HasSubstr("KV as bf16"));
}

TEST_F(GatewayCluster, WhatWaitingDoesNotMendIsSaidAtOnce) {
    start_coordinator();
    start_gateway([](GatewayOptions& options) { options.link.name = "no name"; });
    const auto model = gateway_->wait_for_model();
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(model.error().message, HasSubstr("the coordinator at 127.0.0.1:"));

    start_gateway();
    const auto modelled = gateway_->wait_for_model();
    ASSERT_FALSE(modelled.ok());
    EXPECT_THAT(modelled.error().message, HasSubstr("the model is modelled"));

    GatewayOptions nowhere;
    nowhere.link.join = {"nowhere"};
    EXPECT_FALSE(GatewayServer::start(std::move(nowhere)).ok());
}

TEST_F(GatewayCluster, WhoWaitsForACoordinatorCanBeStopped) {
    port_ = 9;  // nobody is there
    start_gateway();
    std::thread stopper([&] { gateway_->stop_waiting(); });
    const auto model = gateway_->wait_for_model();
    stopper.join();
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, base::Errc::unavailable);
}

// A real model: its tokenizer comes to the gateway, which has no file of it.
class GatewayOfARealModel : public RealCluster {};

TEST_F(GatewayOfARealModel, TheTokenizerComesFromTheCoordinator) {
    const std::string path = synthetic();
    serve(path, [](CoordinatorOptions&) {});
    server_->serve_gateways({{"tiny", "default"}, 7, "", "auto", ""});
    GatewayOptions options;
    options.link.name = "gate";
    options.link.join = {cluster_address(*server_)};
    const auto gateway = GatewayServer::start(std::move(options));
    ASSERT_TRUE(gateway.ok()) << gateway.error().message;
    const auto model = (*gateway)->wait_for_model();
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_FALSE(model->file->has_data());
    EXPECT_EQ(model->welcome.names, (std::vector<std::string>{"tiny", "default"}));
    EXPECT_EQ(model->welcome.model.context_length, context_tokens_);
    const auto codec = api::ModelCodec::create(*model->file, model->welcome.chat_template,
                                               model->welcome.tool_parser);
    ASSERT_TRUE(codec.ok()) << codec.error().message;
    EXPECT_EQ((*codec)->vocab_size(), model->welcome.vocab_size);

    ASSERT_TRUE(eventually([&] { return (*gateway)->view().serving; }, 60));
    const core::Request request = greedy({1, 2, 3}, 10);
    const auto sink = std::make_shared<RecordingSink>();
    (*gateway)->submit(request, sink);
    ASSERT_TRUE(sink->wait_done(60));
    EXPECT_EQ(sink->tokens_, ask(request)) << sink->error_ << sink->rejection_;
}

}  // namespace
}  // namespace helix::node::gateway_cluster_test
