#include "net/zmq_transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

namespace helix::net::zmq_transport_test {
namespace {

// Lets both ends work until condition holds.
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
    ASSERT_TRUE(dealer->send(Frame::of(std::string("may I?"))).ok());
    const auto asked = pair.next(dealer.get());
    ASSERT_TRUE(asked.has_value());
    pair.router->admit(asked->from);
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

TEST(ZmqTransport, ListeningOnATakenEndpointIsAnErrorThatNamesItAndSaysWhy) {
    const Pair pair;
    const auto other = take(RouterSocket::create(pair.context, std::nullopt, "other", {}));
    const auto bound = other->bind(pair.endpoint);
    ASSERT_FALSE(bound.ok());
    EXPECT_EQ(bound.error().message, "listen on " + pair.endpoint + ": Address already in use");
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
    ASSERT_TRUE(good->send(Frame::of(std::string("hello"))).ok());
    for (const auto* dealer : {&bad, &plain, &misled}) {
        // One that the router has refused by now cannot send, which is as good.
        [[maybe_unused]] const auto sent =
            (*dealer)->send(Frame::of(std::string("hello, from a stranger")));
    }
    const auto got = pair.next(good.get());
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(text_of(got->header), "hello");
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

// What a peer says before its first message.
std::string zmtp_opening() {
    const std::string ready = std::string("\x05READY\x0bSocket-Type\0\0\0\x06", 22) + "DEALER";
    return std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0') + '\4' +
           static_cast<char>(ready.size()) + ready;
}

// Sends text again and again until nobody takes it, or this many bytes are sent. Returns how many
// were.
std::size_t send_until_refused(int fd, const std::string& text, std::size_t most) {
    timeval patience = {1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    std::size_t sent = 0;
    while (sent < most) {
        const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<std::size_t>(n);
    }
    return sent;
}

bool is_closed(int fd) {
    char buffer[4096];
    timeval patience = {10, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (true) {
        const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
        if (n > 0) continue;
        return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    }
}

std::size_t resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    statm >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(ZmqTransport, AMessageWithoutAnEndCutsItsSenderOffAndCostsNothing) {
    Pair pair;
    const std::size_t before = resident_bytes();
    const std::string part = std::string("\1\xc8", 2) + std::string(200, 'x');
    const std::string empty_part("\1\0", 2);
    for (const std::string& one : {part, empty_part}) {
        std::string many;
        for (int i = 0; i < 1000; ++i) many += one;
        const int fd = connect_raw(pair.endpoint);
        EXPECT_LT(send_until_refused(fd, zmtp_opening() + many, std::size_t{1} << 30U),
                  std::size_t{64} << 20U);
        EXPECT_TRUE(is_closed(fd));
        ::close(fd);
    }
    EXPECT_LT(resident_bytes(), before + (std::size_t{64} << 20U));
    const auto good = pair.connect();
    ASSERT_TRUE(good->send(Frame::of(std::string("hello"))).ok());
    EXPECT_TRUE(pair.next(good.get()).has_value());
}

TEST(ZmqTransport, WhoIsNotAdmittedMaySendLittleAndHasToGo) {
    TransportOptions options;
    options.stranger_timeout_ms = 300;
    Pair pair({}, options);
    const std::size_t before = resident_bytes();
    std::vector<int> fds;
    for (int i = 0; i < 8; ++i) {
        fds.push_back(connect_raw(pair.endpoint));
        // A frame of 100 MiB, which some frames may have.
        const std::string head = std::string("\2\0\0\0\0\x06\x40\0\0", 9);
        const std::string opening = zmtp_opening() + head;
        ::send(fds.back(), opening.data(), opening.size(), MSG_NOSIGNAL);
    }
    for (const int fd : fds) {
        EXPECT_LT(send_until_refused(fd, std::string(1U << 20U, 'x'), std::size_t{100} << 20U),
                  std::size_t{32} << 20U);
        EXPECT_TRUE(is_closed(fd));
        ::close(fd);
    }
    EXPECT_LT(resident_bytes(), before + (std::size_t{64} << 20U));
}

TEST(ZmqTransport, AnAdmittedPeerIsHeldUntilThenAndStays) {
    TransportOptions options;
    options.stranger_timeout_ms = 1000;
    Pair pair({}, options);
    const auto dealer = pair.connect();
    // More than a stranger may send, behind its first message.
    ASSERT_TRUE(dealer->send(Frame::of(std::string("hello"))).ok());
    ASSERT_TRUE(dealer->send(Frame::of(std::string(5U << 20U, 'x'))).ok());
    const auto hello = pair.next(dealer.get());
    ASSERT_TRUE(hello.has_value());
    pair.router->admit(hello->from);
    const auto large = pair.next(dealer.get());
    ASSERT_TRUE(large.has_value());
    EXPECT_EQ(large->header.bytes.size(), 5U << 20U);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    ASSERT_TRUE(dealer->send(Frame::of(std::string("still here"))).ok());
    const auto last = pair.next(dealer.get());
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->from, hello->from);
}

TEST(ZmqTransport, StrangersMakeRoomForWhoComesNext) {
    TransportOptions options;
    options.max_peers = 4;
    Pair pair({}, options);
    const auto worker = pair.connect();
    ASSERT_TRUE(worker->send(Frame::of(std::string("worker"))).ok());
    const auto admitted = pair.next(worker.get());
    ASSERT_TRUE(admitted.has_value());
    pair.router->admit(admitted->from);
    std::vector<int> idle;
    for (int i = 0; i < 20; ++i) idle.push_back(connect_raw(pair.endpoint));
    const auto next = pair.connect();
    ASSERT_TRUE(next->send(Frame::of(std::string("next"))).ok());
    const auto got = pair.next(next.get());
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(text_of(got->header), "next");
    EXPECT_TRUE(is_closed(idle.front()));
    for (const int fd : idle) ::close(fd);
    ASSERT_TRUE(worker->send(Frame::of(std::string("still here"))).ok());
    const auto still = pair.next(worker.get());
    ASSERT_TRUE(still.has_value());
    EXPECT_EQ(still->from, admitted->from) << "who is admitted stays";
}

// A descriptor's number says nothing: by the time of the ban it may be anybody's.
TEST(ZmqTransport, ABanNeverTouchesConnectionsOfOthers) {
    Pair pair;
    const std::string opening = zmtp_opening();
    const std::string junk("\0\4junk", 6);
    for (int round = 0; round < 100; ++round) {
        const int stranger = connect_raw(pair.endpoint);
        ::send(stranger, opening.data(), opening.size(), MSG_NOSIGNAL);
        // A peer that speaks before the other side is ready is not heard.
        std::string said;
        std::array<char, 256> piece = {};
        while (said.find("READY") == std::string::npos) {
            const ssize_t n = ::recv(stranger, piece.data(), piece.size(), 0);
            ASSERT_GT(n, 0);
            said.append(piece.data(), static_cast<std::size_t>(n));
        }
        ::send(stranger, junk.data(), junk.size(), MSG_NOSIGNAL);
        std::optional<Received> got;
        ASSERT_TRUE(turn({pair.router.get()}, [&] {
            got = pair.router->receive();
            return got.has_value();
        }));
        ::close(stranger);
        // These take the numbers that become free meanwhile.
        std::array<std::array<int, 2>, 8> innocent = {};
        for (auto& both : innocent) {
            ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, both.data()), 0);
            std::this_thread::yield();
        }
        pair.router->ban(got->from);
        for (auto& both : innocent) {
            EXPECT_EQ(::send(both[0], "x", 1, MSG_NOSIGNAL), 1);
            char byte = 0;
            EXPECT_EQ(::recv(both[1], &byte, 1, MSG_DONTWAIT), 1);
            ::close(both[0]);
            ::close(both[1]);
        }
    }
}

TEST(ZmqTransport, WhatAPeerSaysLastComesBeforeItsEnd) {
    Pair pair;
    for (int round = 0; round < 30; ++round) {
        auto dealer = pair.connect();
        ASSERT_TRUE(dealer->send(Frame::of(std::string("hello"))).ok());
        const auto hello = pair.next(dealer.get());
        ASSERT_TRUE(hello.has_value());
        for (int i = 0; i < 10; ++i) ASSERT_TRUE(dealer->send(Frame::of(std::to_string(i))).ok());
        dealer->set_linger(base::from_seconds(5));
        dealer.reset();
        std::string said;
        bool ended = false;
        EXPECT_TRUE(turn({pair.router.get()}, [&] {
            while (const auto got = pair.router->receive()) {
                EXPECT_FALSE(ended);
                EXPECT_EQ(got->from, hello->from);
                said += text_of(got->header);
            }
            for (const LinkEvent& event : pair.router->take_events()) {
                ended = ended || (event.kind == LinkEventKind::disconnected &&
                                  event.connection == hello->from);
            }
            return ended;
        }));
        EXPECT_EQ(said, "0123456789");
    }
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
}  // namespace helix::net::zmq_transport_test
