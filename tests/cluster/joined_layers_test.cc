// A model whose last layers read the keys and values of earlier ones, on two workers as processes:
// the one that has these layers together dies while it answers, and the text is that of one
// process.

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cluster/process.h"
#include "cluster/streams.h"
#include "model/synth.h"

namespace helix::cluster::joined_layers_test {
namespace {

using Json = nlohmann::json;

constexpr const char* kBody =
    R"({"model": "default", "prompt": "once", "max_tokens": 32, "stream": true,
        "temperature": 0.8, "seed": 7, "ignore_eos": true})";

class JoinedLayers : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.shape = "gemma4-e";
        synth.path = folder_.file("gemma4-e.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
        // Layers 3 to 9 stay together.
        std::ofstream(folder_.file("placement.json"))
            << R"({"schema": "helix-layout-1", "num_layers": 10, "node_names": {"0": "a", "1": "b"},
                   "layers": {"0": [0, 3], "1": [3, 10]}})";
    }
    std::unique_ptr<Process> serve(int port, const std::string& log,
                                   const std::vector<std::string>& more) const {
        std::vector<std::string> words{"serve", "--model", folder_.file("gemma4-e.gguf"),
                                       "--listen", "127.0.0.1:" + std::to_string(port)};
        words.insert(words.end(), more.begin(), more.end());
        return std::make_unique<Process>(words, folder_.file(log));
    }
    // So slow that a worker can die before an answer ends.
    std::unique_ptr<Process> worker(const std::string& name) const {
        return std::make_unique<Process>(
            std::vector<std::string>{"worker", "--join", "127.0.0.1:" + std::to_string(port_),
                                     "--name", name, "--host-id", name, "--memory", "128MB",
                                     "--threads", "1", "--speed", "0.05", "--cache",
                                     folder_.file("cache-" + name)},
            folder_.file(name + ".log"));
    }
    static bool ready(int port) {
        return eventually(
            [&] { return http(port, "GET", "/health/ready").starts_with("HTTP/1.1 200"); }, 120);
    }
    Json layers_of(const std::string& name) const {
        const std::string answer = http(port_, "GET", "/helix/cluster");
        const std::size_t end = answer.find("\r\n\r\n");
        if (end == std::string::npos) return {};
        const Json cluster = Json::parse(answer.substr(end + 4));
        for (const Json& one : cluster["workers"]) {
            if (one["name"] == name) return one["layers"];
        }
        return {};
    }

    Folder folder_;
    int port_ = free_port();
};

TEST_F(JoinedLayers, TheTextIsThatOfOneProcessAlsoWhenTheWorkerThatHasThemDies) {
    std::string expected;
    {
        const int port = free_port();
        const auto alone = serve(port, "alone.log", {"--threads", "1"});
        ASSERT_TRUE(ready(port)) << alone->log();
        expected = streamed_text(http(port, "POST", "/v1/completions", kBody));
        ASSERT_FALSE(expected.empty()) << alone->log();
    }
    const auto coordinator =
        serve(port_, "serve.log", {"--no-worker", "--placement", folder_.file("placement.json")});
    const auto a = worker("a");
    auto b = worker("b");
    ASSERT_TRUE(ready(port_)) << coordinator->log();
    EXPECT_TRUE(eventually(
        [&] {
            return layers_of("a") == Json::array({0, 3}) && layers_of("b") == Json::array({3, 10});
        },
        30))
        << coordinator->log();
    Stream stream;
    stream.thread = std::thread([&] {
        stream.text = http(port_, "POST", "/v1/completions", kBody, [&](const std::string& so_far) {
            stream.events = count(so_far, "data: ");
        });
    });
    EXPECT_TRUE(eventually([&] { return stream.events >= 3; }, 60)) << coordinator->log();
    b->stop(SIGKILL);
    EXPECT_LT(stream.events, 32) << "it was over before";
    b = worker("b");
    stream.thread.join();
    EXPECT_NE(stream.text.find("[DONE]"), std::string::npos) << stream.text;
    EXPECT_EQ(streamed_text(stream.text), expected) << coordinator->log() << b->log();
    EXPECT_EQ(count(coordinator->log(), "worker b joined"), 2) << coordinator->log();
}

}  // namespace
}  // namespace helix::cluster::joined_layers_test
