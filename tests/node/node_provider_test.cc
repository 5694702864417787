#include "node/node_provider.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "node/node_scaler.h"

namespace helix::node::node_provider_test {
namespace {

// A folder of its own with a script that writes down how it was called.
class NodeProviderTest : public testing::Test {
  protected:
    NodeProviderTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "scaleXXXXXX").string();
        folder_ = mkdtemp(pattern.data());
        script("called", "echo \"$@\" $HELIX_JOIN >> \"" + log() + "\"\n");
    }
    ~NodeProviderTest() override { std::filesystem::remove_all(folder_); }

    std::string log() const { return folder_ / "log"; }
    std::string script(const std::string& name, const std::string& body) const {
        const std::filesystem::path path = folder_ / name;
        std::ofstream(path) << "#!/bin/sh\n" << body;
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
        return path;
    }
    std::string called() const { return folder_ / "called"; }
    std::string lines() const {
        std::ostringstream text;
        text << std::ifstream(log()).rdbuf();
        return text.str();
    }
    // Waits until the log holds this text.
    bool eventually(const std::string& text) const {
        for (int i = 0; i < 1000; ++i) {
            if (lines().find(text) != std::string::npos) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        return false;
    }

  private:
    std::filesystem::path folder_;
};

TEST_F(NodeProviderTest, ACommandIsToldWhatToDoAndWhereToJoin) {
    const auto provider = command_provider(called() + " extra", "host:8080");
    ASSERT_TRUE(provider->start("one").ok());
    ASSERT_TRUE(provider->stop("one").ok());
    EXPECT_EQ(lines(), "extra start one host:8080\nextra stop one host:8080\n");
}

TEST_F(NodeProviderTest, ACommandThatFailsOrHangsIsAnErrorThatSaysSo) {
    const auto fails = command_provider("false", "host:1");
    EXPECT_EQ(fails->start("one").error().message, "'false start one' ended with 1");
    const auto missing = command_provider("/no/such/program", "host:1");
    EXPECT_EQ(missing->start("one").error().message, "'/no/such/program start one' ended with 127");
    const auto hangs = command_provider("sleep 1000 #", "host:1", 0);
    EXPECT_EQ(hangs->start("one").error().message, "'sleep 1000 # start one' took more than 0 s");
}

TEST_F(NodeProviderTest, LocalWorkersAreStartedAndStopped) {
    const std::string worker =
        script("worker", "echo \"$@\" >> \"" + log() + "\"\n" + "trap 'echo gone $6 >> \"" + log() +
                             "\"; exit 0' TERM\nwhile :; do sleep 0.05; done\n");
    auto provider = local_provider(worker, "host:8080", {"--threads", "1"});
    ASSERT_TRUE(provider->start("a").ok());
    ASSERT_TRUE(provider->start("b").ok());
    EXPECT_TRUE(eventually("worker --join host:8080 --name a --threads 1"));
    EXPECT_TRUE(eventually("worker --join host:8080 --name b --threads 1"));
    ASSERT_TRUE(provider->stop("a").ok());
    EXPECT_EQ(provider->stop("a").error().message, "no worker 'a' was started here");
    provider.reset();  // takes b along
    EXPECT_EQ(lines().find("gone") == std::string::npos, false) << lines();
    EXPECT_NE(lines().rfind("gone"), lines().find("gone")) << lines();
    EXPECT_FALSE(local_provider("/no/such/program", "host:1", {})->start("a").ok());
}

TEST_F(NodeProviderTest, TheScalerStopsWhatNeverJoinedAndReportsFailures) {
    const net::Wakeup wakeup;
    {
        NodeScaler scaler(command_provider(called(), "host:1"), wakeup,
                          {base::from_ms(1), base::from_ms(0)});
        const std::string name = "helix-" + std::to_string(getpid()) + "-";
        scaler.add();
        EXPECT_TRUE(eventually("start " + name + "1 host:1\n"));
        scaler.add();  // the first has not joined
        EXPECT_TRUE(eventually("stop " + name + "1 host:1\nstart " + name + "2 host:1\n"));
        scaler.on_joined(name + "2");
        scaler.add();
        scaler.remove("someone-else");
        scaler.remove(name + "2");
        EXPECT_TRUE(eventually("start " + name + "3 host:1\nstop " + name + "2 host:1\n"));
        EXPECT_TRUE(scaler.take_failures().empty());
    }
    NodeScaler failing(command_provider("false", "host:1"), wakeup, {});
    failing.add();
    std::vector<std::string> failures;
    for (int i = 0; i < 1000 && failures.empty(); ++i) {
        failures = failing.take_failures();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_NE(failures[0].find("ended with 1"), std::string::npos);
}

TEST_F(NodeProviderTest, SeveralMayBeOnTheirWayAtOnce) {
    const net::Wakeup wakeup;
    NodeScaler scaler(command_provider(called(), "host:1"), wakeup, {});
    const std::string name = "helix-" + std::to_string(getpid()) + "-";
    scaler.add();
    scaler.add();
    EXPECT_TRUE(eventually("start " + name + "1 host:1\nstart " + name + "2 host:1\n"));
    scaler.on_joined(name + "2");
    scaler.on_joined(name + "1");
    scaler.remove(name + "1");
    EXPECT_TRUE(eventually("stop " + name + "1 host:1\n"));
    EXPECT_EQ(lines().find("stop " + name + "2"), std::string::npos);
}

TEST_F(NodeProviderTest, ALocalWorkerThatEndsByItselfIsNoticedOnce) {
    auto provider = local_provider(script("worker", "exit 3\n"), "host:1", {});
    ASSERT_TRUE(provider->start("a").ok());
    std::vector<NodeProvider::Ended> ended;
    for (int i = 0; i < 1000 && ended.empty(); ++i) {
        ended = provider->take_ended();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended[0].name + " " + ended[0].how, "a ended with 3");
    EXPECT_TRUE(provider->take_ended().empty());
    EXPECT_TRUE(provider->start("a").ok()) << "again";
    EXPECT_TRUE(provider->stop("a").ok());
}

TEST_F(NodeProviderTest, AWorkerThatCrashesIsStartedAgainUntilItIsRemoved) {
    // It lives until it is told to crash.
    const std::string worker =
        script("worker", "echo started >> \"" + log() + "\"\nwhile [ ! -e \"" + log() +
                             ".crash\" ]; do sleep 0.02; done\n"
                             "rm \"" +
                             log() + ".crash\"\nkill -9 $$\n");
    const auto crash = [&] { std::ofstream(log() + ".crash") << "now"; };
    const net::Wakeup wakeup;
    NodeScaler scaler(local_provider(worker, "host:1", {}), wakeup,
                      {base::from_ms(1), base::from_seconds(300)});
    const auto starts_again = [&](const std::string& log_then) {
        for (int i = 0; i < 1000; ++i) {
            EXPECT_TRUE(scaler.take_failures().empty());
            if (lines() == log_then) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        return false;
    };
    const std::string name = "helix-" + std::to_string(getpid()) + "-1";
    scaler.add();
    ASSERT_TRUE(eventually("started"));
    scaler.on_joined(name);
    crash();
    EXPECT_TRUE(starts_again("started\nstarted\n")) << lines();
    crash();
    EXPECT_TRUE(starts_again("started\nstarted\nstarted\n")) << lines();
    scaler.remove(name);
    scaler.add();  // a new one, that never joins
    ASSERT_TRUE(starts_again("started\nstarted\nstarted\nstarted\n")) << lines();
    crash();
    std::vector<std::string> failures;
    for (int i = 0; i < 1000 && failures.empty(); ++i) {
        failures = scaler.take_failures();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0].substr(failures[0].find(": ")), ": ended by signal 9");
}

}  // namespace
}  // namespace helix::node::node_provider_test
