#include "net/http_client.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "net/http_server.h"

namespace helix::net::http_client_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(HttpUrl, HostPortAndPrefixAreTakenApart) {
    const auto full = parse_http_url("http://example.org:8080/v1/");
    ASSERT_TRUE(full.ok()) << full.error().message;
    EXPECT_EQ(full->host, "example.org");
    EXPECT_EQ(full->port, "8080");
    EXPECT_EQ(full->prefix, "/v1");
    const auto bare = parse_http_url("127.0.0.1:99");
    ASSERT_TRUE(bare.ok());
    EXPECT_EQ(bare->host, "127.0.0.1");
    EXPECT_EQ(bare->prefix, "");
    EXPECT_EQ(parse_http_url("http://[::1]:80")->host, "::1");
    EXPECT_EQ(parse_http_url("http://[::1]")->port, "80");
    EXPECT_FALSE(bare->tls);
    const auto secure = parse_http_url("https://example.org/v1");
    ASSERT_TRUE(secure.ok());
    EXPECT_TRUE(secure->tls);
    EXPECT_EQ(secure->port, "443");
    EXPECT_EQ(secure->prefix, "/v1");
}

TEST(HttpUrl, WhatIsNoHttpAddressIsRefusedByName) {
    for (const char* bad : {"", "http://", "https://", "http://https://a", "http://a:0",
                            "http://a:99999", "http://a:b", "ftp://a", "http://:80"}) {
        const auto result = parse_http_url(bad);
        ASSERT_FALSE(result.ok()) << bad;
        EXPECT_NE(result.error().message.find(bad), std::string::npos) << result.error().message;
    }
}

class HttpClientTest : public ::testing::Test {
  protected:
    void start(HttpServer::Handler handler) {
        auto server = HttpServer::listen(options_);
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(server).value();
        server_->start(std::move(handler));
        auto client = HttpClient::create({"127.0.0.1", std::to_string(server_->port()), "/v1"});
        ASSERT_TRUE(client.ok()) << client.error().message;
        client_ = std::move(client).value();
    }
    void start_echo() {
        start([](const std::shared_ptr<HttpExchange>& exchange) {
            const HttpRequest& r = exchange->request();
            exchange->respond({201, "text/plain", r.method + " " + r.path + " " + r.body, {}});
        });
    }

    HttpServerOptions options_{.tick = base::from_ms(10)};
    std::unique_ptr<HttpServer> server_;
    std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpClientTest, AnAnswerComesWithStatusAndBody) {
    start_echo();
    HttpCall call;
    call.method = "POST";
    call.path = "/echo";
    call.body = "{\"a\":1}";
    const auto answer = http_call(*client_, std::move(call));
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->status, 201);
    EXPECT_EQ(answer->body, "POST /v1/echo {\"a\":1}");
}

TEST_F(HttpClientTest, HeadersOfTheAnswerAreHeard) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->respond({429, "text/plain", "", {{"retry-after", "7"}}});
    });
    std::string heard;
    HttpCall call;
    call.on_header = [&](std::string_view name, std::string_view value) {
        if (name == "retry-after") heard = value;
    };
    ASSERT_TRUE(http_call(*client_, std::move(call)).ok());
    EXPECT_EQ(heard, "7");
}

TEST_F(HttpClientTest, OneConnectionServesCallsInTurn) {
    start_echo();
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(http_call(*client_, {.path = "/x"}).ok());
        EXPECT_EQ(server_->connections(), 1U);
    }
}

TEST_F(HttpClientTest, AConnectionThatTheServerGaveUpIsReplaced) {
    options_.idle_timeout = base::from_ms(30);
    start_echo();
    ASSERT_TRUE(http_call(*client_, {.path = "/x"}).ok());
    std::this_thread::sleep_for(milliseconds(200));
    const auto answer = http_call(*client_, {.path = "/y"});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->body, "GET /v1/y ");
}

TEST_F(HttpClientTest, PiecesOfAStreamAreHeardAsTheyCome) {
    std::vector<std::shared_ptr<HttpExchange>> held;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->begin_stream(200, "text/plain", {});
        exchange->write("one");
        held.push_back(exchange);
    });
    std::string heard;
    bool ended = false;
    HttpCall call;
    call.on_body = [&](std::string_view bytes) {
        heard += bytes;
        client_->stop_running();
    };
    call.on_end = [&](const base::Status& status) {
        EXPECT_TRUE(status.ok());
        ended = true;
        client_->stop_running();
    };
    client_->start(std::move(call));
    client_->run_until(HttpClient::Clock::now() + seconds(10));
    EXPECT_EQ(heard, "one");
    EXPECT_FALSE(ended);
    EXPECT_EQ(client_->open_calls(), 1U);
    server_->post([&] {
        held[0]->write("two");
        held[0]->end_stream();
    });
    while (!ended) client_->run_until(HttpClient::Clock::now() + seconds(10));
    EXPECT_EQ(heard, "onetwo");
    EXPECT_EQ(client_->open_calls(), 0U);
}

TEST_F(HttpClientTest, ManyCallsAreUnderWayAtOnce) {
    std::vector<std::shared_ptr<HttpExchange>> held;
    constexpr int kCalls = 200;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        held.push_back(exchange);
        if (held.size() < kCalls) return;
        for (const auto& one : held) one->respond({200, "text/plain", "all here", {}});
    });
    int good = 0;
    for (int i = 0; i < kCalls; ++i) {
        HttpCall call;
        call.on_end = [&](const base::Status& status) { good += status.ok() ? 1 : 0; };
        client_->start(std::move(call));
    }
    const auto until = HttpClient::Clock::now() + seconds(10);
    while (client_->open_calls() > 0 && HttpClient::Clock::now() < until) {
        client_->run_until(HttpClient::Clock::now() + milliseconds(10));
    }
    EXPECT_EQ(good, kCalls);
}

TEST_F(HttpClientTest, AnAnswerThatNeverComesEndsAtTheLimit) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->begin_stream(200, "text/plain", {});
        exchange->write("one");
        static std::shared_ptr<HttpExchange> held;
        held = exchange;
    });
    const auto answer = http_call(*client_, {.limit = milliseconds(100)});
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, base::Errc::overloaded);
}

TEST_F(HttpClientTest, AnAnswerThatIsTooLongIsAnErrorHoweverItComes) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        const std::string body(1000, 'a');
        if (exchange->request().path == "/v1/whole") {
            return exchange->respond({200, "text/plain", body, {}});
        }
        exchange->begin_stream(200, "text/plain", {});
        for (int i = 0; i < 10; ++i) exchange->write(body.substr(0, 100));
        exchange->end_stream();
    });
    for (const char* path : {"/whole", "/stream"}) {
        const auto enough = http_call(*client_, {.path = path, .most_body_bytes = 1000});
        ASSERT_TRUE(enough.ok()) << path << ": " << enough.error().message;
        EXPECT_EQ(enough->body.size(), 1000U);
        const auto answer = http_call(*client_, {.path = path, .most_body_bytes = 999});
        ASSERT_FALSE(answer.ok()) << path;
        EXPECT_EQ(answer.error().code, base::Errc::io) << path;
        EXPECT_NE(answer.error().message.find("a long answer"), std::string::npos)
            << answer.error().message;
    }
}

TEST_F(HttpClientTest, AServerThatStopsInTheMiddleIsAnError) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->begin_stream(200, "text/plain", {});
        exchange->write("one");
    });
    base::Status end = base::Ok{};
    HttpCall call;
    call.on_body = [&](std::string_view) { client_->stop_running(); };
    call.on_end = [&](const base::Status& status) {
        end = status;
        client_->stop_running();
    };
    client_->start(std::move(call));
    client_->run_until(HttpClient::Clock::now() + seconds(10));
    server_->stop();
    client_->run_until(HttpClient::Clock::now() + seconds(10));
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().code, base::Errc::io);
}

TEST_F(HttpClientTest, NobodyThereIsSaidWithThePlace) {
    start_echo();
    server_->stop();
    const auto answer = http_call(*client_, {.path = "/x"});
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, base::Errc::unavailable);
    EXPECT_NE(answer.error().message.find("127.0.0.1:" + std::to_string(server_->port())),
              std::string::npos)
        << answer.error().message;
}

TEST_F(HttpClientTest, RunUntilEndsOnTimeAndWhenWoken) {
    start_echo();
    const auto began = HttpClient::Clock::now();
    client_->run_until(began + milliseconds(30));
    EXPECT_GE(HttpClient::Clock::now() - began, milliseconds(30));
    std::thread waker([this] { client_->wake(); });
    client_->run_until(began + seconds(60));
    waker.join();
    EXPECT_LT(HttpClient::Clock::now() - began, seconds(30));
}

}  // namespace
}  // namespace helix::net::http_client_test
