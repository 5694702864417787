#pragma once

#include "net/asio_coroutines.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log_budget.h"
#include "base/random.h"
#include "net/http_date.h"
#include "net/http_parser.h"
#include "net/http_server.h"
#include "net/http_socket.h"
#include "net/memory_budget.h"
#include "net/spooled_body.h"
#include "net/tls_context.h"

// Private to the server: its loop's state and one connection.

namespace helix::net {

using Clock = std::chrono::steady_clock;

// Bodies up to this length find room beside longer ones that fill their memory.
inline constexpr std::size_t kShortBodyBytes = std::size_t{64} << 10U;

struct HttpLoop {
    explicit HttpLoop(HttpServerOptions o)
        : options(std::move(o)),
          ids(options.id_seed),
          scratch(std::size_t{64} << 10U),
          bodies(std::make_shared<MemoryBudget>(options.max_bodies_bytes)),
          body_files(std::make_shared<MemoryBudget>(options.max_body_files_bytes)) {}

    // The present time for the header of this name.
    std::string_view date();
    // A whole answer with this status that ends its connection. asked: the request, as far
    // as it is known.
    std::string last_answer(int status, std::string_view message, const HttpRequest& asked = {});

    boost::asio::io_context io{1};
    HttpServerOptions options;
    std::unique_ptr<TlsContext> tls;  // null without
    HttpServer::Handler handler;
    HttpServer::ErrorPage error_page;
    base::Random ids;
    std::vector<char> scratch;  // every read lands here first
    std::set<std::shared_ptr<HttpConnection>> connections;
    std::shared_ptr<MemoryBudget> bodies;
    std::shared_ptr<MemoryBudget> body_files;                        // bytes on disk
    std::map<std::string, std::weak_ptr<MemoryBudget>> bodies_from;  // by address
    std::size_t forget_bodies_at = 64;                               // map entries
    // The most that the bodies from one address may take.
    std::size_t bodies_share_bytes() const { return options.max_bodies_bytes / 4 * 3; }
    // What is longer would never find room.
    std::size_t longest_body_bytes() const {
        const std::size_t share = bodies_share_bytes();
        return std::max(MemoryBudget::part_of_large(share), std::min(share, kShortBodyBytes));
    }
    std::shared_ptr<MemoryBudget> bodies_of(const std::string& peer);
    HttpDate clock;
    // Answers made ahead with last_answer(), for when no memory or no file descriptor is left.
    std::string failed_answer;
    std::string full_answer;
    base::LogBudget log{30};
    bool stopping = false;
};

// Empties a buffer, and gives its memory back if it is much.
void empty(std::string& buffer);

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
  public:
    HttpConnection(HttpLoop& loop, boost::asio::ip::tcp::socket socket);

    void start();
    // Answers 503 and closes: there are too many connections.
    void start_refusing();
    void close();
    // Whether the connection is between requests, or nothing was asked yet.
    bool idle() const { return phase_ == Phase::idle || phase_ == Phase::handshake; }
    Clock::time_point idle_since() const { return phase_since_; }
    // Closes what has been waiting for too long.
    void check_deadline(Clock::time_point now);

  private:
    friend class HttpExchange;
    enum class Phase { handshake, idle, header, body, handling, linger };
    struct Arriving;
    using Refusal = HttpParser::Refusal;
    template <typename T>
    using Awaitable = boost::asio::awaitable<T>;

    Awaitable<void> shake_hands(bool refusing);
    void converse(bool refusing);
    Awaitable<void> serve();
    Awaitable<void> serve_one(HttpRequest request);
    Awaitable<void> refuse(int status, std::string message, HttpRequest asked);
    // Method and path of the request on its way in, "" while they are not known.
    HttpRequest asked() const;
    // Tells whoever keeps a log what the connection is about to refuse with.
    void tell_refused(int status, std::string_view message) const;
    Awaitable<void> read_loop();
    // For a client that has ended its side: finds out whether it is still there.
    void keep_probing();
    void probe_client(Clock::time_point now);
    Awaitable<void> wait_for_wake();
    Awaitable<void> drain_writes();
    Awaitable<void> linger();
    // False: the connection is to be closed (an answer, if one was due, has been sent).
    Awaitable<bool> read_request(HttpRequest& request);
    // Parses what has been received. A refusal ends the connection.
    std::optional<Refusal> parse_received(Arriving& in);
    std::optional<Refusal> on_head(Arriving& in);
    std::optional<Refusal> keep_piece(Arriving& in);
    // Whether the sender of a body has been too slow.
    bool too_slow(Clock::time_point now);

    // Runs a coroutine of this connection; an exception out of it fails the connection.
    template <typename Coroutine>
    void spawn(Coroutine coroutine);
    // Our own code threw: answers, if no answer was begun, and ends this connection. serving says
    // that serve() goes on after this.
    void fail(const std::exception_ptr& error, bool serving) noexcept;
    // False if it is too late to answer.
    bool answer_failure(const std::exception_ptr& error);
    std::string new_request_id();
    std::uint64_t body_limit(const HttpRequest& head) const;
    // The file that is to keep the body; null: it is kept in memory.
    base::Result<std::shared_ptr<SpooledBody>> body_file(const HttpRequest& head) const;
    void send(std::string_view bytes);
    void write_some();
    void wake();
    void enter(Phase phase, base::Duration limit);
    ResponseHead head_for(const HttpExchange& exchange, int status,
                          std::string_view content_type) const;

    HttpLoop& loop_;
    HttpSocket socket_;
    std::string peer_;                // address of the other side
    boost::asio::steady_timer wake_;  // never expires: waiting on it is waiting for wake()
    std::shared_ptr<HttpExchange> exchange_;
    const Arriving* arriving_ = nullptr;  // while there is one
    std::string in_;                      // received, not parsed; at most kReadAheadBytes
    std::string out_;                     // to be sent
    std::size_t sent_ = 0;                // of out_
    bool write_waiting_ = false;
    bool read_closed_ = false;  // the client sends nothing more
    Clock::time_point read_closed_at_;
    Clock::time_point probed_at_;
    bool closed_ = false;
    bool plain_ = false;  // the client speaks without TLS where we have it
    bool keep_alive_ = true;
    bool http_1_0_ = false;
    Phase phase_ = Phase::idle;
    Clock::time_point phase_since_;
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::time_point write_progress_;
    std::uint64_t body_received_ = 0;
    std::uint64_t body_mark_ = 0;  // bytes of the body when the interval began
    Clock::time_point body_mark_at_;
};

}  // namespace helix::net
