// HTTPS at the API's port, with real processes of the helix binary.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "cluster/process.h"
#include "model/synth.h"
#include "net/test_certificate.h"

namespace helix::cluster::tls_cluster_test {
namespace {

class TlsCluster : public ::testing::Test {
  protected:
    void SetUp() override {
        model::SynthOptions synth;
        synth.path = folder_.file("tiny.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
        net::make_test_identity("localhost", certificate_, key_);
        ::setenv("SSL_CERT_FILE", certificate_.c_str(), 1);
    }
    void TearDown() override { ::unsetenv("SSL_CERT_FILE"); }

    std::string at() const { return "127.0.0.1:" + std::to_string(port_); }
    // The output of a `helix node list` that ended well; "" otherwise.
    std::string list(const std::string& scheme) {
        const std::string log = folder_.file("list.log");
        std::filesystem::remove(log);
        Process process(
            {"node", "list", "--server", scheme + "://localhost:" + std::to_string(port_)}, log);
        return process.stop(0) == 0 ? process.log() : "";
    }

    Folder folder_;
    std::string certificate_ = folder_.file("cert.pem");
    std::string key_ = folder_.file("key.pem");
    int port_ = free_port();
};

TEST_F(TlsCluster, WorkersJoinAsEverAndCallersProveTheServer) {
    const Process server({"serve", "--model", folder_.file("tiny.gguf"), "--listen", at(),
                          "--no-worker", "--tls-cert", certificate_, "--tls-key", key_},
                         folder_.file("serve.log"));
    const Process worker({"worker", "--join", at(), "--name", "den", "--memory", "64MB",
                          "--threads", "1", "--cache", folder_.file("cache")},
                         folder_.file("den.log"));
    EXPECT_TRUE(eventually(
        [this] {
            const std::string nodes = list("https");
            return nodes.find("den") != std::string::npos &&
                   nodes.find("serving") != std::string::npos;
        },
        60))
        << server.log() << worker.log();
    EXPECT_EQ(list("http"), "");
    EXPECT_NE(server.log().find("https://" + at() + "/v1"), std::string::npos) << server.log();
    EXPECT_TRUE(http(port_, "GET", "/v1/models").starts_with("HTTP/1.1 400"));
}

TEST_F(TlsCluster, AMistakeEndsTheStartWithTheNameOfTheFile) {
    const std::string none = folder_.file("none.pem");
    Process server({"serve", "--model", folder_.file("tiny.gguf"), "--listen", at(), "--tls-cert",
                    none, "--tls-key", key_},
                   folder_.file("serve.log"));
    EXPECT_EQ(server.stop(0), 1);
    EXPECT_NE(server.log().find(none + ": "), std::string::npos) << server.log();
}

}  // namespace
}  // namespace helix::cluster::tls_cluster_test
