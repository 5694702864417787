// A coordinator that dies while it serves, and the one that is started after it.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/process.h"
#include "cluster/streams.h"
#include "model/synth.h"

namespace helix::cluster::restart_test {
namespace {

using Json = nlohmann::json;

class CoordinatorRestart : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.path = folder_.file("tiny.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
    }
    // Starts a coordinator with a log of its own.
    std::unique_ptr<Process> serve() {
        const std::string log = "serve-" + std::to_string(++starts_) + ".log";
        return std::make_unique<Process>(
            std::vector<std::string>{"serve", "--model", folder_.file("tiny.gguf"), "--listen",
                                     "127.0.0.1:" + std::to_string(port_), "--no-worker",
                                     "--min-workers", "2", "--state-dir", folder_.file("state"),
                                     "--rejoin-wait", "300"},
            folder_.file(log));
    }
    std::unique_ptr<Process> worker(const std::string& name) {
        return std::make_unique<Process>(
            std::vector<std::string>{"worker", "--join", "127.0.0.1:" + std::to_string(port_),
                                     "--name", name, "--host-id", name, "--memory", "64MB",
                                     "--threads", "1", "--speed", "0.02", "--cache",
                                     folder_.file("cache-" + name)},
            folder_.file(name + ".log"));
    }
    bool answers() {
        const std::string body = R"({"model": "default", "prompt": "a", "max_tokens": 2})";
        return eventually(
            [&] {
                return http(port_, "POST", "/v1/completions", body).starts_with("HTTP/1.1 200");
            },
            120);
    }
    // The layers of each worker, by name.
    std::map<std::string, Json> layers() const {
        const std::string answer = http(port_, "GET", "/helix/cluster");
        const std::size_t body = answer.find("\r\n\r\n");
        std::map<std::string, Json> found;
        if (body == std::string::npos) return found;
        const Json cluster = Json::parse(answer.substr(body + 4));
        for (const Json& worker : cluster["workers"]) found[worker["name"]] = worker["layers"];
        return found;
    }
    void begin(std::vector<Stream>& streams, const std::string& body) {
        for (Stream& stream : streams) {
            stream.thread = std::thread([&stream, body, this] {
                stream.text = http(
                    port_, "POST", "/v1/completions", body,
                    [&](const std::string& so_far) { stream.events = count(so_far, "data: "); });
            });
        }
        EXPECT_TRUE(eventually(
            [&] {
                for (const Stream& stream : streams) {
                    if (stream.events < 2) return false;
                }
                return true;
            },
            120));
    }

    Folder folder_;
    int port_ = free_port();
    int starts_ = 0;
};

// A request so long that it is hardly over before the coordinator is killed.
constexpr const char* kLong =
    R"({"model": "default", "prompt": "once", "max_tokens": 400, "stream": true,
        "temperature": 0.8, "seed": 7, "ignore_eos": true})";
constexpr const char* kShort =
    R"({"model": "default", "prompt": "once", "max_tokens": 40, "stream": true,
        "temperature": 0.8, "seed": 7, "ignore_eos": true})";

TEST_F(CoordinatorRestart, AfterAKillItHasTheSamePlacementAndNothingIsLoaded) {
    const Json none = Json::array({0, 0});
    auto coordinator = serve();
    const auto a = worker("a");
    const auto b = worker("b");
    ASSERT_TRUE(answers()) << coordinator->log();
    // What /helix/cluster shows may be a moment old.
    std::map<std::string, Json> before;
    const auto all_placed = [&] {
        before = layers();
        return before.size() == 2 && (before["a"] != none || before["b"] != none);
    };
    ASSERT_TRUE(eventually(all_placed, 60)) << coordinator->log();
    const std::string undisturbed = streamed_text(http(port_, "POST", "/v1/completions", kShort));
    ASSERT_FALSE(undisturbed.empty());

    std::vector<Stream> streams(3);
    begin(streams, kLong);
    coordinator->stop(SIGKILL);
    for (Stream& stream : streams) {
        stream.thread.join();  // the connection is closed: nobody waits for ever
        if (stream.text.find("[DONE]") != std::string::npos) continue;  // it was quicker
        const std::string begun = streamed_text(stream.text);
        const std::size_t both = std::min(begun.size(), undisturbed.size());
        EXPECT_EQ(begun.substr(0, both), undisturbed.substr(0, both));
    }

    coordinator = serve();
    ASSERT_TRUE(answers()) << coordinator->log() << a->log() << b->log();
    EXPECT_TRUE(eventually([&] { return layers() == before; }, 60)) << coordinator->log();
    EXPECT_NE(coordinator->log().find("the placement from before the restart is taken up again"),
              std::string::npos)
        << coordinator->log();
    for (const auto& [name, worker] : {std::pair("a", a.get()), std::pair("b", b.get())}) {
        EXPECT_TRUE(worker->running());
        const std::string log = worker->log();
        // Before the restart: it has kept them, and there was nothing to load after it.
        EXPECT_EQ(count(log, "are loaded: "), before[name] == none ? 0 : 1) << log;
        EXPECT_EQ(count(log, "the next coordinator is there"), 1) << log;
    }
    EXPECT_EQ(streamed_text(http(port_, "POST", "/v1/completions", kShort)), undisturbed);
    EXPECT_EQ(coordinator->stop(SIGTERM), 0) << coordinator->log();
}

TEST_F(CoordinatorRestart, ATermSignalEndsWhatTakesTooLongWithAnErrorThatSaysSo) {
    const auto coordinator = serve();
    const auto a = worker("a");
    const auto b = worker("b");
    ASSERT_TRUE(answers()) << coordinator->log();
    std::vector<Stream> streams(2);
    begin(streams, kLong);
    EXPECT_EQ(coordinator->stop(SIGTERM), 0) << coordinator->log();
    for (Stream& stream : streams) {
        stream.thread.join();
        const bool whole = stream.text.find("[DONE]") != std::string::npos;  // on a fast machine
        const bool told = stream.text.find("The server is shutting down.") != std::string::npos;
        EXPECT_NE(whole, told) << stream.text;
    }
    EXPECT_TRUE(a->running());
    EXPECT_TRUE(b->running());
    EXPECT_EQ(a->stop(SIGTERM), 0) << a->log();
}

}  // namespace
}  // namespace helix::cluster::restart_test
