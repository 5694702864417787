#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "net/http_message.h"

namespace helix::net {

// A client with no manners of its own: it sends the bytes it is given and shows what comes back.
// Every wait ends after half a minute without anything, with what there is by then.
class TestClient {
  public:
    // from is the address that it comes from; null = any of this machine.
    explicit TestClient(std::uint16_t port, int receive_buffer = 0, const char* from = nullptr) {
        fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (receive_buffer > 0) {
            ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
        }
        sockaddr_in address{};
        address.sin_family = AF_INET;
        if (from != nullptr) {
            ::inet_pton(AF_INET, from, &address.sin_addr);
            ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
        }
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    virtual ~TestClient() { close(); }
    TestClient(const TestClient&) = delete;
    TestClient& operator=(const TestClient&) = delete;

    bool connected() const { return connected_; }
    void close() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }
    // Ends the client's side: it sends nothing more, and reads on.
    void end_sending() { ::shutdown(fd_, SHUT_WR); }
    // After close() the system forgets the connection after a second, not after a minute.
    void forget_soon() {
        const int seconds = 1;
        ::setsockopt(fd_, IPPROTO_TCP, TCP_LINGER2, &seconds, sizeof seconds);
    }
    void send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = transmit(bytes.data(), bytes.size());
            if (n <= 0) return;
            bytes.remove_prefix(static_cast<std::size_t>(n));
        }
    }

    // Sends one request with a JSON body, or none if it is empty. headers are "name: value\r\n"
    // lines.
    void request(std::string_view method, std::string_view path, std::string_view body = {},
                 std::string_view headers = {}) {
        std::string text =
            std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nhost: localhost\r\n";
        if (!body.empty()) {
            text += "content-length: " + std::to_string(body.size()) + "\r\n";
            if (headers.find("content-type") == std::string_view::npos) {
                text += "content-type: application/json\r\n";
            }
        }
        text += std::string(headers) + "\r\n" + std::string(body);
        send(text);
    }

    struct Response {
        int status = 0;  // 0 = the connection ended first
        std::string status_line;
        HttpHeaders headers;
        std::string body;
        bool complete = false;
        std::string header(std::string_view name) const {
            for (const auto& [key, value] : headers) {
                if (key == name) return value;
            }
            return {};
        }
    };

    // Reads status and headers; the body stays unread.
    Response read_head() {
        Response response;
        if (!fill_until([this] { return in_.find("\r\n\r\n") != std::string::npos; }))
            return response;
        const std::size_t end = in_.find("\r\n\r\n") + 2;
        std::string_view head = std::string_view(in_).substr(0, end);
        response.status_line = head.substr(0, head.find("\r\n"));
        response.status = std::atoi(std::string(head.substr(9, 3)).c_str());
        head.remove_prefix(head.find("\r\n") + 2);
        while (!head.empty()) {
            const std::string_view line = head.substr(0, head.find("\r\n"));
            const std::size_t colon = line.find(": ");
            response.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
            head.remove_prefix(line.size() + 2);
        }
        in_.erase(0, end + 2);
        return response;
    }

    Response read_response(bool has_body = true) {
        Response response = read_head();
        if (response.status == 0 || !has_body || response.status == 204) return response;
        if (response.header("transfer-encoding") == "chunked") {
            std::string chunk;
            while (read_chunk(chunk)) {
                if (chunk.empty()) {
                    response.complete = true;
                    break;
                }
                response.body += chunk;
            }
        } else if (!response.header("content-length").empty()) {
            const auto size = std::stoul(response.header("content-length"));
            response.complete = fill_until([&] { return in_.size() >= size; });
            response.body = in_.substr(0, size);
            in_.erase(0, response.body.size());
        } else {
            fill_until([] { return false; });
            response.complete = eof_;
            response.body = std::exchange(in_, {});
        }
        return response;
    }

    // Reads one chunk of a chunked body, "" at its end; false when the connection ended or
    // nothing came for half a minute.
    bool read_chunk(std::string& chunk) {
        if (!fill_until([this] { return in_.find("\r\n") != std::string::npos; })) return false;
        const std::size_t line = in_.find("\r\n");
        const std::size_t size = std::stoul(in_.substr(0, line), nullptr, 16);
        if (!fill_until([&] { return in_.size() >= line + 2 + size + 2; })) return false;
        chunk = in_.substr(line + 2, size);
        in_.erase(0, line + 2 + size + 2);
        return true;
    }

    // Whether there is something to read now, or the end.
    bool readable() const {
        pollfd poller{fd_, POLLIN, 0};
        return !eof_ && ::poll(&poller, 1, 0) > 0;
    }

    // True once the server has closed; what it still sent is dropped.
    bool wait_closed() {
        while (fill()) in_.clear();
        return eof_;
    }

  protected:
    int fd() const { return fd_; }
    virtual ssize_t transmit(const char* from, std::size_t bytes) {
        return ::send(fd_, from, bytes, MSG_NOSIGNAL);
    }
    virtual ssize_t receive(char* to, std::size_t most) { return ::recv(fd_, to, most, 0); }
    virtual bool has_read_ahead() const { return false; }

  private:
    // That it waits for something to read, each time.
    static constexpr int kPatienceMs = 30'000;

    template <typename Done>
    bool fill_until(Done done) {
        while (!done()) {
            if (!fill()) return done();
        }
        return true;
    }
    bool fill() {
        pollfd poller{fd_, POLLIN, 0};
        if (!has_read_ahead() && ::poll(&poller, 1, kPatienceMs) <= 0) return false;
        char buffer[16384];
        const ssize_t n = receive(buffer, sizeof buffer);
        if (n <= 0) eof_ = true;
        if (n <= 0) return false;
        in_.append(buffer, static_cast<std::size_t>(n));
        return true;
    }

    int fd_ = -1;
    bool connected_ = false;
    bool eof_ = false;
    std::string in_;
};

}  // namespace helix::net
