// Two coordinators with one state: an etcd says which leads, and a PostgreSQL has files, batches
// and responses. The leader is killed, and the next one goes on with all of it.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/batch_client.h"
#include "cluster/process.h"
#include "model/synth.h"
#include "node/real_etcd.h"
#include "postgres_server.h"

namespace helix::cluster::shared_state_test {
namespace {

using node::test_support::RealEtcd;
using test_support::PostgresServer;
using Json = nlohmann::json;

constexpr int kLines = 60;

class SharedState : public ::testing::Test {
  protected:
    void SetUp() override {
        HELIX_NEEDS_POSTGRES();
        server().ask("DROP SCHEMA IF EXISTS helix CASCADE");
        model::SynthOptions synth;
        synth.path = folder_.file("tiny.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
    }
    static PostgresServer& server() { return PostgresServer::shared(); }
    // Over TCP, with the password in the URL, which no log may have in it.
    std::unique_ptr<Process> serve(int port, const std::vector<std::string>& more,
                                   const std::string& log) const {
        std::vector<std::string> arguments{"serve",
                                           "--model",
                                           folder_.file("tiny.gguf"),
                                           "--listen",
                                           "127.0.0.1:" + std::to_string(port),
                                           "--no-worker",
                                           "--batch-lines",
                                           "4",
                                           "--state",
                                           server().port_url(PostgresServer::kPassword)};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return std::make_unique<Process>(arguments, folder_.file(log));
    }
    std::unique_ptr<Process> worker() const {
        return std::make_unique<Process>(
            std::vector<std::string>{"worker", "--join", address(ports_[0]), "--join",
                                     address(ports_[1]), "--name", "a", "--memory", "64MB",
                                     "--threads", "1", "--speed", "0.05", "--cache", "none"},
            folder_.file("worker.log"));
    }
    static std::string address(int port) { return "127.0.0.1:" + std::to_string(port); }
    std::string log(const std::string& name) const {
        std::ifstream file(folder_.file(name));
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    // Says something, and keeps it; its id.
    static std::string respond(int port, const std::string& previous = "") {
        Json body = {
            {"model", "default"}, {"input", "hello"}, {"max_output_tokens", 4}, {"store", true}};
        if (!previous.empty()) body["previous_response_id"] = previous;
        const Json answer = BatchClient(port).call("POST", "/v1/responses", body.dump());
        return answer.is_object() ? answer.value("id", "") : "";
    }

    Folder folder_;
    const int ports_[2] = {free_port(), free_port()};
};

TEST_F(SharedState, TheNextLeaderFinishesTheBatchAndHasFilesAndResponses) {
    const RealEtcd etcd;
    if (!etcd.there()) GTEST_SKIP() << "no etcd command here";
    const std::vector<std::string> leader = {"--leader", etcd.url(), "--leader-lease", "2"};
    auto first = serve(ports_[0], leader, "first.log");
    const BatchClient before(ports_[0]);
    ASSERT_TRUE(before.serves()) << log("first.log");
    const auto second = serve(ports_[1], leader, "second.log");
    const auto one_worker = worker();
    ASSERT_TRUE(
        eventually([&] { return log("second.log").find("stands by") != std::string::npos; }, 120))
        << log("second.log");
    const std::string requests = BatchClient::requests(kLines, true);
    const std::string file = before.upload(requests);
    const std::string undisturbed = before.create(file);
    ASSERT_TRUE(before.has_status(undisturbed, "completed", 240)) << log("first.log");
    const auto expected = before.answers(undisturbed, kLines);
    const std::string response = respond(ports_[0]);
    ASSERT_FALSE(response.empty()) << log("first.log");
    ASSERT_TRUE(
        eventually([&] { return server().ask("SELECT count(*) FROM helix.responses") == "1"; }, 60))
        << log("first.log");

    const std::string batch = before.create(file);
    ASSERT_TRUE(before.has_completed(batch, 10, 120)) << log("first.log");
    first->stop(SIGKILL);
    const BatchClient after(ports_[1]);
    ASSERT_TRUE(after.serves()) << log("second.log");
    ASSERT_TRUE(after.has_status(batch, "completed", 240)) << log("second.log");
    EXPECT_EQ(after.answers(batch, kLines), expected);
    EXPECT_EQ(after.answers(undisturbed, kLines), expected);
    EXPECT_EQ(after.content(file), requests);
    EXPECT_EQ(after.call("GET", "/v1/responses/" + response)["id"], response);
    EXPECT_FALSE(respond(ports_[1], response).empty()) << log("second.log");
    // The placement was there before any worker had joined the second one.
    EXPECT_NE(server().ask("SELECT model FROM helix.placement"), "");

    first = serve(ports_[0], leader, "third.log");
    EXPECT_TRUE(
        eventually([&] { return log("third.log").find("stands by") != std::string::npos; }, 120))
        << log("third.log");
    EXPECT_TRUE(after.call("GET", "/v1/files").is_object())
        << "it was taken over by one in reserve";
    for (const char* name : {"first.log", "second.log", "third.log"}) {
        EXPECT_EQ(log(name).find(PostgresServer::kPassword), std::string::npos) << log(name);
    }
}

TEST_F(SharedState, WhileTheDatabaseIsAwayChatsGoOnAndABatchGoesOnAfterwards) {
    const auto coordinator = serve(ports_[0], {}, "serve.log");
    const BatchClient client(ports_[0]);
    ASSERT_TRUE(client.serves()) << log("serve.log");
    const auto one_worker = worker();
    const std::string file = client.upload(BatchClient::requests(kLines));
    const std::string batch = client.create(file);
    ASSERT_TRUE(client.has_completed(batch, 5, 240)) << log("serve.log");
    server().kill(SIGKILL);
    EXPECT_TRUE(eventually(
        [&] {
            const std::string answer = http(ports_[0], "GET", "/v1/files/" + file);
            return answer.starts_with("HTTP/1.1 503") &&
                   answer.find("does not answer") != std::string::npos;
        },
        60));
    const std::string chat = http(ports_[0], "POST", "/v1/completions",
                                  R"({"model": "default", "prompt": "a", "max_tokens": 2})");
    EXPECT_TRUE(chat.starts_with("HTTP/1.1 200")) << chat;
    const std::string response = respond(ports_[0]);
    EXPECT_FALSE(response.empty()) << "it is kept when the database is back";
    server().start();
    EXPECT_EQ(server().ask("SELECT status FROM helix.batches"), "2") << "it was over before";
    ASSERT_TRUE(client.has_status(batch, "completed", 240)) << log("serve.log");
    EXPECT_EQ(client.answers(batch, kLines).size(), static_cast<std::size_t>(kLines));
    EXPECT_TRUE(
        eventually([&] { return server().ask("SELECT count(*) FROM helix.responses") == "1"; }, 60))
        << log("serve.log");

    // Another coordinator is started by mistake, and takes it all over.
    const auto other = serve(ports_[1], {}, "other.log");
    ASSERT_TRUE(BatchClient(ports_[1]).serves()) << log("other.log");
    const std::string refused = http(
        ports_[0], "POST", "/v1/batches",
        Json{{"input_file_id", file}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}}
            .dump());
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 503")) << refused;
    EXPECT_NE(refused.find("another coordinator"), std::string::npos) << refused;
    EXPECT_NE(log("serve.log").find("has taken over this state"), std::string::npos);
    EXPECT_EQ(coordinator->stop(SIGTERM), 0) << log("serve.log");
}

TEST_F(SharedState, AStartWithAWrongPasswordOrTwoPlacesEndsAndSaysWhy) {
    Process refused({"serve", "--model", folder_.file("tiny.gguf"), "--listen", address(ports_[0]),
                     "--state", server().port_url("wrong-one-17")},
                    folder_.file("refused.log"));
    EXPECT_TRUE(eventually([&] { return !refused.running(); }, 120));
    EXPECT_NE(log("refused.log").find("password authentication failed"), std::string::npos)
        << log("refused.log");
    EXPECT_EQ(log("refused.log").find("wrong-one-17"), std::string::npos);
    Process both({"serve", "--model", folder_.file("tiny.gguf"), "--listen", address(ports_[0]),
                  "--state", server().url(), "--state-dir", folder_.file("state")},
                 folder_.file("both.log"));
    EXPECT_TRUE(eventually([&] { return !both.running(); }, 120));
    EXPECT_NE(log("both.log").find("--state and --state-dir"), std::string::npos)
        << log("both.log");
}

}  // namespace
}  // namespace helix::cluster::shared_state_test
