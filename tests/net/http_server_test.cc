#include "net/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http_test_client.h"

namespace helix::net::http_server_test {
namespace {

using base::from_ms;
using base::from_seconds;

// Waits for something that the server's thread sets.
class Flag {
  public:
    void set() {
        const std::lock_guard lock(mutex_);
        set_ = true;
        changed_.notify_all();
    }
    bool wait() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return set_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool set_ = false;
};

class HttpServerTest : public ::testing::Test {
  protected:
    HttpServerTest() { options_.tick = from_ms(10); }

    void start(HttpServer::Handler handler) {
        auto server = HttpServer::listen(options_);
        ASSERT_TRUE(server.ok()) << server.error().message;
        server_ = std::move(server).value();
        server_->start(std::move(handler));
    }
    // Answers with method, path, query and body.
    void start_echo() {
        start([](const std::shared_ptr<HttpExchange>& exchange) {
            const HttpRequest& r = exchange->request();
            exchange->respond(
                {200, "text/plain", r.method + " " + r.path + " [" + r.query + "] " + r.body, {}});
        });
    }

    HttpServerOptions options_;
    std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, KeepAliveServesRequestsOneAfterTheOther) {
    start_echo();
    TestClient client(server_->port());
    for (int i = 0; i < 3; ++i) {
        client.request("POST", "/a%20b?x=1", "body" + std::to_string(i));
        const auto response = client.read_response();
        EXPECT_EQ(response.status, 200);
        EXPECT_EQ(response.body, "POST /a b [x=1] body" + std::to_string(i));
        EXPECT_EQ(response.header("connection"), "keep-alive");
    }
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
    start_echo();
    TestClient client(server_->port());
    client.send("GET /1 HTTP/1.1\r\nhost: t\r\n\r\nGET /2 HTTP/1.1\r\nhost: t\r\n\r\n");
    EXPECT_EQ(client.read_response().body, "GET /1 [] ");
    EXPECT_EQ(client.read_response().body, "GET /2 [] ");
}

TEST_F(HttpServerTest, ARequestMayArriveByteByByteAndChunked) {
    start_echo();
    TestClient client(server_->port());
    const std::string text =
        "POST /x HTTP/1.1\r\nhost: t\r\ntransfer-encoding: "
        "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    for (const char c : text) client.send(std::string_view(&c, 1));
    EXPECT_EQ(client.read_response().body, "POST /x [] abcde");
}

TEST_F(HttpServerTest, ExpectContinueIsAnsweredBeforeTheBody) {
    start_echo();
    TestClient client(server_->port());
    client.send("POST /x HTTP/1.1\r\nhost: t\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n");
    EXPECT_EQ(client.read_head().status, 100);
    client.send("ok");
    EXPECT_EQ(client.read_response().body, "POST /x [] ok");
}

TEST_F(HttpServerTest, TheClientsRequestIdComesBackAndOursIsUnique) {
    start_echo();
    TestClient client(server_->port());
    client.request("GET", "/", {}, "x-request-id: mine-1\r\n");
    EXPECT_EQ(client.read_response().header("x-request-id"), "mine-1");
    client.request("GET", "/", {}, "x-request-id: not a \"word\"\r\n");
    const std::string first = client.read_response().header("x-request-id");
    client.request("GET", "/");
    const std::string second = client.read_response().header("x-request-id");
    EXPECT_TRUE(first.starts_with("req_")) << first;
    EXPECT_NE(first, second);
}

TEST_F(HttpServerTest, NoWebPageMayReadAnAnswerUnlessTheHandlerSaysSo) {
    start([](const std::shared_ptr<HttpExchange>& e) {
        if (e->request().path == "/shared") e->allow_origin("https://page.example");
        e->add_header("x-left", "7");
        e->respond({200, "text/plain", e->request().method, {}});
    });
    TestClient client(server_->port());
    client.request("GET", "/", {}, "origin: https://page.example\r\n");
    EXPECT_EQ(client.read_response().header("access-control-allow-origin"), "");
    client.request("OPTIONS", "/", {}, "access-control-request-method: POST\r\n");
    EXPECT_EQ(client.read_response().body, "OPTIONS") << "the handler answers it";
    client.request("GET", "/shared");
    const auto shared = client.read_response();
    EXPECT_EQ(shared.header("access-control-allow-origin"), "https://page.example");
    EXPECT_EQ(shared.header("vary"), "origin");
    EXPECT_EQ(shared.header("access-control-expose-headers"), "x-request-id, x-left");
}

TEST_F(HttpServerTest, TheEndOfEveryAnswerIsToldWithItsStatusAndBytes) {
    std::vector<std::string> ends;
    std::mutex mutex;
    start([&](const std::shared_ptr<HttpExchange>& e) {
        e->on_end([&](const HttpExchange& done) {
            const std::lock_guard lock(mutex);
            ends.push_back(fmt::format("{} {} {} {}", done.request().peer, done.status(),
                                       done.body_bytes(), done.complete()));
        });
        if (e->request().path == "/never") return;
        e->respond({201, "text/plain", "four", {}});
    });
    {
        TestClient client(server_->port());
        client.request("GET", "/");
        EXPECT_EQ(client.read_response().status, 201);
        client.request("GET", "/never");
    }
    const auto both = [&] {
        const std::lock_guard lock(mutex);
        return ends.size() == 2;
    };
    for (int i = 0; i < 1000 && !both(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    server_->stop();
    EXPECT_EQ(ends, (std::vector<std::string>{"127.0.0.1 201 4 true", "127.0.0.1 0 0 false"}));
}

TEST_F(HttpServerTest, HeadHasTheLengthButNoBody) {
    start_echo();
    TestClient client(server_->port());
    client.request("HEAD", "/");
    const auto response = client.read_response(false);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("content-length"), "10");
    client.request("GET", "/next");
    EXPECT_EQ(client.read_response().body, "GET /next [] ");
}

// Writes a number of bytes in pieces, each when the socket has taken the one before.
class PiecewiseAnswer : public std::enable_shared_from_this<PiecewiseAnswer> {
  public:
    PiecewiseAnswer(std::shared_ptr<HttpExchange> exchange, std::size_t bytes, std::size_t stop_at)
        : exchange_(std::move(exchange)), bytes_(bytes), stop_at_(stop_at) {}
    void begin() {
        exchange_->begin_stream(200, "text/plain", {}, bytes_);
        if (exchange_->request().method == "HEAD") return exchange_->end_stream();
        go_on();
    }

  private:
    void go_on() {
        if (written_ >= stop_at_) return exchange_->end_stream();
        const std::size_t size = std::min<std::size_t>(100'000, stop_at_ - written_);
        written_ += size;
        exchange_->write(std::string(size, 'y'));
        exchange_->on_drained([self = shared_from_this()] { self->go_on(); });
    }
    std::shared_ptr<HttpExchange> exchange_;
    std::size_t bytes_;
    std::size_t stop_at_;
    std::size_t written_ = 0;
};

TEST_F(HttpServerTest, AStreamOfKnownLengthIsWrittenAsItIsTaken) {
    static constexpr std::size_t kBytes = 5'000'000;
    options_.max_queued_bytes = 200'000;  // a slow reader would lose its connection
    options_.send_buffer_bytes = 20'000;
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        const std::size_t stop_at = exchange->request().path == "/short" ? 300'000 : kBytes;
        std::make_shared<PiecewiseAnswer>(exchange, kBytes, stop_at)->begin();
    });
    TestClient client(server_->port());
    client.request("HEAD", "/");
    EXPECT_EQ(client.read_response(false).header("content-length"), "5000000");
    client.request("GET", "/");
    const auto whole = client.read_response();
    EXPECT_TRUE(whole.complete);
    EXPECT_TRUE(whole.body == std::string(kBytes, 'y'));
    client.request("GET", "/short");
    EXPECT_FALSE(client.read_response().complete) << "it was broken off";
    EXPECT_TRUE(client.wait_closed());
}

TEST_F(HttpServerTest, TooLargeABodyIs413AlsoWhenItsLengthIsNotAnnounced) {
    options_.max_body_bytes = 1000;
    start_echo();
    TestClient announced(server_->port());
    announced.request("POST", "/", std::string(5000, 'x'));
    EXPECT_EQ(announced.read_response().status, 413);
    EXPECT_TRUE(announced.wait_closed());
    TestClient chunked(server_->port());
    chunked.send("POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n" +
                 std::string(2000, 'x') + "\r\n0\r\n\r\n");
    EXPECT_EQ(chunked.read_response().status, 413);
}

TEST_F(HttpServerTest, TheLimitOfABodyMayDependOnTheHead) {
    options_.max_body_bytes = 1000;
    options_.body_limit = [](const HttpRequest& head) {
        return head.path == "/files" && head.header("x-key") == "k" ? std::size_t{1'000'000} : 1000;
    };
    start_echo();
    const std::string body(500'000, 'x');
    TestClient allowed(server_->port());
    allowed.request("POST", "/files?a=b", body, "x-key: k\r\n");
    EXPECT_EQ(allowed.read_response().status, 200);
    TestClient stranger(server_->port());
    stranger.request("POST", "/files", body);
    EXPECT_EQ(stranger.read_response().status, 413);
    TestClient elsewhere(server_->port());
    elsewhere.request("POST", "/other", body, "x-key: k\r\n");
    EXPECT_EQ(elsewhere.read_response().status, 413);
    TestClient beyond(server_->port());
    beyond.request("POST", "/files", std::string(1'000'001, 'x'), "x-key: k\r\n");
    EXPECT_EQ(beyond.read_response().status, 413);
}

TEST_F(HttpServerTest, ABodyIsHandedOverOnceAndItsSenderIsKnown) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        const std::string body = exchange->take_body();
        const bool left = !exchange->request().body.empty();
        exchange->respond(
            {200, "text/plain", exchange->request().peer + " " + body + (left ? "!" : ""), {}});
    });
    TestClient client(server_->port());
    client.request("POST", "/", "text");
    EXPECT_EQ(client.read_response().body, "127.0.0.1 text");
}

TEST(HttpExchange, ARequestWithoutAConnectionIsAnsweredToItsOwner) {
    int status = 0;
    bool gone = false;
    HttpExchange answered({}, [&](const HttpResponse& response) { status = response.status; });
    EXPECT_TRUE(answered.open());
    answered.on_gone([&] { gone = true; });
    answered.respond({404, "text/plain", "", {}});
    EXPECT_EQ(status, 404);
    EXPECT_FALSE(answered.open());
    answered.abandon();
    EXPECT_FALSE(gone);

    status = 0;
    HttpExchange abandoned({}, [&](const HttpResponse& response) { status = response.status; });
    abandoned.on_gone([&] { gone = true; });
    abandoned.abandon();
    EXPECT_TRUE(gone);
    abandoned.respond({200, "text/plain", "", {}});
    EXPECT_EQ(status, 0);
}

TEST_F(HttpServerTest, TooLargeAHeaderIs431AndNonsenseIs400) {
    start_echo();
    TestClient large(server_->port());
    large.send("GET / HTTP/1.1\r\nx: " + std::string(100000, 'y') + "\r\n\r\n");
    EXPECT_EQ(large.read_response().status, 431);
    TestClient nonsense(server_->port());
    nonsense.send("\x01\x02 this is not HTTP\r\n\r\n");
    EXPECT_EQ(nonsense.read_response().status, 400);
    TestClient both(server_->port());
    both.send("POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc");
    EXPECT_EQ(both.read_response().status, 400);
}

TEST_F(HttpServerTest, SlowHeadersAndSlowBodiesAre408AndIdleConnectionsAreClosed) {
    options_.header_timeout = from_ms(50);
    options_.body_timeout = from_ms(50);
    options_.idle_timeout = from_ms(50);
    start_echo();
    TestClient header(server_->port());
    header.send("GET / HT");
    EXPECT_EQ(header.read_response().status, 408);
    TestClient body(server_->port());
    body.send("POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nabc");
    EXPECT_EQ(body.read_response().status, 408);
    TestClient silent(server_->port());
    EXPECT_TRUE(silent.wait_closed());
    TestClient idle(server_->port());
    idle.request("GET", "/");
    EXPECT_EQ(idle.read_response().status, 200);
    EXPECT_TRUE(idle.wait_closed());
}

TEST_F(HttpServerTest, AStreamIsFedFromAnotherThreadAndTheConnectionLivesOn) {
    std::thread feeder;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        if (exchange->request().path != "/stream") return exchange->respond({});
        exchange->begin_stream(200, "text/event-stream", {});
        feeder = std::thread([this, exchange] {
            for (int i = 0; i < 100; ++i) {
                server_->post([exchange, i] { exchange->write(std::to_string(i) + ","); });
            }
            server_->post([exchange] { exchange->end_stream(); });
        });
    });
    TestClient client(server_->port());
    client.request("GET", "/stream");
    const auto response = client.read_response();
    feeder.join();
    std::string expected;
    for (int i = 0; i < 100; ++i) expected += std::to_string(i) + ",";
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.body, expected);
    client.request("GET", "/");
    EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(HttpServerTest, AStreamToHttp10IsNotChunkedAndEndsWithTheConnection) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->begin_stream(200, "text/plain", {});
        exchange->write("a");
        exchange->write("b");
        exchange->end_stream();
    });
    TestClient client(server_->port());
    client.send("GET / HTTP/1.0\r\n\r\n");
    const auto response = client.read_response();
    EXPECT_EQ(response.header("transfer-encoding"), "");
    EXPECT_EQ(response.body, "ab");
    EXPECT_TRUE(response.complete);
}

TEST_F(HttpServerTest, AClientThatLeavesMidStreamIsNoticedWithoutWriting) {
    Flag gone;
    std::shared_ptr<HttpExchange> kept;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        kept = exchange;
        exchange->on_gone([&gone] { gone.set(); });
        exchange->begin_stream(200, "text/plain", {});
        exchange->write("first");
    });
    TestClient client(server_->port());
    client.request("GET", "/");
    std::string chunk;
    client.read_head();
    ASSERT_TRUE(client.read_chunk(chunk));
    client.close();
    EXPECT_TRUE(gone.wait());
    server_->stop();
    EXPECT_FALSE(kept->open());
    kept->write("to nobody");
    kept->end_stream();
}

TEST_F(HttpServerTest, AClientThatLeavesBeforeTheAnswerIsNoticedToo) {
    Flag gone;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->on_gone([&gone, exchange] { gone.set(); });
    });
    TestClient client(server_->port());
    client.request("GET", "/");
    client.close();
    EXPECT_TRUE(gone.wait());
}

// Answers when it is told to, from the loop: as a stream where the path says so.
class LateAnswer {
  public:
    void take(std::shared_ptr<HttpExchange> exchange) {
        const std::lock_guard lock(mutex_);
        exchange_ = std::move(exchange);
        taken_.notify_all();
    }
    void give(HttpServer& server) {
        std::unique_lock lock(mutex_);
        taken_.wait(lock, [this] { return exchange_ != nullptr; });
        server.poster()([exchange = std::move(exchange_)] {
            if (exchange->request().path != "/stream") {
                return exchange->respond({200, "text/plain", "late", {}});
            }
            exchange->write("b");
            exchange->end_stream();
        });
        exchange_ = nullptr;
    }

  private:
    std::mutex mutex_;
    std::condition_variable taken_;
    std::shared_ptr<HttpExchange> exchange_;
};

TEST_F(HttpServerTest, AClientThatHasEndedItsSideStillGetsTheWholeAnswer) {
    LateAnswer late;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        if (exchange->request().path == "/now") return exchange->respond({});
        if (exchange->request().path == "/stream") {
            exchange->begin_stream(200, "text/plain", {});
            exchange->write("a");
        }
        late.take(exchange);
    });
    // Long enough that the server looks whether its client is still there.
    constexpr auto kWhile = std::chrono::milliseconds(300);
    TestClient whole(server_->port());
    whole.request("GET", "/");
    whole.end_sending();
    EXPECT_EQ(whole.read_head().status, 102) << "a look whether it is still there";
    late.give(*server_);
    auto response = whole.read_response();
    EXPECT_EQ(response.body, "late");
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_TRUE(whole.wait_closed());

    TestClient stream(server_->port());
    stream.request("GET", "/stream");
    stream.end_sending();
    std::this_thread::sleep_for(kWhile);
    late.give(*server_);
    response = stream.read_response();
    EXPECT_EQ(response.body, "ab");
    EXPECT_TRUE(response.complete);
    EXPECT_TRUE(stream.wait_closed());

    TestClient old(server_->port());
    old.send("GET / HTTP/1.0\r\n\r\n");
    old.end_sending();
    std::this_thread::sleep_for(kWhile);
    late.give(*server_);
    EXPECT_EQ(old.read_response().body, "late") << "HTTP/1.0 knows no interim answers";

    TestClient several(server_->port());
    several.send("GET /now HTTP/1.1\r\n\r\nGET /now HTTP/1.1\r\n\r\n");
    several.end_sending();
    EXPECT_EQ(several.read_response().status, 200);
    EXPECT_EQ(several.read_response().status, 200) << "what was asked before the end is answered";
    EXPECT_TRUE(several.wait_closed());
}

TEST_F(HttpServerTest, AClientThatFirstEndsItsSideAndLeavesLaterIsNoticed) {
    options_.probe = from_ms(50);
    Flag gone;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->on_gone([&gone, exchange] { gone.set(); });
    });
    TestClient client(server_->port());
    client.request("GET", "/");
    client.end_sending();
    EXPECT_EQ(client.read_head().status, 102);
    EXPECT_EQ(client.read_head().status, 102);
    client.close();
    EXPECT_TRUE(gone.wait());
}

TEST_F(HttpServerTest, AClientOfHttp10ThatLeavesIsNoticedByTheSystemsProbes) {
    options_.probe = from_ms(50);
    Flag gone;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->on_gone([&gone, exchange] { gone.set(); });
    });
    TestClient client(server_->port());
    client.forget_soon();
    client.send("GET / HTTP/1.0\r\n\r\n");
    client.close();
    EXPECT_TRUE(gone.wait());
}

TEST_F(HttpServerTest, ARefusalOfAHeadHasNoBodyEither) {
    options_.max_body_bytes = 10;
    start_echo();
    TestClient client(server_->port());
    client.request("HEAD", "/", std::string(100, 'x'));
    const auto response = client.read_head();
    EXPECT_EQ(response.status, 413);
    EXPECT_NE(response.header("content-length"), "0");
    std::string rest;
    EXPECT_FALSE(client.read_chunk(rest)) << rest;
}

TEST_F(HttpServerTest, ASlowReaderIsDisconnectedAtTheBoundAndOthersGoOn) {
    options_.max_queued_bytes = 100000;
    options_.send_buffer_bytes = 4096;
    Flag gone;
    std::atomic<std::size_t> accepted_bytes{0};
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        if (exchange->request().path == "/") return exchange->respond({});
        exchange->on_gone([&gone] { gone.set(); });
        exchange->begin_stream(200, "text/plain", {});
        const std::string block(1000, 'x');
        for (int i = 0; i < 100000 && exchange->open(); ++i) {
            exchange->write(block);
            accepted_bytes += block.size();
        }
    });
    TestClient slow(server_->port(), 4096);
    slow.request("GET", "/stream");
    EXPECT_TRUE(gone.wait());
    EXPECT_LT(accepted_bytes, 2000000U);
    TestClient other(server_->port());
    other.request("GET", "/");
    EXPECT_EQ(other.read_response().status, 200);
}

TEST_F(HttpServerTest, AReaderThatStallsIsDisconnectedInTheEnd) {
    options_.send_buffer_bytes = 4096;
    options_.write_timeout = from_ms(100);
    Flag gone;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->on_gone([&gone] { gone.set(); });
        exchange->begin_stream(200, "text/plain", {});
        exchange->write(std::string(500000, 'x'));
    });
    TestClient stalled(server_->port(), 4096);
    stalled.request("GET", "/");
    EXPECT_TRUE(gone.wait());
}

TEST_F(HttpServerTest, MoreConnectionsThanAllowedAreRefusedWith503) {
    options_.max_connections = 2;
    std::vector<std::shared_ptr<HttpExchange>> kept;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        kept.push_back(exchange);
        exchange->begin_stream(200, "text/plain", {});
    });
    TestClient a(server_->port());
    TestClient b(server_->port());
    a.request("GET", "/");
    EXPECT_EQ(a.read_head().status, 200);
    b.request("GET", "/");
    EXPECT_EQ(b.read_head().status, 200);
    TestClient c(server_->port());
    EXPECT_EQ(c.read_response().status, 503);
    server_->post([&] {
        for (const auto& exchange : kept) exchange->end_stream();
    });
    std::string end;
    EXPECT_TRUE(a.read_chunk(end));
    EXPECT_TRUE(b.read_chunk(end));
    server_->stop();
}

TEST_F(HttpServerTest, AGracefulStopLetsAnswersFinishAndRefusesNewConnections) {
    Flag started;
    std::shared_ptr<HttpExchange> kept;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        kept = exchange;
        exchange->begin_stream(200, "text/plain", {});
        exchange->write("a");
        started.set();
    });
    TestClient idle(server_->port());
    TestClient client(server_->port());
    client.request("GET", "/");
    ASSERT_TRUE(started.wait());
    std::thread stopper([this] { server_->stop(from_seconds(10)); });
    EXPECT_TRUE(idle.wait_closed());
    EXPECT_FALSE(TestClient(server_->port()).connected());
    server_->post([&kept] {
        kept->write("b");
        kept->end_stream();
    });
    const auto response = client.read_response();
    EXPECT_EQ(response.body, "ab");
    EXPECT_TRUE(response.complete);
    client.close();
    stopper.join();
}

TEST_F(HttpServerTest, AStopWithoutGraceEndsStreamsAndTellsTheirOwners) {
    Flag started;
    Flag gone;
    start([&](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->on_gone([&gone] { gone.set(); });
        exchange->begin_stream(200, "text/plain", {});
        started.set();
    });
    TestClient client(server_->port());
    client.request("GET", "/");
    ASSERT_TRUE(started.wait());
    server_->stop();
    EXPECT_TRUE(gone.wait());
    EXPECT_TRUE(client.wait_closed());
}

TEST_F(HttpServerTest, AnExceptionInTheHandlerIsA500AndTheServerLives) {
    start([](const std::shared_ptr<HttpExchange>& exchange) {
        if (exchange->request().path == "/bad") throw std::runtime_error("bad");
        exchange->respond({});
    });
    TestClient client(server_->port());
    client.request("GET", "/bad");
    EXPECT_EQ(client.read_response().status, 500);
    TestClient other(server_->port());
    other.request("GET", "/");
    EXPECT_EQ(other.read_response().status, 200);
}

TEST(HttpServer, ListeningOnATakenOrWrongAddressIsAnErrorThatNamesIt) {
    HttpServerOptions options;
    auto first = HttpServer::listen(options);
    ASSERT_TRUE(first.ok());
    options.port = (*first)->port();
    const auto second = HttpServer::listen(options);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find(std::to_string(options.port)), std::string::npos);
    EXPECT_FALSE(HeldPort::hold(options.address, options.port).ok());
    options.address = "not-an-address";
    EXPECT_FALSE(HttpServer::listen(options).ok());
}

TEST(HttpServer, APortThatIsHeldIsNoFreeOneAndAnswersNobodyBeforeTheServerListens) {
    auto held = HeldPort::hold("127.0.0.1", 0);
    ASSERT_TRUE(held.ok()) << held.error().message;
    const std::uint16_t port = (*held)->port();
    EXPECT_GT(port, 0);
    EXPECT_FALSE(TestClient(port).connected());
    for (int other = 0; other < 100; ++other) {
        const auto any = HeldPort::hold("127.0.0.1", 0);
        ASSERT_TRUE(any.ok());
        EXPECT_NE((*any)->port(), port);
    }
    HttpServerOptions options;
    options.held = *held;
    auto server = HttpServer::listen(options);
    ASSERT_TRUE(server.ok()) << server.error().message;
    EXPECT_EQ((*server)->port(), port);
    (*server)->start([](const std::shared_ptr<HttpExchange>& exchange) { exchange->respond({}); });
    TestClient client(port);
    client.request("GET", "/");
    EXPECT_EQ(client.read_response().status, 200);
}

TEST(HttpServer, TwoThatNameOnePortMayHoldItAndTheSecondThatWouldListenIsTold) {
    const auto one = HeldPort::hold("127.0.0.1", 0);
    ASSERT_TRUE(one.ok()) << one.error().message;
    const auto other = HeldPort::hold("127.0.0.1", (*one)->port());
    ASSERT_TRUE(other.ok()) << other.error().message;
    HttpServerOptions options;
    options.held = *other;
    const auto first = HttpServer::listen(options);
    ASSERT_TRUE(first.ok()) << first.error().message;
    options.held = *one;
    const auto second = HttpServer::listen(options);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find(std::to_string((*one)->port())), std::string::npos);
}

}  // namespace
}  // namespace helix::net::http_server_test
