#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace helix::node::test_support {

// Passes connections of this machine on to another port of it, until it is told to do otherwise.
class TcpProxy {
  public:
    enum class Mode {
        pass,
        refuse,   // connections are closed, and new ones at once
        swallow,  // they stay, and so do new ones; nothing gets through either way
    };

    explicit TcpProxy(std::uint16_t to) : to_(to) {
        listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::listen(listener_, 16);
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { work(); });
    }
    ~TcpProxy() {
        stopping_ = true;
        thread_.join();
        for (const Pair& pair : pairs_) close(pair);
        ::close(listener_);
    }
    TcpProxy(const TcpProxy&) = delete;
    TcpProxy& operator=(const TcpProxy&) = delete;

    std::uint16_t port() const { return port_; }
    void set(Mode mode) { mode_ = mode; }
    std::int64_t bytes() const { return bytes_; }  // passed on so far
    // Refuses everything as soon as it has passed so many bytes on.
    void refuse_after(std::int64_t bytes) { refuse_after_ = bytes; }

    // A port that was free a moment ago.
    static std::uint16_t free_port() {
        const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
        ::close(fd);
        return ntohs(address.sin_port);
    }

  private:
    struct Pair {
        int in = -1;
        int out = -1;
        // Bytes of the stream were swallowed, and a stream with a hole is of no use to anybody.
        bool holed = false;
    };

    static sockaddr_in loopback(std::uint16_t port) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port);
        return address;
    }
    static void close(const Pair& pair) {
        ::close(pair.in);
        if (pair.out >= 0) ::close(pair.out);
    }

    void work() {
        while (!stopping_) {
            const Mode mode = mode_;
            std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
            for (const Pair& pair : pairs_) {
                polled.push_back({pair.in, POLLIN, 0});
                polled.push_back({pair.out, POLLIN, 0});  // poll() passes over negative ones
            }
            ::poll(polled.data(), polled.size(), 5);
            std::vector<Pair> kept;
            for (std::size_t i = 0; i < pairs_.size(); ++i) {
                Pair& pair = pairs_[i];
                bool open = mode != Mode::refuse && !(mode == Mode::pass && pair.holed);
                if (open && polled[1 + 2 * i].revents != 0) open = move(pair, true, mode);
                if (open && polled[2 + 2 * i].revents != 0) open = move(pair, false, mode);
                if (open) {
                    kept.push_back(pair);
                } else {
                    close(pair);
                }
            }
            pairs_ = std::move(kept);
            if (polled[0].revents != 0) accept(mode);
        }
    }
    void accept(Mode mode) {
        Pair pair;
        pair.in = ::accept(listener_, nullptr, nullptr);
        if (pair.in < 0) return;
        if (mode == Mode::pass) {
            const sockaddr_in address = loopback(to_);
            pair.out = ::socket(AF_INET, SOCK_STREAM, 0);
            const auto* to = reinterpret_cast<const sockaddr*>(&address);
            if (::connect(pair.out, to, sizeof address) != 0) return close(pair);
        }
        if (mode == Mode::refuse) return close(pair);
        pair.holed = mode == Mode::swallow;
        pairs_.push_back(pair);
    }
    // Moves bytes one way; false when the connection is over.
    bool move(Pair& pair, bool inward, Mode mode) {
        std::array<char, 65536> buffer;
        const ssize_t got = ::recv(inward ? pair.in : pair.out, buffer.data(), buffer.size(), 0);
        if (got <= 0) return false;
        if (mode == Mode::swallow) {
            pair.holed = true;
            return true;
        }
        bytes_ += got;
        if (bytes_ > refuse_after_) {
            mode_ = Mode::refuse;
            return false;
        }
        const auto* at = buffer.data();
        for (ssize_t left = got; left > 0;) {
            const ssize_t sent = ::send(inward ? pair.out : pair.in, at,
                                        static_cast<std::size_t>(left), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            at += sent;
            left -= sent;
        }
        return true;
    }

    std::uint16_t to_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::vector<Pair> pairs_;
    std::atomic<Mode> mode_{Mode::pass};
    std::atomic<bool> stopping_{false};
    std::atomic<std::int64_t> bytes_{0};
    std::atomic<std::int64_t> refuse_after_{std::numeric_limits<std::int64_t>::max()};
    std::thread thread_;
};

}  // namespace helix::node::test_support
