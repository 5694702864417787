#include "net/zmq_transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

namespace helix::net {
namespace {

// Both ends turn until condition holds.
bool turn(std::initializer_list<ZmqSocket*> sockets, const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const std::vector<ZmqSocket*> all(sockets);
    while (std::chrono::steady_clock::now() < until) {
        if (condition()) return true;
        wait(all, -1, base::from_ms(5));
    }
    return condition();
}

template <typename T>
T take(base::Result<T> result) {
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return std::move(result).value();
}

struct Pair {
    std::shared_ptr<ZmqContext> context = take(ZmqContext::create());
    std::unique_ptr<RouterSocket> router;
    std::string endpoint;

    explicit Pair(const std::optional<KeyPair>& keys = std::nullopt,
                  const TransportOptions& options = {}) {
        router = take(RouterSocket::create(context, keys, "test", options));
        endpoint = take(router->bind("tcp://127.0.0.1:0"));
    }
    std::unique_ptr<DealerSocket> connect(const std::optional<KeyPair>& keys = std::nullopt,
                                          const std::string& server_key = "",
                                          const TransportOptions& options = {}) {
        return take(DealerSocket::connect(context, endpoint, keys, server_key, options));
    }
    std::optional<Received> next(ZmqSocket* other) {
        std::optional<Received> got;
        turn({router.get(), other}, [&] {
            got = router->receive();
            return got.has_value();
        });
        return got;
    }
};

std::string text_of(const Frame& frame) {
    return {reinterpret_cast<const char*>(frame.bytes.data()), frame.bytes.size()};
}

// A plain TCP connection to the router, as a stranger makes it.
int connect_raw(const std::string& endpoint) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
}

TEST(ZmqTransport, CarriesAHeaderAndARawFrameBothWays) {
    Pair pair;
    const auto dealer = pair.connect();
    const std::vector<float> rows(100000, 1.5F);
    ASSERT_TRUE(dealer->send(Frame::of(std::string("hello")), Frame::of(rows)).ok());
    const auto got = pair.next(dealer.get());
    ASSERT_TRUE(got.has_value());
    EXPECT_FALSE(got->malformed);
    EXPECT_EQ(text_of(got->header), "hello");
    ASSERT_EQ(got->payload.bytes.size(), rows.size() * sizeof(float));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got->payload.bytes.data()) % alignof(float), 0U);
    ASSERT_TRUE(pair.router->send(got->from, Frame::of(std::string("answer"))).ok());
    std::optional<Received> answer;
    ASSERT_TRUE(turn({dealer.get()}, [&] {
        answer = dealer->receive();
        return answer.has_value();
    }));
    EXPECT_EQ(text_of(answer->header), "answer");
    EXPECT_TRUE(answer->payload.bytes.empty());
}

TEST(ZmqTransport, AClosedConnectionIsNamedAtOnce) {
    Pair pair;
    auto dealer = pair.connect();
    ASSERT_TRUE(dealer->send(Frame::of(std::string("hello"))).ok());
    const auto got = pair.next(dealer.get());
    ASSERT_TRUE(got.has_value());
    dealer.reset();
    std::string lost;
    EXPECT_TRUE(turn({pair.router.get()}, [&] {
        for (const LinkEvent& event : pair.router->take_events()) {
            if (event.kind == LinkEventKind::disconnected) lost = event.connection;
        }
        return !lost.empty();
    }));
    EXPECT_EQ(lost, got->from);
    EXPECT_TRUE(turn({pair.router.get()}, [&] {
        return !pair.router->send(got->from, Frame::of(std::string("too late"))).ok();
    }));
}

TEST(ZmqTransport, ABannedConnectionIsClosedAndNobodyElseNotices) {
    Pair pair;
    const auto bad = pair.connect();
    const auto good = pair.connect();
    ASSERT_TRUE(bad->send(Frame::of(std::string("bad"))).ok());
    const auto first = pair.next(bad.get());
    ASSERT_TRUE(first.has_value());
    ASSERT_TRUE(good->send(Frame::of(std::string("good"))).ok());
    ASSERT_TRUE(pair.next(good.get()).has_value());
    pair.router->ban(first->from);
    bool closed = false;
    EXPECT_TRUE(turn({bad.get(), pair.router.get()}, [&] {
        for (const LinkEvent& event : bad->take_events()) {
            closed = closed || event.kind == LinkEventKind::disconnected;
        }
        return closed;
    }));
    ASSERT_TRUE(good->send(Frame::of(std::string("still here"))).ok());
    const auto next = pair.next(good.get());
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(text_of(next->header), "still here");
}

TEST(ZmqTransport, AFrameOverTheLimitCutsTheSenderOffOnly) {
    TransportOptions options;
    options.max_frame_bytes = 1000;
    Pair pair({}, options);
    const auto big = pair.connect();
    const auto good = pair.connect();
    ASSERT_TRUE(big->send(Frame::of(std::string(5000, 'x'))).ok());
    ASSERT_TRUE(good->send(Frame::of(std::string("fits"))).ok());
    const auto got = pair.next(good.get());
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(text_of(got->header), "fits");
    bool closed = false;
    EXPECT_TRUE(turn({big.get()}, [&] {
        for (const LinkEvent& event : big->take_events()) {
            closed = closed || event.kind == LinkEventKind::disconnected;
        }
        return closed;
    }));
}

TEST(ZmqTransport, GarbageOnTheSocketIsRefusedAndNobodyElseNotices) {
    Pair pair;
    const std::vector<std::string> garbage = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(100000, '\xff'), std::string(64, '\0'),
        // a correct greeting and then nonsense
        std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0') +
            std::string(5000, '\x55')};
    std::vector<int> fds;
    for (const std::string& bytes : garbage) {
        fds.push_back(connect_raw(pair.endpoint));
        [[maybe_unused]] const auto sent =
            ::send(fds.back(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    const auto good = pair.connect();
    ASSERT_TRUE(good->send(Frame::of(std::string("hello"))).ok());
    const auto got = pair.next(good.get());
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(text_of(got->header), "hello");
    for (const int fd : fds) ::close(fd);
}

TEST(ZmqTransport, OnlyListedKeysGetIn) {
    const KeyPair server = make_key_pair();
    const KeyPair listed = make_key_pair();
    const KeyPair stranger = make_key_pair();
    Pair pair(server);
    pair.context->allow("test", [&](std::string_view key) { return key == listed.public_key; });
    const auto good = pair.connect(listed, server.public_key);
    const auto bad = pair.connect(stranger, server.public_key);
    const auto plain = pair.connect();
    const auto misled = pair.connect(listed, make_key_pair().public_key);
    for (const auto* dealer : {&good, &bad, &plain, &misled}) {
        ASSERT_TRUE((*dealer)->send(Frame::of(std::string("hello"))).ok());
    }
    const auto got = pair.next(good.get());
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->public_key, listed.public_key);
    bool refused = false;
    EXPECT_TRUE(turn({bad.get(), pair.router.get()}, [&] {
        for (const LinkEvent& event : bad->take_events()) {
            refused = refused || event.kind == LinkEventKind::refused;
        }
        return refused;
    }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_FALSE(pair.router->receive().has_value());
}

TEST(ZmqTransport, APeerThatDoesNotReadIsRefusedFurtherMessages) {
    TransportOptions options;
    options.high_water = 8;
    Pair pair({}, options);
    const auto dealer = pair.connect({}, "", options);
    ASSERT_TRUE(dealer->send(Frame::of(std::string("hello"))).ok());
    const auto got = pair.next(dealer.get());
    ASSERT_TRUE(got.has_value());
    base::Status status = base::Ok{};
    const Frame big = Frame::of(std::string(1U << 20U, 'x'));
    for (int i = 0; i < 1000 && status.ok(); ++i) {
        status = pair.router->send(got->from, big);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, base::Errc::overloaded);
}

TEST(ZmqTransport, AWakeUpEndsTheWait) {
    const Wakeup wakeup;
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        wakeup.wake();
    });
    const auto start = std::chrono::steady_clock::now();
    wait({}, wakeup.fd(), base::from_ms(10000));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    other.join();
}

}  // namespace
}  // namespace helix::net
