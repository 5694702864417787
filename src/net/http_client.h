#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/http_message.h"

// The client's side of HTTP/1.1, for thousands of streams on the caller's thread.

namespace helix::net {

// Where a server is: "http://host:8080/v1" is host, port and the prefix "/v1" of every path.
struct HttpTarget {
    std::string host;
    std::string port = "80";
    std::string prefix;  // "" or "/..." without a slash at its end
    bool tls = false;
};

// Parses "http://HOST[:PORT][/PATH]", the same with https, "HOST:PORT" and "http://[::1]:8080".
base::Result<HttpTarget> parse_http_url(std::string_view url);

// One request and what hears its answer: on_head, on_header for each header, then any number of
// on_body, then on_end; only on_end when nothing came. All are called from HttpClient::run_until.
struct HttpCall {
    std::string method = "GET";
    std::string path{};  // added to the target's prefix
    HttpHeaders headers{};
    std::string body{};                  // sent as JSON when not empty
    std::chrono::milliseconds limit{0};  // for the whole exchange; 0 = none
    // An answer with a longer body is an error (io), and is not read to its end.
    std::uint64_t most_body_bytes = std::numeric_limits<std::uint64_t>::max();

    std::function<void(int status)> on_head{};
    std::function<void(std::string_view name, std::string_view value)> on_header{};  // as sent
    std::function<void(std::string_view bytes)> on_body{};
    // status is ok when the answer came to its end; else unavailable: no connection; overloaded:
    // the time limit passed; io: the connection ended in the middle, or the answer is too long.
    std::function<void(const base::Status& status)> on_end{};
};

// Sends calls to one server, each on a connection of its own; connections are kept and used again.
// With TLS the server must prove that it is the target's host, by a certificate that the system
// trusts, or that is in the file that the environment's SSL_CERT_FILE names.
// One thread calls everything but wake().
class HttpClient {
  public:
    using Clock = std::chrono::steady_clock;

    // Looks up the host, which blocks; it does not connect yet.
    static base::Result<std::unique_ptr<HttpClient>> create(HttpTarget target);
    // Calls under way end without calling back.
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    void start(HttpCall call);
    // Works until this time, or until wake() or stop_running().
    void run_until(Clock::time_point until);
    // Ends run_until at the next chance; for callbacks.
    void stop_running();
    // The same from any thread.
    void wake();
    std::size_t open_calls() const;

  private:
    struct Impl;
    explicit HttpClient(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// One call and its whole answer, blocking.
struct HttpAnswer {
    int status = 0;
    std::string body;
};
base::Result<HttpAnswer> http_call(HttpClient& client, HttpCall call);

}  // namespace helix::net
