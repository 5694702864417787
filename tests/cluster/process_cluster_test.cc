// Coordinator and workers as processes of the helix binary, asked over HTTP.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <regex>

#include <nlohmann/json.hpp>

#include "cluster/process.h"
#include "cluster/streams.h"
#include "model/synth.h"

namespace helix::cluster::process_cluster_test {
namespace {

class ProcessCluster : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.path = folder_.file("tiny.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
    }

    std::unique_ptr<Process> serve(std::vector<std::string> more) {
        std::vector<std::string> arguments{"serve", "--model", folder_.file("tiny.gguf"),
                                           "--listen", "127.0.0.1:" + std::to_string(port_)};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return std::make_unique<Process>(arguments, folder_.file("serve.log"));
    }
    // Starts a worker that is a machine of its own as far as the planner knows.
    std::unique_ptr<Process> worker(const std::string& name, std::vector<std::string> more = {}) {
        std::vector<std::string> arguments{"worker",
                                           "--join",
                                           "127.0.0.1:" + std::to_string(port_),
                                           "--name",
                                           name,
                                           "--host-id",
                                           name,
                                           "--memory",
                                           "64MB",
                                           "--threads",
                                           "1",
                                           "--cache",
                                           folder_.file("cache-" + name)};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return std::make_unique<Process>(arguments, folder_.file(name + ".log"));
    }
    bool answers(int seconds = 60) {
        return eventually(
            [&] {
                return http(
                           port_, "POST", "/v1/completions",
                           R"({"model": "default", "prompt": "a", "max_tokens": 2, "temperature": 0})")
                    .starts_with("HTTP/1.1 200");
            },
            seconds);
    }

    Folder folder_;
    int port_ = free_port();
};

TEST_F(ProcessCluster, AKilledWorkersRequestsGoOnWithTheSameTokens) {
    const auto coordinator = serve({"--no-worker", "--min-workers", "2"});
    auto a = worker("a", {"--speed", "0.02"});
    auto b = worker("b", {"--speed", "0.02"});
    ASSERT_TRUE(answers()) << coordinator->log();
    const std::string body =
        R"({"model": "default", "prompt": "once", "max_tokens": 60, "stream": true,
            "temperature": 0.8, "seed": 7, "ignore_eos": true})";
    const std::string undisturbed = streamed_text(http(port_, "POST", "/v1/completions", body));
    ASSERT_FALSE(undisturbed.empty());
    std::vector<Stream> streams(8);
    for (Stream& stream : streams) {
        stream.thread = std::thread([&stream, &body, this] {
            stream.text =
                http(port_, "POST", "/v1/completions", body,
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
        60));
    a->stop(SIGKILL);
    EXPECT_TRUE(eventually(
        [&] { return coordinator->log().find("worker a was lost") != std::string::npos; }, 20));
    a = worker("a");  // it comes back: b alone may not hold the model
    for (Stream& stream : streams) {
        stream.thread.join();
        EXPECT_NE(stream.text.find("[DONE]"), std::string::npos) << stream.text;
        EXPECT_EQ(streamed_text(stream.text), undisturbed) << coordinator->log();
    }
    EXPECT_TRUE(eventually([&] { return count(coordinator->log(), "worker a joined") == 2; }, 30))
        << coordinator->log();
    EXPECT_EQ(b->stop(SIGTERM), 0);
    EXPECT_TRUE(answers()) << coordinator->log();
    EXPECT_TRUE(coordinator->running());
    EXPECT_EQ(coordinator->stop(SIGTERM), 0) << coordinator->log();
}

TEST_F(ProcessCluster, AStoppedWorkerIsLostAfterTwoSecondsOfSilence) {
    const auto coordinator = serve({"--no-worker", "--min-workers", "1"});
    auto a = worker("a");
    ASSERT_TRUE(answers()) << coordinator->log();
    const auto frozen = std::chrono::steady_clock::now();
    a->signal(SIGSTOP);
    EXPECT_TRUE(eventually(
        [&] { return coordinator->log().find("worker a was lost") != std::string::npos; }, 20));
    const auto took = std::chrono::steady_clock::now() - frozen;
    EXPECT_LT(took, std::chrono::seconds(8));
    // When it is awake again it finds its connection closed and joins anew.
    a->signal(SIGCONT);
    EXPECT_TRUE(eventually([&] { return count(coordinator->log(), "worker a joined") == 2; }, 30))
        << coordinator->log() << a->log();
    EXPECT_TRUE(answers());
}

TEST_F(ProcessCluster, AWorkerIsGivenAsMuchTimeAsWasAskedFor) {
    const auto coordinator = serve({"--no-worker", "--lost-after", "60"});
    const auto a = worker("a", {"--lost-after", "60"});
    ASSERT_TRUE(answers()) << coordinator->log();
    a->signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::seconds(5));  // more than twice what is usual
    a->signal(SIGCONT);
    EXPECT_TRUE(answers()) << coordinator->log();
    EXPECT_EQ(coordinator->log().find("worker a was lost"), std::string::npos)
        << coordinator->log();
    EXPECT_EQ(count(coordinator->log(), "worker a joined"), 1);
}

TEST_F(ProcessCluster, WorkersFollowACoordinatorThatIsStartedAgain) {
    auto coordinator = serve({"--no-worker"});
    const auto a = worker("a");
    ASSERT_TRUE(answers()) << coordinator->log();
    coordinator->stop(SIGKILL);
    coordinator = serve({"--no-worker"});
    EXPECT_TRUE(answers()) << coordinator->log() << a->log();
    EXPECT_TRUE(a->running());
}

TEST_F(ProcessCluster, ServesUnderAnotherSchedulerAndRefusesAnUnknownOne) {
    {
        const auto coordinator =
            serve({"--no-worker", "--min-workers", "2", "--scheduler", "shortest-queue"});
        const auto a = worker("a");
        const auto b = worker("b");
        ASSERT_TRUE(answers()) << coordinator->log();
        for (int i = 0; i < 5; ++i) EXPECT_TRUE(answers(1)) << coordinator->log();
    }
    const auto refused = serve({"--scheduler", "fastest"});
    EXPECT_TRUE(eventually([&] { return !refused->running(); }, 20));
    EXPECT_NE(refused->log().find("--scheduler: 'fastest' is none of helix, swarm, random"),
              std::string::npos)
        << refused->log();
}

TEST_F(ProcessCluster, OneProcessServesWithoutConfiguration) {
    const auto coordinator = serve({});
    EXPECT_TRUE(answers()) << coordinator->log();
    EXPECT_EQ(coordinator->stop(SIGTERM), 0);
}

}  // namespace
}  // namespace helix::cluster::process_cluster_test
