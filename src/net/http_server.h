#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "net/held_port.h"
#include "net/http_message.h"
#include "net/tls_context.h"

// HTTP/1.1 with keep-alive and streamed answers, on one thread of its own. Everything that is
// handed out (handlers, exchanges, posted tasks, ticks) runs on that thread; post() is the way in
// from others.

namespace helix::net {

class HttpConnection;

// A request that was refused: malformed, too large, too slow, too many connections.
struct HttpRefused {
    std::string_view peer;
    std::string_view method;  // empty while it was not known
    std::string_view path;    // likewise
    int status = 0;
    std::string_view message;
};

// An error of the HTTP server itself, for whoever makes its answers.
struct HttpProblem {
    int status = 0;
    std::string_view message;
    std::string_view path;        // of the request; "" = not known
    std::string_view request_id;  // that the answer carries
};

struct HttpServerOptions {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;  // 0 = one that is free
    // Where the address was taken before: the server listens there, and port is not looked at.
    std::shared_ptr<HeldPort> held = {};
    // With these files the port speaks HTTPS. They are loaded anew when they change.
    std::optional<TlsFiles> tls = {};
    base::Duration tls_refresh = base::from_ms(500);            // between two looks at them
    base::Duration handshake_timeout = base::from_seconds(10);  // from the connect
    // Which requests are answered there without TLS, too; others get 400. Empty = none.
    std::function<bool(const HttpRequest& head)> allows_plain = {};
    std::size_t max_header_bytes = std::size_t{32} << 10U;
    std::size_t max_body_bytes = std::size_t{4} << 20U;
    // The limit of this request's body, asked when its head has arrived; empty = max_body_bytes for
    // all.
    std::function<std::size_t(const HttpRequest& head)> body_limit = {};
    // Where the body of this request goes as it arrives, asked with the limit: a folder, for bodies
    // too large for memory (HttpRequest::body_file); "" or no function = memory.
    std::function<std::string(const HttpRequest& head)> body_folder = {};
    // The limit of all bodies in memory together: those that are being received, and those whose
    // requests are still being answered. What is over it is refused with 429. Those of one address
    // may take three quarters of it.
    std::size_t max_bodies_bytes = std::size_t{256} << 20U;
    // The limit of all bodies that are kept on disk (body_folder). What is over it is refused with
    // 507.
    std::size_t max_body_files_bytes = std::size_t{10} << 30U;
    // Connections at once. More are refused with 503, after those that wait for a request have made
    // room. 0 = as many as the limit of open files allows (net/open_files.h).
    std::size_t max_connections = 0;
    // What may wait for a slow reader, which is disconnected when it is more.
    std::size_t max_queued_bytes = std::size_t{1} << 20U;
    std::int32_t send_buffer_bytes = 0;                      // of the socket; 0 = the system's
    base::Duration header_timeout = base::from_seconds(10);  // from the first byte, or the connect
    base::Duration body_timeout = base::from_seconds(60);  // and one more second for each MB of it
    // In each interval this much of a body must arrive, since a slower sender holds memory for
    // nothing.
    std::size_t body_progress_bytes = std::size_t{16} << 10U;
    base::Duration body_progress_interval = base::from_seconds(10);
    base::Duration idle_timeout = base::from_seconds(75);   // between two requests
    base::Duration write_timeout = base::from_seconds(30);  // without any progress
    // Between two looks whether a client that has ended its side of the connection is still there.
    base::Duration probe = base::from_seconds(5);
    base::Duration tick = base::from_ms(250);  // also the grain of the time-outs
    std::uint64_t id_seed = 0;                 // of x-request-id
    // Told of every request that is refused before it reaches the handler, in the loop's thread.
    std::function<void(const HttpRefused&)> on_refused = {};
};

// One request and its answer. Call either respond(), or begin_stream(), any number of write()s and
// end_stream(). When the client is gone all of these do nothing. A stream that ends before the
// length that was announced breaks off the connection, so that the client sees that something is
// missing.
class HttpExchange {
  public:
    HttpExchange(HttpConnection* connection, HttpRequest request)
        : connection_(connection), request_(std::move(request)) {}
    // Makes an exchange for a request that did not come over a connection. Its answer, which must
    // not be a stream, goes to `answer`.
    HttpExchange(HttpRequest request, std::function<void(const HttpResponse&)> answer)
        : connection_(nullptr), request_(std::move(request)), answer_(std::move(answer)) {}

    const HttpRequest& request() const { return request_; }
    // Takes out the body, which request() then no longer has.
    std::string take_body() { return std::exchange(request_.body, {}); }
    // What that body takes of the server's memory for bodies. Keep it as long as the body; any
    // thread may let it go.
    std::shared_ptr<const void> take_body_share() { return std::move(request_.body_share); }
    // Whether there still is a client and the answer is not complete yet.
    bool open() const { return (connection_ != nullptr || answer_) && !done_; }
    bool started() const { return started_; }
    // Whether the answer may be a stream.
    bool connected() const { return connection_ != nullptr; }
    // The connection was closed because the client did not take what was written fast enough.
    bool too_slow() const { return too_slow_; }
    // Bytes accepted by write() that the socket did not take yet.
    std::size_t queued_bytes() const;

    void respond(const HttpResponse& response);
    void begin_stream(int status, std::string_view content_type, const HttpHeaders& headers,
                      std::optional<std::uint64_t> length = {});
    void write(std::string_view data);
    void end_stream();
    // callback is called once, from the event loop and not before this returns, when the socket has
    // taken all that was written. It is not called when the client goes away.
    void on_drained(std::function<void()> callback);
    // callback is called once, from the event loop, when the client goes away before the answer is
    // complete: it closed the connection, failed, or did not read fast enough. One that has only
    // ended its own side still gets its answer.
    void on_gone(std::function<void()> callback) { gone_ = std::move(callback); }
    // For an exchange without a connection: nobody waits for the answer any more.
    void abandon();
    // Says which web page may read the answer (CORS); "" = none, which is the default. To be called
    // before the answer begins.
    void allow_origin(std::string origin) { allow_origin_ = std::move(origin); }
    // Adds a header to the answer, whatever it is. To be called before the answer begins.
    void add_header(std::string name, std::string value) {
        headers_.emplace_back(std::move(name), std::move(value));
    }
    // callback is called once, when the answer is complete or cannot be completed any more. It may
    // not answer. Several are called in order.
    void on_end(std::function<void(const HttpExchange&)> callback) {
        ended_.push_back(std::move(callback));
    }
    // Of the answer: its status, 0 before it began; the bytes of its body so far; and whether all
    // of it is there.
    int status() const { return status_; }
    std::uint64_t body_bytes() const { return body_bytes_; }
    bool complete() const { return done_; }
    // Adds to a count of this name, for whoever keeps a log of answers. name must be a literal.
    void count(std::string_view name, std::int64_t more);
    // callback hears of each count().
    using OnCount = std::function<void(std::string_view name, std::int64_t more)>;
    void on_count(OnCount callback) { counted_ = std::move(callback); }
    const std::vector<std::pair<std::string_view, std::int64_t>>& counts() const { return counts_; }

  private:
    friend class HttpConnection;
    void finish();
    void tell_end();

    HttpConnection* connection_;  // null once it is gone
    HttpRequest request_;
    std::function<void(const HttpResponse&)> answer_;
    std::function<void()> gone_;
    std::function<void()> drained_;
    std::vector<std::function<void(const HttpExchange&)>> ended_;
    OnCount counted_;
    std::string allow_origin_;
    HttpHeaders headers_;  // besides those of the answer
    std::vector<std::pair<std::string_view, std::int64_t>> counts_;
    int status_ = 0;
    std::uint64_t body_bytes_ = 0;
    std::optional<std::uint64_t> left_;  // of a stream whose length was announced
    bool started_ = false;
    bool chunked_ = true;
    bool size_begun_ = false;  // of the next chunk: a zero was sent
    bool done_ = false;
    bool too_slow_ = false;
};

class HttpServer {
  public:
    using Handler = std::function<void(const std::shared_ptr<HttpExchange>&)>;
    using Task = std::function<void()>;
    // Makes answers for what never reaches the handler: malformed, too large, too slow, too many.
    using ErrorPage = std::function<HttpResponse(const HttpProblem& problem)>;

    // Begins to listen; requests are handled after start().
    static base::Result<std::unique_ptr<HttpServer>> listen(HttpServerOptions options);
    ~HttpServer();  // stop(0)
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    std::uint16_t port() const;
    // on_tick runs every options.tick.
    void start(Handler handler, ErrorPage error_page = {}, Task on_tick = {});
    // Stops accepting, lets answers under way finish for up to grace, and closes the rest; then no
    // callback runs any more. Must not be called on the server's own thread.
    void stop(base::Duration grace = {});

    // Any thread. Runs task on the server's thread, in order; once the server has stopped tasks are
    // dropped. Many are cheap: one wake-up serves all that wait.
    void post(Task task);
    // A handle on post() that may outlive the server.
    std::function<void(Task)> poster() const;

    std::size_t connections() const;  // any thread

    struct Impl;

  private:
    explicit HttpServer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::net
