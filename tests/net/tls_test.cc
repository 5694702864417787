#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../own_folder.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "test_certificate.h"
#include "tls_test_client.h"

namespace helix::net::tls_test {
namespace {

using base::from_ms;
using ::testing::HasSubstr;

class TlsTest : public OwnFolder {
  protected:
    void SetUp() override {
        OwnFolder::SetUp();
        make_test_identity("first", files_.certificate, files_.key);
        options_.tls = files_;
        options_.tick = from_ms(10);
        options_.tls_refresh = from_ms(10);
    }

    void TearDown() override {
        server_.reset();
        OwnFolder::TearDown();
    }

    void start(HttpServer::Handler handler) {
        auto server = HttpServer::listen(options_);
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(server).value();
        server_->start(std::move(handler));
    }
    void start_echo() {
        start([](const std::shared_ptr<HttpExchange>& exchange) {
            exchange->respond({200, "text/plain", exchange->request().body, {}});
        });
    }
    std::uint16_t port() const { return server_->port(); }
    // The name in the certificate that a new connection is shown.
    std::string name_shown() { return TlsTestClient(port()).server_name(); }
    bool becomes(const std::string& name) {
        for (int i = 0; i < 1000 && name_shown() != name; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return name_shown() == name;
    }
    bool connections_become(std::size_t count) {
        for (int i = 0; i < 1000 && server_->connections() != count; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return server_->connections() == count;
    }
    std::string in_folder(const char* name) const { return folder_ + "/" + name; }

    TlsFiles files_{folder_ + "/cert.pem", folder_ + "/key.pem"};
    HttpServerOptions options_;
    std::unique_ptr<HttpServer> server_;
};

TEST_F(TlsTest, RequestsAreAnsweredAndTheConnectionIsKept) {
    start_echo();
    TlsTestClient client(port());
    ASSERT_TRUE(client.secure());
    EXPECT_EQ(client.version(), "TLSv1.3");
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{20'000}, std::size_t{3'000'000}}) {
        const std::string body(bytes, 'x');
        client.request("POST", "/", body);
        const auto response = client.read_response();
        EXPECT_EQ(response.status, 200);
        EXPECT_TRUE(response.body == body) << bytes;
    }
    client.send("GET / HTTP/1.1\r\nconnection: close\r\n\r\n");
    EXPECT_EQ(client.read_response().status, 200);
    EXPECT_TRUE(client.wait_closed());
    EXPECT_TRUE(client.ended_properly());
}

TEST_F(TlsTest, OnlyGoodVersionsAndOurProtocolAreSpoken) {
    start_echo();
    TlsTestClient::Options options;
    options.most_version = TLS1_2_VERSION;
    TlsTestClient good(port(), options);
    EXPECT_EQ(good.version(), "TLSv1.2");
    good.request("POST", "/", "a");
    EXPECT_EQ(good.read_response().body, "a");
    options.most_version = TLS1_1_VERSION;
    EXPECT_FALSE(TlsTestClient(port(), options).secure());

    options = {};
    options.protocols = "\x02h2\x08http/1.1";
    EXPECT_EQ(TlsTestClient(port(), options).protocol(), "http/1.1");
    options.protocols = "\x02h2";
    EXPECT_FALSE(TlsTestClient(port(), options).secure());
}

TEST_F(TlsTest, AStreamComesAsItIsWrittenAndALongOneAsItIsTaken) {
    static constexpr int kPieces = 40;
    options_.send_buffer_bytes = 20'000;
    options_.max_queued_bytes = 10'000'000;
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->begin_stream(200, "text/plain", {});
        exchange->write("first");
        if (exchange->request().path == "/wait") return;
        for (int i = 0; i < kPieces; ++i) exchange->write(std::string(100'000, 'y'));
        exchange->end_stream();
    });
    TlsTestClient waiting(port());
    waiting.request("GET", "/wait");
    waiting.read_head();
    std::string chunk;
    ASSERT_TRUE(waiting.read_chunk(chunk)) << "the answer is not over";
    EXPECT_EQ(chunk, "first");
    TlsTestClient::Options slow;
    slow.receive_buffer = 4096;
    TlsTestClient client(port(), slow);
    client.request("GET", "/");
    const auto response = client.read_response();
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.body.size(), 5U + std::size_t{kPieces} * 100'000);
}

TEST_F(TlsTest, AHandshakeThatStallsEndsInTimeAndKeepsNobodyWaiting) {
    options_.handshake_timeout = from_ms(4000);
    start_echo();
    TestClient silent(port());
    TestClient half(port());
    half.send(std::string("\x16\x03\x01\x02\x00\x01", 6));  // the beginning of a ClientHello
    TestClient nonsense(port());
    nonsense.send("\x01\x02 neither TLS nor HTTP");
    EXPECT_TRUE(nonsense.wait_closed());
    EXPECT_TRUE(connections_become(2)) << "handshakes count as connections";
    TlsTestClient other(port());
    other.request("POST", "/", "a");
    EXPECT_EQ(other.read_response().body, "a");
    EXPECT_TRUE(silent.wait_closed());
    EXPECT_TRUE(half.wait_closed());
}

TEST_F(TlsTest, WhenItIsFullHandshakesMakeRoomAndTheRestIsToldSo) {
    options_.max_connections = 2;
    std::vector<std::shared_ptr<HttpExchange>> kept;
    std::atomic<int> asked{0};
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        kept.push_back(exchange);
        ++asked;
    });
    TestClient stalled(port());
    TestClient another(port());
    ASSERT_TRUE(connections_become(2));
    TlsTestClient first(port());
    first.request("GET", "/");
    EXPECT_TRUE(stalled.wait_closed());
    TlsTestClient second(port());
    second.request("GET", "/");
    EXPECT_TRUE(another.wait_closed());
    for (int i = 0; i < 1000 && asked < 2; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    TlsTestClient third(port());
    EXPECT_TRUE(third.secure());
    EXPECT_EQ(third.read_response().status, 503);
    EXPECT_TRUE(third.wait_closed());
    server_->stop();
}

TEST_F(TlsTest, PlainHttpIsToldToUseHttpsButForWhatIsAllowed) {
    options_.allows_plain = [](const HttpRequest& head) { return head.path == "/open"; };
    start_echo();
    TestClient client(port());
    client.request("GET", "/");
    const auto refused = client.read_response();
    EXPECT_EQ(refused.status, 400);
    EXPECT_THAT(refused.body, HasSubstr("https://"));
    EXPECT_TRUE(client.wait_closed());
    TestClient open(port());
    open.request("POST", "/open", "a");
    EXPECT_EQ(open.read_response().body, "a");
    open.request("POST", "/", "a");
    EXPECT_EQ(open.read_response().status, 400) << "each request is looked at";
}

TEST_F(TlsTest, ANewCertificateIsTakenUpAndABadOneIsNot) {
    start_echo();
    TlsTestClient old(port());
    EXPECT_EQ(old.server_name(), "first");
    make_test_identity("second", files_.certificate, files_.key);
    EXPECT_TRUE(becomes("second"));
    old.request("POST", "/", "a");
    EXPECT_EQ(old.read_response().body, "a") << "who is connected stays so";
    std::ofstream(files_.certificate) << "nonsense";
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(name_shown(), "second");
    make_test_identity("third", files_.certificate, files_.key);
    EXPECT_TRUE(becomes("third"));
}

TEST_F(TlsTest, EachChangeThatCannotBeUsedIsToldOnceAndByItsFile) {
    auto context = TlsContext::load(files_);
    ASSERT_TRUE(context.ok()) << context.error().message;
    EXPECT_THAT((*context)->describe(), HasSubstr("CN = first, valid until"));
    const auto next = [&] {  // the second look finds that the file stands still
        auto seen = (*context)->refresh();
        return seen.ok() && !*seen ? (*context)->refresh() : std::move(seen);
    };
    write_test_key(make_test_key(), files_.key);
    const auto wrong = next();
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().message,
              files_.key + ": this is not the key of the certificate in " + files_.certificate);
    const auto again = next();
    ASSERT_TRUE(again.ok());
    EXPECT_FALSE(*again);
    EXPECT_THAT((*context)->describe(), HasSubstr("CN = first"));
    make_test_identity("second", files_.certificate, files_.key);
    const auto good = next();
    ASSERT_TRUE(good.ok());
    EXPECT_TRUE(*good);
    EXPECT_THAT((*context)->describe(), HasSubstr("CN = second"));
}

TEST_F(TlsTest, WhatIsWrongWithAFileIsSaidWithItsName) {
    const auto why = [](const TlsFiles& files) {
        const auto context = TlsContext::load(files);
        return context.ok() ? std::string("nothing") : context.error().message;
    };
    const std::string none = in_folder("none.pem");
    EXPECT_THAT(why({none, files_.key}), HasSubstr(none));
    EXPECT_THAT(why({files_.certificate, none}), HasSubstr(none));
    EXPECT_THAT(why({folder_, files_.key}), HasSubstr(folder_));
    EXPECT_EQ(why({files_.key, files_.certificate}),
              files_.key + ": no certificate in PEM form is in it");
    EXPECT_EQ(why({files_.certificate, files_.certificate}),
              files_.certificate + ": no private key in PEM form is in it");
    const std::string locked = in_folder("locked.pem");
    write_test_key(make_test_key(), locked, "secret");
    EXPECT_THAT(why({files_.certificate, locked}), HasSubstr(locked + ": the key is locked"));
    ::chmod(files_.key.c_str(), 0622);
    EXPECT_THAT(why(files_), HasSubstr(files_.key + " can be written by others"));
    ::chmod(files_.key.c_str(), 0600);
    std::ofstream(files_.certificate, std::ios::app)
        << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    EXPECT_EQ(why(files_), files_.certificate + ": a certificate after the first is damaged");
    EXPECT_FALSE(HttpServer::listen(options_).ok());
}

TEST_F(TlsTest, AClientThatEndsItsSideGetsItsAnswerAndOneThatLeavesIsNoticed) {
    std::atomic<int> gone{0};
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->on_gone([&gone] { ++gone; });
        exchange->begin_stream(200, "text/plain", {});
        exchange->write("a");
        if (exchange->request().path != "/end") return;
        std::thread([post = server_->poster(), exchange] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            post([exchange] { exchange->write("b"), exchange->end_stream(); });
        }).detach();
    });
    for (const bool also_tcp : {false, true}) {
        TlsTestClient client(port());
        client.request("GET", "/end");
        client.end_tls();
        if (also_tcp) client.end_sending();
        EXPECT_EQ(client.read_response().body, "ab");
        EXPECT_TRUE(client.wait_closed());
        EXPECT_TRUE(client.ended_properly());
    }
    EXPECT_EQ(gone, 0);
    TlsTestClient leaving(port());
    leaving.request("GET", "/");
    leaving.read_head();
    std::string chunk;
    leaving.read_chunk(chunk);
    leaving.end_tls();
    leaving.close();
    for (int i = 0; i < 1000 && gone == 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(gone, 1);
}

TEST_F(TlsTest, OurClientBelievesOnlyWhoItWasToldToTrust) {
    make_test_identity("localhost", files_.certificate, files_.key);
    start_echo();
    const auto ask = [this](const std::string& host) {
        auto client = HttpClient::create({host, std::to_string(port()), "", true});
        EXPECT_TRUE(client.ok());
        HttpCall call;
        call.method = "POST";
        call.path = "/";
        call.body = "hello";
        return http_call(**client, std::move(call));
    };
    const auto stranger = ask("localhost");
    ASSERT_FALSE(stranger.ok());
    EXPECT_THAT(stranger.error().message, HasSubstr("is not trusted"));
    ::setenv("SSL_CERT_FILE", files_.certificate.c_str(), 1);
    const auto known = ask("localhost");
    const auto other_name = ask("127.0.0.1");
    ::unsetenv("SSL_CERT_FILE");
    ASSERT_TRUE(known.ok()) << known.error().message;
    EXPECT_EQ(known->status, 200);
    EXPECT_EQ(known->body, "hello");
    ASSERT_FALSE(other_name.ok());
    EXPECT_THAT(other_name.error().message, HasSubstr("is not for 127.0.0.1"));
}

TEST_F(TlsTest, AnAnswerThatBreaksOffDoesNotLookWhole) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->begin_stream(200, "text/plain", {}, 10);
        exchange->write("part");
        exchange->end_stream();
    });
    TlsTestClient client(port());
    client.request("GET", "/");
    EXPECT_FALSE(client.read_response().complete);
    EXPECT_TRUE(client.wait_closed());
    EXPECT_FALSE(client.ended_properly());
}

}  // namespace
}  // namespace helix::net::tls_test
