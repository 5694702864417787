// A machine that is let in by a code, with real processes of the helix binary.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "cluster/process.h"
#include "model/synth.h"
#include "net/test_certificate.h"

namespace helix::cluster::pairing_cluster_test {
namespace {

class PairingCluster : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.path = folder_.file("tiny.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
        Process made({"key", "new", "--file", key_}, folder_.file("key.log"));
        ASSERT_EQ(made.stop(0), 0) << made.log();
        ::setenv("HOME", folder_.file("").c_str(), 1);
    }
    void TearDown() override {
        if (home_.empty()) {
            ::unsetenv("HOME");
        } else {
            ::setenv("HOME", home_.c_str(), 1);
        }
    }
    std::string at() const { return "127.0.0.1:" + std::to_string(port_); }
    std::vector<std::string> serve(bool with_key = true) const {
        std::vector<std::string> all = {"serve",    "--model", folder_.file("tiny.gguf"),
                                        "--listen", at(),      "--no-worker"};
        if (with_key) all.insert(all.end(), {"--key", key_});
        return all;
    }
    std::vector<std::string> worker(const std::string& name, const std::string& code_file) const {
        std::vector<std::string> all = {"worker", "--join",    at(), "--name",  name,  "--memory",
                                        "64MB",   "--threads", "1",  "--cache", "none"};
        if (!code_file.empty()) all.insert(all.end(), {"--pair-code-file", code_file});
        return all;
    }
    // The code that this `helix pair` shows.
    static std::string shown(const Process& pair) {
        const std::regex line("code is  (\\d{4} \\d{4})");
        std::smatch found;
        std::string log;
        EXPECT_TRUE(eventually(
            [&] {
                log = pair.log();
                return std::regex_search(log, found, line);
            },
            30))
            << log;
        return found.empty() ? "" : found[1].str();
    }
    // The name of a file with this code.
    std::string file_with(const std::string& code) const {
        std::ofstream(folder_.file("code")) << code << "\n";
        return folder_.file("code");
    }
    bool is_up() const {
        return eventually(
            [this] { return http(port_, "GET", "/health/live").starts_with("HTTP/1.1 200"); }, 30);
    }
    bool serves(const std::string& name) const {
        return eventually(
            [&] {
                const std::string nodes = http(port_, "GET", "/helix/nodes");
                return nodes.find('"' + name + '"') != std::string::npos &&
                       nodes.find("\"serving\"") != std::string::npos;
            },
            60);
    }

    Folder folder_;
    const std::string home_ = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
    std::string key_ = folder_.file("coordinator.key");
    int port_ = free_port();
};

TEST_F(PairingCluster, AMachineTypesTheCodeOnceAndJoinsWithItsKeyFromThenOn) {
    const Process server(serve(), folder_.file("serve.log"));
    ASSERT_TRUE(is_up()) << server.log();
    Process pair({"pair", "--server", "http://" + at()}, folder_.file("pair.log"));
    const std::string code = shown(pair);
    Process stranger(worker("stranger", file_with("0000 0000")), folder_.file("stranger.log"));
    EXPECT_EQ(stranger.stop(0), 1);
    EXPECT_NE(stranger.log().find("That is not the pairing code"), std::string::npos)
        << stranger.log();
    {
        const Process den(worker("den", file_with(code)), folder_.file("den.log"));
        EXPECT_TRUE(serves("den")) << server.log() << den.log();
        EXPECT_EQ(pair.stop(0), 0);
        EXPECT_NE(pair.log().find("A wrong code was tried."), std::string::npos) << pair.log();
        EXPECT_NE(pair.log().find("den knows the code"), std::string::npos) << pair.log();
    }
    Process used(worker("attic", file_with(code)), folder_.file("attic.log"));
    EXPECT_EQ(used.stop(0), 1);
    EXPECT_NE(used.log().find("No pairing code is shown"), std::string::npos) << used.log();
    const Process again(worker("den", ""), folder_.file("again.log"));
    EXPECT_TRUE(eventually(
        [&] {
            return http(port_, "POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 1})")
                .starts_with("HTTP/1.1 200");
        },
        60))
        << server.log() << again.log();
    EXPECT_NE(again.log().find("made by pairing"), std::string::npos) << again.log();
    EXPECT_EQ(server.log().find(code), std::string::npos) << "codes are never logged";
}

TEST_F(PairingCluster, MachinesPairWithoutTlsWhereClientsSpeakHttps) {
    const std::string certificate = folder_.file("cert.pem");
    const std::string tls_key = folder_.file("key.pem");
    net::make_test_identity("localhost", certificate, tls_key);
    ::setenv("SSL_CERT_FILE", certificate.c_str(), 1);
    std::vector<std::string> words = serve();
    words.insert(words.end(), {"--tls-cert", certificate, "--tls-key", tls_key});
    const Process server(words, folder_.file("serve.log"));
    ASSERT_TRUE(eventually(
        [this] { return http(port_, "GET", "/helix/join").starts_with("HTTP/1.1 200"); }, 30))
        << server.log();
    Process pair({"pair", "--server", "https://localhost:" + std::to_string(port_)},
                 folder_.file("pair.log"));
    const std::string file = folder_.file("den.key");
    std::vector<std::string> den = worker("den", file_with(shown(pair)));
    den.insert(den.end(), {"--key", file});
    const Process joined(den, folder_.file("den.log"));
    EXPECT_EQ(pair.stop(0), 0) << pair.log() << joined.log();
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(file); }, 10)) << joined.log();
    EXPECT_TRUE(http(port_, "POST", "/helix/pairing").starts_with("HTTP/1.1 400"));
    ::unsetenv("SSL_CERT_FILE");
}

TEST_F(PairingCluster, ACoordinatorWithoutAKeySaysThatNoneIsNeeded) {
    const Process server(serve(false), folder_.file("serve.log"));
    ASSERT_TRUE(is_up()) << server.log();
    Process pair({"pair", "--server", "http://" + at()}, folder_.file("pair.log"));
    EXPECT_EQ(pair.stop(0), 1);
    EXPECT_NE(pair.log().find("no pairing is needed"), std::string::npos) << pair.log();
    std::vector<std::string> words = worker("den", "");
    words.emplace_back("--pair");
    const Process den(words, folder_.file("den.log"));
    EXPECT_TRUE(serves("den")) << server.log() << den.log();
    EXPECT_NE(den.log().find("no pairing is needed"), std::string::npos) << den.log();
}

}  // namespace
}  // namespace helix::cluster::pairing_cluster_test
