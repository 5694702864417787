// Processes of other releases beside a cluster that serves: they are refused by name, and nobody
// who is served notices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "node/cluster_fixture.h"
#include "node/gateway_server.h"
#include "node/hand_gateway.h"
#include "wire/codec.h"
#include "wire/older_hello.h"

namespace helix::node::older_release_test {
namespace {

using ::testing::HasSubstr;
using namespace test_support;

const std::vector<spec::Token> kPrompt = {5, 17, 203, 9};

// A coordinator of an older release, as far as others get: who says Hello is refused for good.
class OlderCoordinator {
  public:
    explicit OlderCoordinator(std::uint16_t port) {
        auto context = net::ZmqContext::create();
        if (!context.ok()) return;
        auto socket = net::RouterSocket::create(*context, std::nullopt, "older");
        if (!socket.ok()) return;
        const std::string here = "tcp://127.0.0.1:" + std::to_string(port);
        is_there_ = eventually([&] { return (*socket)->bind(here).ok(); });
        if (is_there_)
            thread_ = std::thread([this, own = std::move(*socket)] { refuse_all(*own); });
    }
    ~OlderCoordinator() {
        stopping_ = true;
        if (thread_.joinable()) thread_.join();
    }
    bool is_there() const { return is_there_; }
    int refused() const { return refused_; }

  private:
    void refuse_all(net::RouterSocket& socket) {
        net::Wakeup never;
        while (!stopping_) {
            net::ZmqSocket* const own = &socket;
            net::wait({&own, 1}, never.fd(), base::from_ms(10));
            socket.take_events();
            while (const auto got = socket.receive()) {
                const wire::Refused refusal{"you speak protocol 12, this coordinator 9", true};
                if (socket.send(got->from, net::Frame::of(wire::encode(refusal))).ok()) {
                    ++refused_;
                }
            }
        }
    }

    bool is_there_ = false;
    std::atomic<bool> stopping_{false};
    std::atomic<int> refused_{0};
    std::thread thread_;
};

class OlderRelease : public ::testing::Test {
  protected:
    void TearDown() override {
        gateway_.reset();
        server_.reset();
        workers_.clear();
    }

    // At first on any free port, then always on that one.
    void start_coordinator() {
        const auto try_start = [&] {
            CoordinatorOptions options = modelled_coordinator(2);
            options.listen_port = port_;
            auto started = CoordinatorServer::start(std::move(options));
            if (started.ok()) server_ = std::move(*started);
            return server_ != nullptr;
        };
        ASSERT_TRUE(eventually(try_start)) << "the port is not free again";
        port_ = server_->join_info().cluster_port;
        server_->serve_gateways({{"thin"}, 7, "", "auto", ""});
    }

    // Each token takes about 24 ms: two workers with six layers each.
    void start_worker(const std::string& name) {
        workers_.push_back(std::make_unique<RunningWorker>(modelled_worker(name, 6, 2e-3),
                                                           cluster_address(*server_)));
    }

    // A cluster that serves, and an answer at a gateway that has begun.
    void start_answer() {
        start_coordinator();
        start_worker("one");
        start_worker("two");
        GatewayOptions options;
        options.link.name = "gate";
        options.link.join = {cluster_address(*server_)};
        auto started = GatewayServer::start(std::move(options));
        ASSERT_TRUE(started.ok()) << started.error().message;
        gateway_ = std::move(*started);
        ASSERT_TRUE(eventually([&] { return gateway_->view().serving; }, 60));
        answer_ = std::make_shared<RecordingSink>();
        gateway_->submit(greedy(kPrompt, 100), answer_);
        ASSERT_TRUE(
            answer_->wait_for([](const RecordingSink& s) { return s.tokens_.size() >= 5; }, 60));
    }

    void expect_answer() {
        ASSERT_TRUE(answer_->wait_done(60));
        EXPECT_EQ(answer_->reason_, core::FinishReason::length) << answer_->error_;
        EXPECT_EQ(answer_->tokens_, expected_tokens(kPrompt, 100));
    }

    // What the coordinator answers to these first bytes of somebody; it cannot be misunderstood.
    std::optional<wire::Refused> answer_to(const std::string& bytes) {
        auto context = net::ZmqContext::create();
        if (!context.ok()) return std::nullopt;
        auto socket = net::DealerSocket::connect(*context, "tcp://" + cluster_address(*server_),
                                                 std::nullopt, "");
        if (!socket.ok() || !(*socket)->send(net::Frame::of(bytes)).ok()) return std::nullopt;
        std::optional<net::Received> got;
        const auto hear = [&] { return (got = (*socket)->receive()).has_value(); };
        if (!eventually(hear, 60)) return std::nullopt;
        const auto message = wire::decode(got->header.bytes, got->payload.bytes.size(), {});
        if (!message.ok() || !std::holds_alternative<wire::Refused>(*message)) return std::nullopt;
        return std::get<wire::Refused>(*message);
    }

    std::uint16_t port_ = 0;
    std::unique_ptr<CoordinatorServer> server_;
    std::vector<std::unique_ptr<RunningWorker>> workers_;
    std::unique_ptr<GatewayServer> gateway_;
    std::shared_ptr<RecordingSink> answer_;
};

TEST_F(OlderRelease, WorkersAndGatewaysOfOthersAreRefusedByNameWhileAnswersGoOn) {
    start_answer();
    const auto worker = answer_to(wire::test_support::hello_of_protocol_9());
    ASSERT_TRUE(worker.has_value());
    EXPECT_EQ(worker->reason, "worker \"old\" speaks protocol 9, this coordinator 12");
    EXPECT_TRUE(worker->final);
    for (const std::uint32_t protocol : {9U, 13U}) {
        const auto gateway = answer_to(wire::encode(wire::GatewayHello{protocol, "other", "", 0}));
        ASSERT_TRUE(gateway.has_value());
        EXPECT_EQ(gateway->reason, "gateway \"other\" speaks protocol " + std::to_string(protocol) +
                                       ", this coordinator 12");
        EXPECT_TRUE(gateway->final);
    }
    EXPECT_EQ(server_->view().workers.size(), 2U);
    expect_answer();
}

TEST_F(OlderRelease, AWorkerEndsWithTheWordsOfACoordinatorThatDoesNotKnowItsProtocol) {
    start_coordinator();  // for a port that is free
    server_.reset();
    const OlderCoordinator older(port_);
    ASSERT_TRUE(older.is_there());
    RunningWorker worker(modelled_worker("one", 6), "127.0.0.1:" + std::to_string(port_));
    const base::Status ended = worker.join();
    ASSERT_FALSE(ended.ok());
    EXPECT_THAT(ended.error().message, HasSubstr("you speak protocol 12, this coordinator 9"));
}

TEST_F(OlderRelease, AnAnswerOutlivesACoordinatorThatDoesNotKnowTheProtocolOfItsGateway) {
    start_answer();
    server_.reset();
    workers_.clear();
    {
        const OlderCoordinator older(port_);
        ASSERT_TRUE(older.is_there());
        ASSERT_TRUE(eventually([&] { return older.refused() >= 2; }, 60));
    }
    EXPECT_FALSE(answer_->wait_for([](const RecordingSink& s) { return s.done_; }, 0));
    start_coordinator();
    start_worker("three");
    start_worker("four");
    expect_answer();
}

}  // namespace
}  // namespace helix::node::older_release_test
