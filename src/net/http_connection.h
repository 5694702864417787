#pragma once

#include "net/asio_coroutines.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "net/http_server.h"
#include "net/spooled_body.h"

// Private to the server: its loop's state and one connection.

namespace helix::net {

using Clock = std::chrono::steady_clock;

struct HttpLoop {
    explicit HttpLoop(HttpServerOptions o)
        : options(std::move(o)), ids(options.id_seed), scratch(std::size_t{64} << 10U) {}

    boost::asio::io_context io{1};
    HttpServerOptions options;
    HttpServer::Handler handler;
    HttpServer::ErrorPage error_page;
    base::Random ids;
    std::vector<char> scratch;  // every read lands here first
    std::set<std::shared_ptr<HttpConnection>> connections;
    bool stopping = false;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
  public:
    HttpConnection(HttpLoop& loop, boost::asio::ip::tcp::socket socket);

    void start();
    // Answers 503 and closes: there are too many connections.
    void start_refusing();
    void close();
    // Between requests, or nothing asked yet.
    bool idle() const { return phase_ == Phase::idle; }
    // Closes what has been waiting for too long.
    void check_deadline(Clock::time_point now);

  private:
    friend class HttpExchange;
    enum class Phase { idle, header, body, handling, linger };
    struct Arriving;
    struct Refusal {
        int status = 0;
        std::string why;
    };
    template <typename T>
    using Awaitable = boost::asio::awaitable<T>;

    Awaitable<void> serve();
    Awaitable<void> serve_one(HttpRequest request);
    Awaitable<void> refuse(int status, std::string message);
    Awaitable<void> read_loop();
    Awaitable<void> wait_for_wake();
    Awaitable<void> drain_writes();
    Awaitable<void> linger();
    // False: the connection is to be closed (an answer, if one was due, has been sent).
    Awaitable<bool> read_request(HttpRequest& request);
    // What has been received, or the head once it is whole; a refusal ends the connection.
    std::optional<Refusal> parse_received(Arriving& in);
    std::optional<Refusal> read_head(Arriving& in);
    static Refusal too_large(std::uint64_t limit);

    std::string new_request_id();
    std::uint64_t body_limit(const HttpRequest& head) const;
    // Where its body is to be kept; null = in memory.
    base::Result<std::shared_ptr<SpooledBody>> body_file(const HttpRequest& head) const;
    void send(std::string_view bytes);
    void write_some();
    void wake();
    void enter(Phase phase, base::Duration limit);
    ResponseHead head_for(const HttpExchange& exchange, int status,
                          std::string_view content_type) const;

    HttpLoop& loop_;
    boost::asio::ip::tcp::socket socket_;
    std::string peer_;                // address of the other side
    boost::asio::steady_timer wake_;  // never expires: waiting on it is waiting for wake()
    std::shared_ptr<HttpExchange> exchange_;
    std::string in_;        // received, not parsed
    std::string out_;       // to be sent
    std::size_t sent_ = 0;  // of out_
    bool write_waiting_ = false;
    bool read_closed_ = false;
    bool closed_ = false;
    bool keep_alive_ = true;
    bool http_1_0_ = false;
    Phase phase_ = Phase::idle;
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::time_point write_progress_;
};

}  // namespace helix::net
