// Coordinators that die, over real sockets: workers keep what they run, a gateway (by hand) keeps
// its requests, and the next coordinator goes on with both.

#include <gtest/gtest.h>

#include "node/cluster_fixture.h"
#include "node/hand_gateway.h"

namespace helix::node::takeover_test {
namespace {

using test_support::cluster_address;
using test_support::expected_tokens;
using test_support::greedy;
using test_support::HandGateway;
using test_support::kVocab;
using test_support::modelled_coordinator;
using test_support::modelled_worker;
using test_support::RunningWorker;

const std::vector<spec::Token> kPrompt = {5, 17, 203, 9};

std::string endpoint_of(const CoordinatorServer& server) {
    return "tcp://" + cluster_address(server);
}

// A coordinator on this port; of this term, or of the calendar's.
std::unique_ptr<CoordinatorServer> start(std::uint16_t port, std::uint64_t term = 0,
                                         std::int32_t min_workers = 2) {
    std::unique_ptr<CoordinatorServer> server;
    const auto try_start = [&] {
        CoordinatorOptions options = modelled_coordinator(min_workers);
        options.listen_port = port;
        options.term = term;
        auto started = CoordinatorServer::start(std::move(options));
        if (started.ok()) server = std::move(*started);
        return server != nullptr;
    };
    EXPECT_TRUE(eventually(try_start)) << "the port is not free again";
    if (server != nullptr) server->serve_gateways({{"thin"}, 7, "", "auto", "http://*:1"});
    return server;
}

// Each token takes about 24 ms: two workers with six layers each.
WorkerOptions slow_worker(const std::string& name) {
    return modelled_worker(name, 6, 2e-3);
}

core::Begun begun_with(const std::vector<spec::Token>& output, std::uint32_t handovers) {
    core::Begun begun;
    begun.choices.push_back({output, false});
    begun.attempts_before = handovers << 16U;
    return begun;
}

TEST(Takeover, ARequestGoesOnWhereItRanUnderTheNextCoordinator) {
    auto first = start(0);
    const std::uint16_t port = first->join_info().cluster_port;
    const std::string endpoint = endpoint_of(*first);
    RunningWorker one(slow_worker("one"), cluster_address(*first));
    RunningWorker two(slow_worker("two"), cluster_address(*first));
    HandGateway gateway(endpoint);
    ASSERT_TRUE(gateway.wait_welcome());
    EXPECT_EQ(gateway.welcome->term, first->term());
    EXPECT_EQ(gateway.welcome->names, std::vector<std::string>{"thin"});
    ASSERT_TRUE(gateway.listen_until([&] { return gateway.view && gateway.view->serving; }));

    const core::RequestId id = gateway.next_id();
    core::Request request = greedy(kPrompt, 120);
    request.id = id;
    gateway.say(core::Submitted{request, {}});
    ASSERT_TRUE(gateway.listen_until([&] { return gateway.heard[id].tokens.size() >= 10; }));
    first.reset();
    ASSERT_TRUE(gateway.listen_until([&] { return gateway.said_goodbye; }));
    std::vector<spec::Token> said = gateway.heard[id].tokens;
    ASSERT_LT(said.size(), 100U) << "it ended before there was anything to take over";

    auto second = start(port);
    ASSERT_NE(second, nullptr);
    HandGateway again(endpoint, gateway.welcome->term);
    ASSERT_TRUE(again.wait_welcome());
    EXPECT_GT(again.welcome->term, gateway.welcome->term);
    again.say(core::Submitted{request, begun_with(said, 1)});
    ASSERT_TRUE(again.listen_until([&] { return again.heard[id].finish.has_value(); }));
    const HandGateway::Heard& rest = again.heard[id];
    EXPECT_EQ(rest.finish->reason, core::FinishReason::length) << rest.finish->error;
    ASSERT_FALSE(rest.routes.empty());
    EXPECT_EQ(rest.routes.front().reason, core::RouteReason::adopted);
    EXPECT_EQ(rest.routes.size(), 1U);
    ASSERT_FALSE(rest.indices.empty());
    EXPECT_EQ(rest.indices.front(), static_cast<std::int32_t>(said.size()));
    said.insert(said.end(), rest.tokens.begin(), rest.tokens.end());
    EXPECT_EQ(said, expected_tokens(kPrompt, 120));
    // Both have the number that they had, and hold nothing any more.
    EXPECT_TRUE(eventually([&] {
        const core::ClusterView view = second->view();
        std::int64_t used = 0;
        for (const core::WorkerView& worker : view.workers) used += worker.used_pages;
        return view.workers.size() == 2 && used == 0;
    }));
}

TEST(Takeover, WhatNobodyClaimsIsFreedAndWhatIsNotKeptIsComputedAnew) {
    auto first = start(0);
    const std::uint16_t port = first->join_info().cluster_port;
    const std::string endpoint = endpoint_of(*first);
    WorkerOptions forgetful = slow_worker("one");
    forgetful.coordinator_wait = {};
    RunningWorker one(forgetful, cluster_address(*first));
    RunningWorker two(slow_worker("two"), cluster_address(*first));
    HandGateway gateway(endpoint);
    ASSERT_TRUE(gateway.wait_welcome());
    const core::RequestId id = gateway.next_id();
    core::Request request = greedy(kPrompt, 60);
    request.id = id;
    gateway.say(core::Submitted{request, {}});
    ASSERT_TRUE(gateway.listen_until([&] { return gateway.heard[id].tokens.size() >= 5; }));
    first.reset();
    ASSERT_TRUE(gateway.listen_until([&] { return gateway.said_goodbye; }));
    std::vector<spec::Token> said = gateway.heard[id].tokens;

    auto second = start(port);
    ASSERT_NE(second, nullptr);
    HandGateway again(endpoint, gateway.welcome->term);
    ASSERT_TRUE(again.wait_welcome());
    again.say(core::Submitted{request, begun_with(said, 1)});
    ASSERT_TRUE(again.listen_until([&] { return again.heard[id].finish.has_value(); }));
    const HandGateway::Heard& rest = again.heard[id];
    ASSERT_FALSE(rest.routes.empty());
    EXPECT_NE(rest.routes.front().reason, core::RouteReason::adopted);
    said.insert(said.end(), rest.tokens.begin(), rest.tokens.end());
    EXPECT_EQ(said, expected_tokens(kPrompt, 60));
    EXPECT_TRUE(eventually([&] {
        std::int64_t used = 0;
        for (const core::WorkerView& worker : second->view().workers) used += worker.used_pages;
        return used == 0;
    }));
}

TEST(Takeover, AnOlderCoordinatorGetsNeitherWorkersNorGateways) {
    auto newer = start(0, 2'000, 1);
    const std::uint16_t port = newer->join_info().cluster_port;
    const std::string endpoint = endpoint_of(*newer);
    RunningWorker worker(modelled_worker("one", 12), cluster_address(*newer));
    ASSERT_TRUE(eventually([&] { return newer->view().serving; }));
    newer.reset();

    auto older = start(port, 1'000, 1);
    ASSERT_NE(older, nullptr);
    HandGateway gateway(endpoint, 2'000);
    ASSERT_TRUE(gateway.listen_until([&] { return !gateway.refused.empty(); }));
    EXPECT_NE(gateway.refused.find("is older than another"), std::string::npos) << gateway.refused;
    EXPECT_FALSE(gateway.welcome.has_value());
    // The worker comes, is refused, and comes again; it is never a part of this cluster.
    for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(older->view().workers.empty());
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    older.reset();
    auto newest = start(port, 2'001, 1);
    EXPECT_TRUE(eventually([&] { return newest->view().serving; }));
}

TEST(Takeover, AWorkerThatFindsNobodyInTimeStartsAnew) {
    auto newer = start(0, 2'000, 1);
    const std::uint16_t port = newer->join_info().cluster_port;
    WorkerOptions options = modelled_worker("one", 12);
    options.coordinator_wait = base::from_ms(200);
    RunningWorker worker(options, cluster_address(*newer));
    ASSERT_TRUE(eventually([&] { return newer->view().serving; }));
    newer.reset();
    // Its wait over, it forgets that there was a later coordinator than this one.
    auto older = start(port, 1'000, 1);
    EXPECT_TRUE(eventually([&] { return older->view().serving; }));
}

TEST(Takeover, AGatewayThatSaysWhatItMayNotIsCutOff) {
    auto server = start(0, 0, 1);
    const std::string endpoint = endpoint_of(*server);
    HandGateway thief(endpoint, 0, "thief");
    ASSERT_TRUE(thief.wait_welcome());
    wire::ChunkRequest weights;
    weights.model = thief.welcome->model_id;
    weights.tensor = 0;
    weights.length = 16;
    thief.say(weights);
    EXPECT_TRUE(thief.listen_until([&] { return thief.is_cut_off; }));

    HandGateway twice(endpoint, 0, "twice");
    ASSERT_TRUE(twice.wait_welcome());
    core::Request request = greedy(kPrompt, 5);
    request.id = twice.next_id();
    twice.say(core::Submitted{request, {}});
    twice.say(core::Submitted{request, {}});
    EXPECT_TRUE(twice.listen_until([&] { return twice.is_cut_off; }));

    // A request that the model cannot have ends, and nothing else does.
    HandGateway wrong(endpoint, 0, "wrong");
    ASSERT_TRUE(wrong.wait_welcome());
    core::Request no_word = greedy({kVocab}, 5);
    no_word.id = wrong.next_id();
    wrong.say(core::Submitted{no_word, {}});
    ASSERT_TRUE(wrong.listen_until([&] { return wrong.heard[no_word.id].rejection.has_value(); }));
    EXPECT_NE(wrong.heard[no_word.id].rejection->message.find("1000 is none of them"),
              std::string::npos)
        << wrong.heard[no_word.id].rejection->message;
    EXPECT_FALSE(wrong.is_cut_off);
}

TEST(Takeover, TheRequestsOfAGatewayThatIsGoneEnd) {
    auto server = start(0, 0, 1);
    const std::string endpoint = endpoint_of(*server);
    RunningWorker worker(modelled_worker("one", 12, 2e-3), cluster_address(*server));
    {
        HandGateway gateway(endpoint);
        ASSERT_TRUE(gateway.wait_welcome());
        core::Request request = greedy(kPrompt, 1000);
        request.id = gateway.next_id();
        gateway.say(core::Submitted{request, {}});
        ASSERT_TRUE(
            gateway.listen_until([&] { return !gateway.heard[request.id].tokens.empty(); }));
        ASSERT_TRUE(
            gateway.listen_until([&] { return gateway.view && gateway.view->running == 1; }));
    }
    EXPECT_TRUE(eventually([&] {
        const core::ClusterView view = server->view();
        return view.running == 0 && !view.workers.empty() && view.workers[0].used_pages == 0;
    }));
}

}  // namespace
}  // namespace helix::node::takeover_test
