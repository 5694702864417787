#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A server of HTTP/1.1 that does whatever a test wants, wrong things above all.

namespace helix::hub {

struct FakeRequest {
    std::string method;
    std::string path;                            // without the query
    std::string query;                           // behind the '?'
    std::map<std::string, std::string> headers;  // names in lower case

    std::string header(const std::string& name) const {
        const auto found = headers.find(name);
        return found == headers.end() ? "" : found->second;
    }
};

struct FakeReply {
    int status = 200;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    bool with_length = true;  // false: the end of the connection is the end of the body
    // The connection is closed after so many bytes of the body.
    std::size_t cut_after = std::numeric_limits<std::size_t>::max();
    bool stall = false;  // it is not closed then: nothing more comes
    // The body comes in pieces of so many bytes, one every millisecond.
    std::size_t bytes_per_ms = std::numeric_limits<std::size_t>::max();

    bool has(const std::string& name) const {
        return std::any_of(headers.begin(), headers.end(),
                           [&](const auto& header) { return header.first == name; });
    }
};

class FakeServer {
  public:
    using Handler = std::function<FakeReply(const FakeRequest&)>;

    // certificate and key: files, for https.
    explicit FakeServer(Handler handler, const std::string& certificate = {},
                        const std::string& key = {})
        : handler_(std::move(handler)) {
        ::signal(SIGPIPE, SIG_IGN);
        if (!certificate.empty()) {
            tls_.reset(SSL_CTX_new(TLS_server_method()));
            SSL_CTX_use_certificate_file(tls_.get(), certificate.c_str(), SSL_FILETYPE_PEM);
            SSL_CTX_use_PrivateKey_file(tls_.get(), key.c_str(), SSL_FILETYPE_PEM);
        }
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
        ::listen(listener_, 64);
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        acceptor_ = std::thread([this] { accept(); });
    }
    ~FakeServer() {
        over_ = true;
        acceptor_.join();
        for (std::thread& thread : threads_) thread.join();
        ::close(listener_);
    }
    FakeServer(const FakeServer&) = delete;
    FakeServer& operator=(const FakeServer&) = delete;

    std::string origin() const {
        return tls_ ? "https://localhost:" + std::to_string(port_)
                    : "http://127.0.0.1:" + std::to_string(port_);
    }
    std::vector<FakeRequest> requests() const {
        const std::lock_guard lock(mutex_);
        return requests_;
    }
    void forget_requests() {
        const std::lock_guard lock(mutex_);
        requests_.clear();
    }

  private:
    struct FreeContext {
        void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    };
    struct FreeSession {
        void operator()(SSL* session) const { SSL_free(session); }
    };

    // One connection, with or without TLS.
    struct Peer {
        int fd;
        std::unique_ptr<SSL, FreeSession> session{};

        bool ready(const std::atomic<bool>& over) const {
            if (session && SSL_pending(session.get()) > 0) return true;
            while (!over) {
                pollfd wait{fd, POLLIN, 0};
                if (::poll(&wait, 1, 20) > 0) return true;
            }
            return false;
        }
        std::int64_t read(char* to, std::size_t count) const {
            if (session) return SSL_read(session.get(), to, static_cast<int>(count));
            return ::recv(fd, to, count, 0);
        }
        bool write(const char* bytes, std::size_t count) const {
            while (count > 0) {
                const std::int64_t n =
                    session ? SSL_write(session.get(), bytes, static_cast<int>(count))
                            : ::send(fd, bytes, count, MSG_NOSIGNAL);
                if (n <= 0) return false;
                bytes += n;
                count -= static_cast<std::size_t>(n);
            }
            return true;
        }
    };

    void accept() {
        while (!over_) {
            pollfd wait{listener_, POLLIN, 0};
            if (::poll(&wait, 1, 20) <= 0) continue;
            const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (fd >= 0) threads_.emplace_back([this, fd] { serve(fd); });
        }
    }

    void serve(int fd) {
        Peer peer{fd};
        bool good = true;
        if (tls_) {
            peer.session.reset(SSL_new(tls_.get()));
            SSL_set_fd(peer.session.get(), fd);
            good = SSL_accept(peer.session.get()) == 1;
        }
        std::string input;
        while (good) good = answer_one(peer, input);
        peer.session.reset();
        ::close(fd);
    }

    bool answer_one(const Peer& peer, std::string& input) {
        while (input.find("\r\n\r\n") == std::string::npos) {
            char buffer[4096];
            if (!peer.ready(over_)) return false;
            const std::int64_t n = peer.read(buffer, sizeof buffer);
            if (n <= 0) return false;
            input.append(buffer, static_cast<std::size_t>(n));
        }
        const FakeRequest request = parse(input.substr(0, input.find("\r\n\r\n")));
        input.erase(0, input.find("\r\n\r\n") + 4);
        FakeReply reply;
        {
            const std::lock_guard lock(mutex_);
            requests_.push_back(request);
            reply = handler_(request);
        }
        return send(peer, request, reply);
    }

    static FakeRequest parse(const std::string& head) {
        FakeRequest request;
        const std::size_t blank = head.find(' ');
        request.method = head.substr(0, blank);
        const std::string target = head.substr(blank + 1, head.find(' ', blank + 1) - blank - 1);
        request.path = target.substr(0, target.find('?'));
        if (target.find('?') != std::string::npos) {
            request.query = target.substr(target.find('?') + 1);
        }
        for (std::size_t at = head.find("\r\n"); at != std::string::npos;) {
            const std::size_t end = std::min(head.find("\r\n", at + 2), head.size());
            const std::string line = head.substr(at + 2, end - at - 2);
            std::string name = line.substr(0, line.find(':'));
            for (char& c : name) c = static_cast<char>(std::tolower(c));
            request.headers[name] = line.substr(std::min(line.find(':') + 2, line.size()));
            at = head.find("\r\n", at + 2);
        }
        return request;
    }

    // False: the connection is over.
    bool send(const Peer& peer, const FakeRequest& request, const FakeReply& reply) {
        std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " Whatever\r\n";
        for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
        if (reply.with_length && !reply.has("Content-Length")) {
            head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
        }
        if (!peer.write((head + "\r\n").data(), head.size() + 2)) return false;
        if (request.method == "HEAD") return true;
        const std::size_t count = std::min(reply.body.size(), reply.cut_after);
        for (std::size_t at = 0; at < count && !over_;) {
            const std::size_t step = std::min(reply.bytes_per_ms, count - at);
            if (!peer.write(reply.body.data() + at, step)) return false;
            at += step;
            if (at < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (reply.cut_after < reply.body.size() || !reply.with_length) {
            while (reply.stall && !over_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
            return false;
        }
        return true;
    }

    Handler handler_;
    std::unique_ptr<SSL_CTX, FreeContext> tls_;
    int listener_ = -1;
    int port_ = 0;
    std::atomic<bool> over_{false};
    mutable std::mutex mutex_;
    std::vector<FakeRequest> requests_;
    std::list<std::thread> threads_;
    std::thread acceptor_;
};

}  // namespace helix::hub
