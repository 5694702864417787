#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "cluster/process.h"
#include "hub/fake_hub.h"
#include "own_folder.h"

namespace helix::cluster::pull_process_test {
namespace {

namespace fs = std::filesystem;

// Real processes that pull from a hub of the test's own: its one model is the demo's.
class PullProcess : public OwnFolder {
  protected:
    void SetUp() override {
        OwnFolder::SetUp();
        fs::remove_all(folder_);
        fs::create_directories(folder_);
        hub_.large = {{"Tiny-Q8_0.gguf", read(HELIX_SOURCE_DIR "/models/helix-demo.gguf")}};
        hub_.at_bytes = [this](const hub::FakeRequest&,
                               const hub::FakeReply& usual) -> std::optional<hub::FakeReply> {
            hub::FakeReply slow = usual;
            slow.bytes_per_ms = bytes_per_ms_;
            return slow;
        };
        for (const char* name : {"http_proxy", "all_proxy", "HF_TOKEN", "HF_HUB_OFFLINE"}) {
            ::unsetenv(name);
        }
        ::setenv("HF_ENDPOINT", hub_.endpoint().c_str(), 1);
        ::setenv("HELIX_CACHE", (folder_ + "/cache").c_str(), 1);
    }
    void TearDown() override {
        ::unsetenv("HF_ENDPOINT");
        ::unsetenv("HELIX_CACHE");
        OwnFolder::TearDown();
    }

    std::string blob() { return hub::sha256_of(hub_.large["Tiny-Q8_0.gguf"]); }
    fs::path blobs() const { return fs::path(folder_) / "cache/models--den--Tiny-GGUF/blobs"; }
    std::uint64_t bytes_at(const fs::path& path) const {
        std::error_code error;
        const std::uint64_t bytes = fs::file_size(path, error);
        return error ? 0 : bytes;
    }
    // What a command prints, run to its end.
    std::string helix(const std::vector<std::string>& arguments) {
        const std::string log = folder_ + "/" + std::to_string(++commands_) + ".log";
        Process process(arguments, log);
        EXPECT_TRUE(eventually([&] { return !process.running(); }, 60)) << process.log();
        return process.log();
    }

    hub::FakeHub hub_;
    std::size_t bytes_per_ms_ = 1 << 20;
    int commands_ = 0;
};

TEST_F(PullProcess, APullThatIsKilledGoesOnInTheNext) {
    bytes_per_ms_ = hub_.large["Tiny-Q8_0.gguf"].size() / 4000;
    const fs::path part = blobs() / (blob() + ".helix-part");
    {
        Process killed({"pull", "den/Tiny-GGUF"}, folder_ + "/killed.log");
        ASSERT_TRUE(eventually([&] { return bytes_at(part) > 0; }, 60)) << killed.log();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        killed.stop(SIGKILL);
    }
    const std::uint64_t there = bytes_at(part);
    ASSERT_GT(there, 0U);
    ASSERT_LT(there, hub_.large["Tiny-Q8_0.gguf"].size());
    hub_.bytes().forget_requests();
    bytes_per_ms_ = 1 << 20;
    const std::string said = helix({"pull", "den/Tiny-GGUF"});
    EXPECT_NE(said.find("den/Tiny-GGUF: "), std::string::npos) << said;
    ASSERT_EQ(hub_.bytes().requests().size(), 1U) << said;
    EXPECT_EQ(hub_.bytes().requests()[0].header("range"), "bytes=" + std::to_string(there) + "-");
    EXPECT_EQ(read((blobs() / blob()).string()), hub_.large["Tiny-Q8_0.gguf"]);
}

TEST_F(PullProcess, ANameIsAsGoodAsAPath) {
    // All but the first line, which is the path.
    const auto told_of = [&](const std::string& model) {
        const std::string text = helix({"model", "info", model});
        return text.substr(text.find('\n'));
    };
    const std::string file = told_of(HELIX_SOURCE_DIR "/models/helix-demo.gguf");
    EXPECT_EQ(told_of("den/Tiny-GGUF:Q8_0"), file);
    EXPECT_EQ(hub_.bytes().requests().size(), 1U);
    EXPECT_EQ(told_of("den/Tiny-GGUF:Q8_0"), file);
    EXPECT_EQ(hub_.bytes().requests().size(), 1U);
    EXPECT_NE(helix({"model", "list"}).find("  den/Tiny-GGUF:Q8_0\n"), std::string::npos);
    const std::string unknown = helix({"serve", "--model", "den/Tiny-GGUF:Q9_0"});
    EXPECT_NE(unknown.find("--model den/Tiny-GGUF:Q9_0: there is no such file"), std::string::npos)
        << unknown;
    EXPECT_NE(unknown.find("did you mean \"den/Tiny-GGUF:Q8_0\""), std::string::npos) << unknown;
    EXPECT_NE(helix({"model", "rm", "den/Tiny-GGUF:Q8_0"}).find("removed"), std::string::npos);
    EXPECT_NE(helix({"model", "list"}).find("no models in"), std::string::npos);
    EXPECT_NE(helix({"pull", "nonsense"}).find("expected OWNER/REPO"), std::string::npos);
}

TEST_F(PullProcess, AServerStartsFromAName) {
    const int port = free_port();
    Process server(
        {"serve", "--model", "den/Tiny-GGUF", "--listen", "127.0.0.1:" + std::to_string(port)},
        folder_ + "/serve.log");
    ASSERT_TRUE(eventually(
        [&] { return http(port, "GET", "/v1/models").find("Tiny-Q8_0.gguf") != std::string::npos; },
        60))
        << server.log();
    EXPECT_EQ(server.stop(SIGTERM), 0) << server.log();
}

TEST_F(PullProcess, WhatOneHelixServesAnotherPulls) {
    const std::string keys = folder_ + "/api.keys";
    std::ofstream(keys) << "den one-key-of-sufficient-length-1234\n";
    const int port = free_port();
    const std::string at = "127.0.0.1:" + std::to_string(port);
    Process server({"serve", "--model", HELIX_SOURCE_DIR "/models/helix-demo.gguf", "--listen", at,
                    "--api-key-file", keys},
                   folder_ + "/serve.log");
    ASSERT_TRUE(eventually(
        [&] { return http(port, "GET", "/health").find("200 OK") != std::string::npos; }, 60))
        << server.log();
    const std::string address = "http://" + at;
    EXPECT_NE(helix({"pull", address}).find("asks for a key"), std::string::npos);
    const std::string said =
        helix({"pull", address, "--api-key", "one-key-of-sufficient-length-1234"});
    const std::size_t path = said.rfind("\n/") + 1;
    ASSERT_NE(path, 0U) << said;
    EXPECT_EQ(read(said.substr(path, said.find('\n', path) - path)),
              read(HELIX_SOURCE_DIR "/models/helix-demo.gguf"));
    EXPECT_NE(helix({"model", "list"}).find("/helix/models/helix-demo.gguf?hash="),
              std::string::npos);
    EXPECT_EQ(server.stop(SIGTERM), 0) << server.log();
}

}  // namespace
}  // namespace helix::cluster::pull_process_test
