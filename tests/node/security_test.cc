// Who may join; and strangers, who can do nothing.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "node/cluster_fixture.h"
#include "wire/codec.h"

namespace helix::node::security_test {
namespace {

using namespace test_support;
namespace fs = std::filesystem;

class Security : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "helix-node-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir_ = name;
    }
    void TearDown() override { fs::remove_all(dir_); }
    std::string path(const std::string& name) const { return (dir_ / name).string(); }

    net::WorkerKey worker_key(const std::string& coordinator, const std::string& name) const {
        auto key = net::new_worker_key(path(coordinator), name, path(name + ".key"));
        EXPECT_TRUE(key.ok()) << key.error().message;
        return *key;
    }

    fs::path dir_;
};

std::unique_ptr<CoordinatorServer> start(CoordinatorOptions options) {
    auto server = CoordinatorServer::start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.error().message;
    return std::move(*server);
}

void expect_answer(CoordinatorServer& server, spec::Token prompt) {
    const auto sink = std::make_shared<RecordingSink>();
    server.submit(greedy({prompt, 2}, 12), sink);
    ASSERT_TRUE(sink->wait_done());
    EXPECT_EQ(sink->tokens_, expected_tokens({prompt, 2}, 12)) << sink->error_ << sink->rejection_;
}

TEST_F(Security, AddressesThatOthersReachNeedAKey) {
    CoordinatorOptions options = modelled_coordinator(1);
    options.listen_host = "*";
    const auto refused = CoordinatorServer::start(std::move(options));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("helix key new"), std::string::npos);
    EXPECT_NE(refused.error().message.find("--insecure"), std::string::npos);
}

TEST_F(Security, WorkersWithListedKeysServeTogetherAndOthersStayOut) {
    ASSERT_TRUE(net::new_coordinator_key(path("c.key")).ok());
    ASSERT_TRUE(net::new_coordinator_key(path("other.key")).ok());
    CoordinatorOptions options = modelled_coordinator(2);
    options.key = *net::read_coordinator_key(path("c.key"));
    const auto server = start(std::move(options));
    const std::string join = cluster_address(*server);

    // First a key made for another coordinator, then one that nobody listed here, then no key at
    // all.
    WorkerOptions misled = modelled_worker("misled", 12);
    misled.key = worker_key("other.key", "misled");
    WorkerOptions unlisted = modelled_worker("unlisted", 12);
    unlisted.key = misled.key;
    unlisted.key->coordinator_public_key = server->join_info().public_key;
    RunningWorker stranger_a(std::move(misled), join);
    RunningWorker stranger_b(std::move(unlisted), join);
    RunningWorker stranger_c(modelled_worker("plain", 12), join);

    WorkerOptions a = modelled_worker("a", 7);
    a.key = worker_key("c.key", "a");
    WorkerOptions b = modelled_worker("b", 7);
    b.key = worker_key("c.key", "b");
    RunningWorker worker_a(std::move(a), join);
    RunningWorker worker_b(std::move(b), join);
    expect_answer(*server, 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const core::ClusterView view = server->view();
    ASSERT_EQ(view.workers.size(), 2U);
    for (const core::WorkerView& worker : view.workers) {
        EXPECT_TRUE(worker.node.name == "a" || worker.node.name == "b") << worker.node.name;
    }
}

// A stranger on an open port, who speaks ZeroMQ.
class Stranger {
  public:
    explicit Stranger(const std::string& address) {
        auto context = net::ZmqContext::create();
        EXPECT_TRUE(context.ok());
        auto socket = net::DealerSocket::connect(*context, "tcp://" + address, std::nullopt, "");
        EXPECT_TRUE(socket.ok());
        socket_ = std::move(*socket);
    }
    void say(const std::string& bytes, const std::string& payload = "") {
        EXPECT_TRUE(socket_->send(net::Frame::of(bytes), net::Frame::of(payload)).ok());
    }
    void say(const wire::Message& message, const std::string& payload = "") {
        say(wire::encode(message), payload);
    }
    bool is_cut_off() {
        return eventually([&] {
            for (const net::LinkEvent& event : socket_->take_events()) {
                if (event.kind == net::LinkEventKind::disconnected) return true;
            }
            return false;
        });
    }

  private:
    std::unique_ptr<net::DealerSocket> socket_;
};

wire::Hello good_hello(const std::string& name) {
    wire::Hello hello;
    hello.name = name;
    hello.cores = 1;
    hello.memory_bytes = 1;
    hello.endpoint = "tcp://127.0.0.1:1";
    return hello;
}

TEST_F(Security, MalformedMessagesCutTheirSenderOffAndNobodyElseNotices) {
    const auto server = start(modelled_coordinator(1));
    const std::string join = cluster_address(*server);
    RunningWorker worker(modelled_worker("good", 12), join);
    expect_answer(*server, 1);

    const std::string hello = wire::encode(good_hello("x"));
    std::vector<std::pair<std::string, std::string>> bad = {
        {"garbage that is no message", ""},
        {hello.substr(0, hello.size() - 3), ""},       // truncated
        {hello, "a frame beside a Hello"},             // a frame too many
        {std::string(40U << 20U, 'x'), ""},            // oversized
        {wire::encode(wire::Chunk{0, 0, 10, ""}), ""}  // its frame is missing
    };
    for (const auto& [header, payload] : bad) {
        Stranger stranger(join);
        stranger.say(header, payload);
        EXPECT_TRUE(stranger.is_cut_off()) << header.substr(0, 40);
        expect_answer(*server, 2);
    }
    // Well-formed messages that this session may not send.
    for (const wire::Message& message : std::vector<wire::Message>{
             core::TokensProduced{{core::ProducedToken{{core::RequestId{1}, 1}, 4, 5, 0, {}}}},
             core::AssignLayers{1, {0, 4}, 1, {}}, wire::Welcome{}}) {
        Stranger stranger(join);
        stranger.say(good_hello("y"));
        stranger.say(message);
        EXPECT_TRUE(stranger.is_cut_off()) << wire::message_name(message);
    }
    expect_answer(*server, 3);
}

TEST_F(Security, WhoAsksForWeightsOfAModelThatIsNotServedIsCutOff) {
    CoordinatorOptions options = modelled_coordinator(1);
    options.core.model = {3};
    const auto server = start(std::move(options));
    const std::string join = cluster_address(*server);
    RunningWorker worker(modelled_worker("good", 12), join);
    expect_answer(*server, 1);
    for (const wire::Message& message :
         std::vector<wire::Message>{wire::ManifestRequest{{4}}, wire::ManifestRequest{},
                                    wire::ChunkRequest{{4}, wire::kHeaderChunk, 0, 1}}) {
        Stranger stranger(join);
        stranger.say(good_hello("y"));
        stranger.say(message);
        EXPECT_TRUE(stranger.is_cut_off()) << wire::message_name(message);
    }
    expect_answer(*server, 2);
}

TEST_F(Security, AStrangerOnAWorkersPortIsCutOff) {
    const auto server = start(modelled_coordinator(2));
    const std::string join = cluster_address(*server);
    RunningWorker a(modelled_worker("a", 7), join);
    RunningWorker b(modelled_worker("b", 7), join);
    expect_answer(*server, 1);
    const auto plan = server->last_plan();
    ASSERT_TRUE(plan.has_value());
    // Port scanning finds a worker's port; here the test listens in on its own Hello instead.
    const std::string endpoint = server->worker_endpoint("a");
    ASSERT_FALSE(endpoint.empty());
    Stranger garbage(endpoint.substr(6));
    garbage.say(std::string("no message"));
    EXPECT_TRUE(garbage.is_cut_off());
    Stranger impolite(endpoint.substr(6));
    impolite.say(core::FreeSequences{{{core::RequestId{1}, 1}}});
    EXPECT_TRUE(impolite.is_cut_off());
    Stranger commanding(endpoint.substr(6));
    commanding.say(wire::PeerHello{wire::kProtocolVersion, core::WorkerId{0}, 1});
    commanding.say(core::AssignLayers{99, {0, 0}, 1, {}});
    EXPECT_TRUE(commanding.is_cut_off());
    expect_answer(*server, 4);
}

TEST_F(Security, AKeyIsForOneNameAndItsRemovalEndsTheSession) {
    ASSERT_TRUE(net::new_coordinator_key(path("c.key")).ok());
    CoordinatorOptions options = modelled_coordinator(1);
    options.key = *net::read_coordinator_key(path("c.key"));
    const auto server = start(std::move(options));
    const std::string join = cluster_address(*server);

    WorkerOptions named = modelled_worker("another", 12);
    named.key = worker_key("c.key", "den");
    RunningWorker wrong_name(named, join);
    const base::Status refused = wrong_name.join();
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("made for a worker named \"den\""), std::string::npos)
        << refused.error().message;

    named.name = "";
    RunningWorker den(named, join);
    expect_answer(*server, 1);
    ASSERT_TRUE(net::revoke_worker_key(path("c.key"), "den").ok());
    EXPECT_TRUE(eventually([&] { return server->view().workers.empty(); }));
    // When it is added again with another key it is let in at once.
    WorkerOptions again = modelled_worker("", 12);
    fs::remove(path("den.key"));
    again.key = worker_key("c.key", "den");
    RunningWorker back(std::move(again), join);
    expect_answer(*server, 2);
}

TEST_F(Security, ANameInUseIsRefusedUntilItIsFree) {
    const auto server = start(modelled_coordinator(1));
    const std::string join = cluster_address(*server);
    auto first = std::make_unique<RunningWorker>(modelled_worker("den", 12), join);
    expect_answer(*server, 1);
    RunningWorker second(modelled_worker("den", 12), join);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(server->view().workers.size(), 1U);
    first.reset();
    expect_answer(*server, 2);
}

}  // namespace
}  // namespace helix::node::security_test
