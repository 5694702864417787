// A gateway, its coordinator and workers as processes: clients at the gateway do not notice that
// the coordinator was killed and started again, and when the gateway is killed they go on
// elsewhere.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cluster/process.h"
#include "cluster/streams.h"
#include "model/synth.h"

namespace helix::cluster::gateway_process_test {
namespace {

class GatewayProcess : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.path = folder_.file("tiny.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
    }
    std::unique_ptr<Process> serve() {
        const std::string log = "serve-" + std::to_string(++starts_) + ".log";
        return std::make_unique<Process>(
            std::vector<std::string>{"serve", "--model", folder_.file("tiny.gguf"), "--listen",
                                     "127.0.0.1:" + std::to_string(port_), "--no-worker",
                                     "--min-workers", "2", "--state-dir", folder_.file("state")},
            folder_.file(log));
    }
    std::unique_ptr<Process> worker(const std::string& name) {
        return std::make_unique<Process>(
            std::vector<std::string>{"worker", "--join", "127.0.0.1:" + std::to_string(port_),
                                     "--name", name, "--host-id", name, "--memory", "64MB",
                                     "--threads", "1", "--speed", "0.02", "--cache", "none"},
            folder_.file(name + ".log"));
    }
    std::unique_ptr<Process> gateway(const std::vector<std::string>& more = {}) {
        std::vector<std::string> arguments{"gateway", "--join",
                                           "127.0.0.1:" + std::to_string(port_), "--listen",
                                           "127.0.0.1:" + std::to_string(gateway_port_)};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return std::make_unique<Process>(arguments, folder_.file("gateway.log"));
    }
    bool ready() const { return ready(gateway_port_); }
    static bool ready(int port) {
        return eventually(
            [&] { return http(port, "GET", "/health/ready").starts_with("HTTP/1.1 200"); }, 120);
    }
    std::string answer(const std::string& body) const {
        return http(gateway_port_, "POST", "/v1/completions", body);
    }
    void begin(Stream& stream, const std::string& body) const {
        stream.thread = std::thread([&stream, body, this] {
            stream.text =
                http(gateway_port_, "POST", "/v1/completions", body,
                     [&](const std::string& so_far) { stream.events = count(so_far, "data: "); });
        });
    }

    Folder folder_;
    int port_ = free_port();
    int gateway_port_ = free_port();
    int starts_ = 0;
};

constexpr const char* kStream =
    R"({"model": "default", "prompt": "once", "max_tokens": 120, "stream": true,
        "temperature": 0.8, "seed": 7, "ignore_eos": true})";

TEST_F(GatewayProcess, AStreamGoesOnWhenTheCoordinatorIsKilledAndStartedAgain) {
    const auto gate = gateway();  // before there is anybody to find
    auto coordinator = serve();
    const auto a = worker("a");
    const auto b = worker("b");
    ASSERT_TRUE(ready()) << gate->log() << coordinator->log();
    const std::string undisturbed = streamed_text(answer(kStream));
    ASSERT_FALSE(undisturbed.empty()) << gate->log();

    Stream stream;
    begin(stream, kStream);
    ASSERT_TRUE(eventually([&] { return stream.events >= 10; }, 60)) << gate->log();
    const std::string promise =
        "if the coordinator is lost: an answer at a gateway stands still for at most ";
    EXPECT_NE(coordinator->log().find(promise), std::string::npos) << coordinator->log();
    coordinator->stop(SIGKILL);
    EXPECT_TRUE(eventually(
        [&] { return http(gateway_port_, "GET", "/health/ready").starts_with("HTTP/1.1 503"); },
        60));
    coordinator = serve();
    stream.thread.join();
    EXPECT_EQ(streamed_text(stream.text), undisturbed) << gate->log() << coordinator->log();
    EXPECT_NE(stream.text.find("[DONE]"), std::string::npos) << stream.text;
    EXPECT_EQ(stream.text.find("\"error\""), std::string::npos) << stream.text;

    const std::string page = http(gateway_port_, "GET", "/helix/cluster");
    EXPECT_TRUE(page.starts_with("HTTP/1.1 307")) << page;
    EXPECT_NE(page.find("http://127.0.0.1:" + std::to_string(port_) + "/helix/cluster"),
              std::string::npos)
        << page;
    EXPECT_EQ(gate->stop(SIGTERM), 0) << gate->log();
}

TEST_F(GatewayProcess, WithoutACoordinatorForTooLongClientsAreToldSo) {
    auto coordinator = serve();
    const auto a = worker("a");
    const auto b = worker("b");
    const auto gate = gateway({"--coordinator-wait", "0.5"});
    ASSERT_TRUE(ready()) << gate->log() << coordinator->log();
    Stream stream;
    begin(stream, kStream);
    ASSERT_TRUE(eventually([&] { return stream.events >= 5; }, 60)) << gate->log();
    coordinator->stop(SIGKILL);
    stream.thread.join();
    EXPECT_NE(stream.text.find("the coordinator is gone"), std::string::npos) << stream.text;
    const std::string refused = answer(R"({"model": "default", "prompt": "a", "max_tokens": 2})");
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 503")) << refused;
    EXPECT_NE(refused.find("there has been no coordinator"), std::string::npos) << refused;
    EXPECT_TRUE(gate->running());
}

// What a client has of a stream that broke off: its whole events, and the id of the last one.
struct Had {
    std::string events;
    std::string last_id;
};

Had had_of(const std::string& stream) {
    const std::size_t end = stream.rfind("\n\n");
    Had had;
    if (end == std::string::npos) return had;
    had.events = stream.substr(0, end + 2);
    const std::size_t id = had.events.rfind("id: ");
    if (id == std::string::npos) return had;
    had.last_id = had.events.substr(id + 4, had.events.find('\n', id) - id - 4);
    return had;
}

TEST_F(GatewayProcess, AStreamGoesOnAtAnotherGatewayWhenItsOwnIsKilled) {
    // Without a seed: the key makes one.
    constexpr const char* kUnseeded =
        R"({"model": "default", "prompt": "once", "max_tokens": 120, "stream": true,
            "temperature": 0.8, "ignore_eos": true})";
    const std::string key = "Idempotency-Key: the first of two\r\n";
    const auto coordinator = serve();
    const auto a = worker("a");
    const auto b = worker("b");
    const auto gate = gateway({"--name", "one"});
    const int other_port = free_port();
    Process other({"gateway", "--join", "127.0.0.1:" + std::to_string(port_), "--listen",
                   "127.0.0.1:" + std::to_string(other_port), "--name", "two"},
                  folder_.file("other.log"));
    ASSERT_TRUE(ready() && ready(other_port)) << gate->log() << other.log();
    const auto ask = [&](int port, const std::string& headers) {
        return http(port, "POST", "/v1/completions", kUnseeded, {}, headers);
    };
    const std::string undisturbed = streamed_text(ask(gateway_port_, key));
    ASSERT_FALSE(undisturbed.empty()) << gate->log();

    Stream stream;
    stream.thread = std::thread([&] {
        stream.text = http(
            gateway_port_, "POST", "/v1/completions", kUnseeded,
            [&](const std::string& so_far) { stream.events = count(so_far, "data: "); }, key);
    });
    const bool began = eventually([&] { return stream.events >= 10; }, 60);
    gate->stop(SIGKILL);
    stream.thread.join();
    ASSERT_TRUE(began) << stream.text;
    ASSERT_EQ(stream.text.find("[DONE]"), std::string::npos) << "it was over before";
    const Had had = had_of(stream.text);
    ASSERT_FALSE(had.last_id.empty()) << stream.text;
    const std::string place = key + "Last-Event-ID: " + had.last_id + "\r\n";
    // At the other gateway, and at the coordinator's own port.
    for (const int port : {other_port, port_}) {
        const std::string rest = ask(port, place);
        EXPECT_TRUE(rest.starts_with("HTTP/1.1 200")) << rest;
        EXPECT_EQ(streamed_text(had.events) + streamed_text(rest), undisturbed) << rest;
        EXPECT_FALSE(streamed_text(rest).empty());
        EXPECT_NE(rest.find("[DONE]"), std::string::npos) << rest;
    }
}

TEST_F(GatewayProcess, OneThatFindsNobodyEndsWhenItIsInterrupted) {
    const auto gate = gateway();
    EXPECT_TRUE(eventually(
        [&] { return gate->log().find("looking for a coordinator") != std::string::npos; }, 60));
    EXPECT_EQ(gate->stop(SIGTERM), 0) << gate->log();
}

}  // namespace
}  // namespace helix::cluster::gateway_process_test
