// What one client does must not hurt the others: memory, time, connections, failures.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "http_test_client.h"
#include "net/http_server.h"
#include "net/open_files.h"

namespace helix::net::http_limits_test {
namespace {

using base::from_ms;
using base::from_seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpLimits : public ::testing::Test {
  protected:
    HttpLimits() { options_.tick = from_ms(10); }

    void start(HttpServer::Handler handler, HttpServer::ErrorPage page = {},
               HttpServer::Task on_tick = {}) {
        auto server = HttpServer::listen(options_);
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(server).value();
        server_->start(std::move(handler), std::move(page), std::move(on_tick));
    }
    // Answers at once, but keeps what was asked for /keep.
    void start_keeping() {
        start([this](const std::shared_ptr<HttpExchange>& exchange) {
            if (exchange->request().path == "/keep") return kept_.push_back(exchange);
            exchange->respond(
                {200, "text/plain", std::to_string(exchange->request().body.size()), {}});
        });
    }
    int status_of_get() {
        TestClient client(server_->port());
        client.request("GET", "/");
        return client.read_response().status;
    }
    bool eventually_served() {
        for (int i = 0; i < 500; ++i) {
            if (status_of_get() == 200) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }

    HttpServerOptions options_;
    std::vector<std::shared_ptr<HttpExchange>> kept_;  // goes after the server's thread
    std::unique_ptr<HttpServer> server_;
};

constexpr const char* kChunkedHead =
    "POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n";

TEST_F(HttpLimits, ChunkExtensionsSizesAndTrailersWithoutAnEndAreRefusedByTheirLimit) {
    start_keeping();
    struct Case {
        std::string begin;
        std::string again;
        int status;
        const char* names;
    };
    const std::vector<Case> cases = {
        {"1;", "aaaaaaaaaaaaaaaa", 400, "1024 bytes"},
        {"", "0000000000000000", 400, "1024 bytes"},
        {"0\r\n", "x: aaaaaaaaaaa\r\n", 431, "8192 bytes"},
    };
    for (const Case& c : cases) {
        TestClient client(server_->port());
        std::string text = kChunkedHead + c.begin;
        while (text.size() < 4'000'000) text += c.again;
        client.send(text);
        const auto response = client.read_response();
        EXPECT_EQ(response.status, c.status);
        EXPECT_THAT(response.body, HasSubstr(c.names));
        EXPECT_EQ(response.header("connection"), "close");
    }
    EXPECT_EQ(status_of_get(), 200);
}

TEST_F(HttpLimits, BodiesOfAllClientsTogetherHaveOneBudget) {
    options_.max_bodies_bytes = 1'400'000;  // three quarters are 1,050,000
    start_keeping();
    const std::string part(300'000, 'x');
    std::vector<std::unique_ptr<TestClient>> slow;
    // Each client sends most of its body and then nothing more.
    for (int i = 0; i < 20; ++i) {
        slow.push_back(std::make_unique<TestClient>(server_->port()));
        slow.back()->send("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 400000\r\n\r\n" + part);
    }
    // Three times 300,000 bytes stay below a million, and all come from one address.
    std::size_t refused = 0;
    for (int round = 0; round < 1000 && refused < 17; ++round) {
        for (const auto& client : slow) {
            if (!client->readable()) continue;
            const auto response = client->read_response();
            if (response.status == 0) continue;
            EXPECT_EQ(response.status, 429);
            EXPECT_THAT(response.body, HasSubstr("from your address fill the 1050000 bytes"));
            ++refused;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_GE(refused, 17U);
    EXPECT_EQ(status_of_get(), 200) << "what needs no body is answered";
    TestClient elsewhere(server_->port(), 0, "127.0.0.2");
    elsewhere.request("POST", "/", part);
    EXPECT_EQ(elsewhere.read_response().status, 200) << "an address has a part only";
    slow.clear();
    for (int i = 0; i < 500; ++i) {
        TestClient client(server_->port());
        client.request("POST", "/", part);
        const auto response = client.read_response();
        if (response.status == 200) return;
        EXPECT_EQ(response.status, 429);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << "the budget was not given back";
}

TEST_F(HttpLimits, LongBodiesLeaveRoomForShortOnes) {
    options_.max_bodies_bytes = 1'400'000;  // of 1,050,000 long ones may have 984,375
    start_keeping();
    TestClient first(server_->port());
    first.request("POST", "/keep", std::string(900'000, 'x'));
    const auto status_of = [&](std::size_t length) {
        TestClient client(server_->port());
        client.request("POST", "/", std::string(length, 'x'));
        return client.read_response().status;
    };
    int status = 200;  // until the first one's body is here
    for (int i = 0; i < 1000 && status == 200; ++i) status = status_of(100'000);
    EXPECT_EQ(status, 429);
    EXPECT_EQ(status_of(80'000), 200);
    EXPECT_EQ(status_of(60'000), 200);
    TestClient second(server_->port());
    second.request("POST", "/keep", std::string(80'000, 'x'));
    status = 200;
    for (int i = 0; i < 1000 && status == 200; ++i) status = status_of(70'000);
    EXPECT_EQ(status, 429);
    EXPECT_EQ(status_of(60'000), 200) << "short ones have a part of their own";
    TestClient endless(server_->port());
    endless.send("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 1000000\r\n\r\n");
    EXPECT_EQ(endless.read_response().status, 413) << "it would never find room";
}

TEST_F(HttpLimits, ABodyIsPaidForAsLongAsItsRequestIsAnswered) {
    options_.max_bodies_bytes = 500'000;
    start_keeping();
    TestClient first(server_->port());
    first.request("POST", "/keep", std::string(300'000, 'x'));
    TestClient second(server_->port());
    for (int i = 0; i < 500 && server_->connections() < 2; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    second.request("POST", "/", std::string(300'000, 'x'));
    EXPECT_EQ(second.read_response().status, 429);
    server_->post([this] {
        kept_.front()->respond({});
        kept_.clear();
    });
    EXPECT_EQ(first.read_response().status, 200);
    TestClient third(server_->port());
    third.request("POST", "/", std::string(300'000, 'x'));
    EXPECT_EQ(third.read_response().status, 200);
}

TEST_F(HttpLimits, WhoSendsABodyTooSlowlyLosesItsPlace) {
    options_.body_progress_interval = from_ms(100);
    options_.body_progress_bytes = 1000;
    start_keeping();
    TestClient client(server_->port());
    client.send("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 100000\r\n\r\nabc");
    const auto response = client.read_response();
    EXPECT_EQ(response.status, 408);
    EXPECT_THAT(response.body, HasSubstr("1000 bytes"));
    EXPECT_TRUE(client.wait_closed());
}

TEST_F(HttpLimits, EveryAnswerHasItsPhraseAndTheDate) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->respond({std::stoi(exchange->request().path.substr(1)), "text/plain", "x", {}});
    });
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"GET /202 HTTP/1.1\r\nhost: t\r\n\r\n", "HTTP/1.1 202 Accepted"},
        {"GET /409 HTTP/1.1\r\nhost: t\r\n\r\n", "HTTP/1.1 409 Conflict"},
        {"GET /299 HTTP/1.1\r\nhost: t\r\n\r\n", "HTTP/1.1 299 Success"},
        {"nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request"},
    };
    for (const auto& [request, line] : cases) {
        TestClient client(server_->port());
        client.send(request);
        const auto response = client.read_response();
        EXPECT_EQ(response.status_line, line);
        const std::string date = response.header("date");
        EXPECT_EQ(date.size(), std::string("Sun, 06 Nov 1994 08:49:37 GMT").size()) << date;
        EXPECT_TRUE(date.ends_with(" GMT")) << date;
    }
}

TEST_F(HttpLimits, ConnectionsThatWaitForNothingMakeRoom) {
    options_.max_connections = 3;
    start_keeping();
    TestClient first(server_->port());
    first.request("GET", "/");
    EXPECT_EQ(first.read_response().status, 200);
    std::vector<std::unique_ptr<TestClient>> idle;
    for (int i = 0; i < 50; ++i) idle.push_back(std::make_unique<TestClient>(server_->port()));
    EXPECT_EQ(status_of_get(), 200);
    EXPECT_TRUE(first.wait_closed()) << "it had waited longest";
    EXPECT_LE(server_->connections(), 3U);
}

// Leaves this process with so many more files than it has open, until it ends.
class FewFiles {
  public:
    explicit FewFiles(rlim_t more) {
        getrlimit(RLIMIT_NOFILE, &before_);
        const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::close(next);
        rlimit few = before_;
        few.rlim_cur = static_cast<rlim_t>(next) + more;
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    }
    ~FewFiles() {
        for (const int fd : fillers_) ::close(fd);
        setrlimit(RLIMIT_NOFILE, &before_);
    }
    FewFiles(const FewFiles&) = delete;
    FewFiles& operator=(const FewFiles&) = delete;
    void fill() {
        for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
            fillers_.push_back(fd);
        }
    }
    void give_back(std::size_t count) {
        for (; count > 0 && !fillers_.empty(); --count) {
            ::close(fillers_.back());
            fillers_.pop_back();
        }
    }

  private:
    rlimit before_{};
    std::vector<int> fillers_;
};

TEST_F(HttpLimits, WithoutFileDescriptorsNewClientsAreToldSoAndOthersGoOn) {
#ifdef HELIX_SANITIZED
    GTEST_SKIP() << "the sanitizer opens pipes to look at objects: it needs descriptors itself";
#endif
    start_keeping();
    TestClient old(server_->port());
    old.request("GET", "/");
    EXPECT_EQ(old.read_response().status, 200);
    FewFiles files(20);
    files.fill();
    for (int i = 0; i < 3; ++i) {
        files.give_back(1);  // for the client itself
        TestClient fresh(server_->port());
        ASSERT_TRUE(fresh.connected());
        EXPECT_EQ(fresh.read_response().status, 503);
        EXPECT_TRUE(fresh.wait_closed());
        fresh.close();
        files.fill();
        old.request("GET", "/");
        EXPECT_EQ(old.read_response().status, 200);
    }
    files.give_back(10);
    EXPECT_TRUE(eventually_served());
}

TEST(OpenFiles, TooFewAreAnErrorThatNamesBothNumbers) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit low = before;
    low.rlim_cur = 64;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    const auto raised = require_open_files("it", 64);
    ASSERT_TRUE(raised.ok());
    EXPECT_EQ(*raised, before.rlim_max);
    const auto beyond = require_open_files("it", before.rlim_max + 1);
    setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_FALSE(beyond.ok());
    EXPECT_EQ(beyond.error().message, "at most " + std::to_string(before.rlim_max) +
                                          " files may be open here (ulimit -n), and it needs " +
                                          std::to_string(before.rlim_max + 1));
}

TEST_F(HttpLimits, WhateverAHandlerThrowsIsAnsweredAndTheServerLives) {
    options_.body_limit = [](const HttpRequest& head) -> std::size_t {
        if (head.path == "/limit") throw std::bad_alloc();
        return 1000;
    };
    std::atomic<int> gone{0};
    std::atomic<int> ticks{0};
    start(
        [&](const std::shared_ptr<HttpExchange>& exchange) {
            const std::string& path = exchange->request().path;
            if (path == "/") return exchange->respond({});
            exchange->on_gone([&gone] { ++gone; });
            if (path == "/stream") exchange->begin_stream(200, "text/plain", {});
            if (path == "/memory") throw std::bad_alloc();
            if (path == "/none") throw std::length_error("none");
            throw std::runtime_error("/home/secret/path");
        },
        [](const HttpProblem& problem) -> HttpResponse {
            if (problem.message == "internal error") throw std::bad_alloc();
            return {problem.status, "text/plain", std::string(problem.message), {}};
        },
        [&ticks] {
            ++ticks;
            throw std::runtime_error("tick");
        });
    for (const auto& [path, status] : std::vector<std::pair<std::string, int>>{
             {"/memory", 503}, {"/limit", 503}, {"/error", 503}}) {
        TestClient client(server_->port());
        client.request("POST", path, "x");
        const auto response = client.read_response();
        EXPECT_EQ(response.status, status) << path;
        EXPECT_TRUE(response.complete) << path;
        EXPECT_THAT(response.body, Not(HasSubstr("secret")));
        EXPECT_TRUE(client.wait_closed()) << path;
    }
    TestClient stream(server_->port());
    stream.request("GET", "/stream");
    EXPECT_FALSE(stream.read_response().complete) << "the client sees that something is missing";
    server_->post([] { throw std::runtime_error("task"); });
    EXPECT_EQ(status_of_get(), 200);
    for (int i = 0; i < 500 && (gone < 3 || ticks < 3); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(gone, 3) << "whoever took a request on learns that its client is gone";
    EXPECT_GE(ticks, 3);
}

}  // namespace
}  // namespace helix::net::http_limits_test
