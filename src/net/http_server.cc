#include "net/http_server.h"

#include "net/http_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "net/open_files.h"

namespace helix::net {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

// What one task, tick or connection throws must not end the thread that serves all others.
template <typename Work>
void guarded(std::string_view what, Work& work) noexcept {
    try {
        work();
    } catch (const std::exception& e) {
        LOG_ERROR("http: {} failed: {}", what, e.what());
    }
}

// Tasks from other threads. One wake-up of the loop takes all that came in meanwhile, so a service
// that produces a token for each of a thousand streams wakes it a few times, not a thousand.
class Mailbox {
  public:
    explicit Mailbox(asio::io_context& io) : io_(&io) {}

    void post(HttpServer::Task task, const std::shared_ptr<Mailbox>& self) {
        const std::lock_guard lock(mutex_);
        if (io_ == nullptr) return;
        tasks_.push_back(std::move(task));
        if (tasks_.size() == 1) asio::post(*io_, [self] { self->drain(); });
    }

    // From now on nothing that is posted is run, nor what still waits.
    void close() {
        std::vector<HttpServer::Task> dropped;
        const std::lock_guard lock(mutex_);
        io_ = nullptr;
        dropped.swap(tasks_);
    }

  private:
    void drain() {
        std::vector<HttpServer::Task> tasks;
        {
            const std::lock_guard lock(mutex_);
            tasks.swap(tasks_);
        }
        for (HttpServer::Task& task : tasks) {
            guarded("a task", task);
            task = nullptr;
        }
    }

    std::mutex mutex_;
    asio::io_context* io_;
    std::vector<HttpServer::Task> tasks_;
};

// This many connections beyond the limit are refused with time for them to read it; further ones at
// once.
constexpr std::size_t kMostRefusals = 32;

base::TimePoint loop_now() {
    return {std::chrono::nanoseconds(Clock::now().time_since_epoch()).count()};
}

HttpResponse plain_error(const HttpProblem& problem) {
    return {problem.status, "text/plain", std::string(problem.message) + "\n", {}};
}

}  // namespace

struct HttpServer::Impl {
    explicit Impl(HttpServerOptions o)
        : loop(std::move(o)),
          acceptor(loop.io),
          timer(loop.io),
          mailbox(std::make_shared<Mailbox>(loop.io)) {}

    asio::awaitable<void> accept_loop();
    asio::awaitable<void> tick_loop();
    void admit(tcp::socket socket);
    void make_room();
    bool turn_one_away();
    void tick();
    void refresh_tls(Clock::time_point now);
    void run() noexcept;
    void begin_stop(base::Duration grace);

    HttpLoop loop;
    tcp::acceptor acceptor;
    asio::steady_timer timer;
    Task on_tick;
    Clock::time_point looked_at_tls;
    std::shared_ptr<Mailbox> mailbox;
    SpareDescriptor spare;
    std::thread thread;
    Clock::time_point stop_deadline = Clock::time_point::max();
    std::atomic<std::size_t> connection_count{0};
    std::uint16_t port = 0;
};

asio::awaitable<void> HttpServer::Impl::accept_loop() {
    while (acceptor.is_open()) {
        tcp::socket socket(loop.io);
        error_code ec;
        co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, ec));
        if (!acceptor.is_open() || loop.stopping) break;
        if (!ec) {
            auto work = [&] { admit(std::move(socket)); };
            guarded("a new connection", work);
            continue;
        }
        // Most likely there are no file descriptors left. Whoever waits is told so, one by one.
        // When nobody waits, or the spare descriptor is gone, some must come back first.
        if (loop.log.take(loop_now())) LOG_WARN("http: accept failed: {}", ec.message());
        if (turn_one_away()) continue;
        asio::steady_timer pause(loop.io, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    }
}

void HttpServer::Impl::admit(tcp::socket socket) {
    const std::size_t most = loop.options.max_connections;
    if (loop.connections.size() >= most) make_room();
    if (loop.connections.size() >= most + kMostRefusals) {
        error_code ec;
        socket.non_blocking(true, ec);
        if (!loop.tls) socket.write_some(asio::buffer(loop.full_answer), ec);
        return;  // that closes it
    }
    const bool full = loop.connections.size() >= most;
    auto connection = std::make_shared<HttpConnection>(loop, std::move(socket));
    loop.connections.insert(connection);
    connection_count = loop.connections.size();
    if (full) {
        connection->start_refusing();
    } else {
        connection->start();
    }
}

// Closes the connection that has waited longest for its next request, which HTTP lets a server do.
void HttpServer::Impl::make_room() {
    std::shared_ptr<HttpConnection> oldest;
    for (const auto& connection : loop.connections) {
        if (!connection->idle()) continue;
        if (!oldest || connection->idle_since() < oldest->idle_since()) oldest = connection;
    }
    if (oldest) oldest->close();
}

// Refuses one connection with the descriptor that was kept for this. False if nobody waits, or if
// the descriptor could not be had back.
bool HttpServer::Impl::turn_one_away() {
    spare.release();
    const int fd =
        ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        spare.take();
        return false;
    }
    if (!loop.tls) {
        [[maybe_unused]] const ssize_t sent =
            ::send(fd, loop.full_answer.data(), loop.full_answer.size(), MSG_NOSIGNAL);
    }
    spare.take_over(fd);
    return true;
}

asio::awaitable<void> HttpServer::Impl::tick_loop() {
    for (;;) {
        error_code ec;
        const bool quick = loop.stopping;
        timer.expires_after(quick ? std::chrono::milliseconds(5)
                                  : std::chrono::nanoseconds(loop.options.tick.ns));
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
        auto work = [this] { tick(); };
        guarded("the tick", work);
        if (loop.stopping && loop.connections.empty()) co_return;
        if (on_tick) guarded("the tick", on_tick);
    }
}

void HttpServer::Impl::tick() {
    const Clock::time_point now = Clock::now();
    const std::vector<std::shared_ptr<HttpConnection>> all(loop.connections.begin(),
                                                           loop.connections.end());
    for (const auto& connection : all) {
        auto work = [&] { connection->check_deadline(now); };
        guarded("a deadline", work);
        if (loop.stopping && (connection->idle() || now >= stop_deadline)) connection->close();
    }
    connection_count = loop.connections.size();
    if (loop.tls) refresh_tls(now);
    if (const std::string more = loop.log.take_summary(loop_now()); !more.empty()) {
        LOG_WARN("http: accept failed, {}", more);
    }
}

void HttpServer::Impl::refresh_tls(Clock::time_point now) {
    if (now - looked_at_tls < std::chrono::nanoseconds(loop.options.tls_refresh.ns)) return;
    looked_at_tls = now;
    const base::Result<bool> changed = loop.tls->refresh();
    if (!changed.ok()) {
        LOG_ERROR("{}; the certificate stays what it was", changed.error().message);
    } else if (*changed) {
        LOG_INFO("a new certificate is in use: {}", loop.tls->describe());
    }
}

void HttpServer::Impl::run() noexcept {
    for (bool ended = false; !ended;) {
        auto work = [&] {
            loop.io.run();
            ended = true;
        };
        guarded("a callback", work);
    }
}

void HttpServer::Impl::begin_stop(base::Duration grace) {
    loop.stopping = true;
    stop_deadline = Clock::now() + std::chrono::nanoseconds(grace.ns);
    error_code ec;
    acceptor.close(ec);
    timer.cancel();
}

base::Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpServerOptions options) {
    if (options.max_connections == 0) {
        options.max_connections = connections_for(raise_open_file_limit());
    }
    auto impl = std::make_unique<Impl>(std::move(options));
    const HttpServerOptions& o = impl->loop.options;
    if (o.tls) {
        TRY(impl->loop.tls, TlsContext::load(*o.tls));
        LOG_INFO("HTTPS with the certificate of {}", impl->loop.tls->describe());
    }
    std::shared_ptr<HeldPort> held = o.held;
    if (!held) {
        TRY(held, HeldPort::hold(o.address, o.port));
    }
    impl->port = held->port();
    error_code ec;
    impl->acceptor.assign(held->is_ipv6() ? tcp::v6() : tcp::v4(), held->take_socket(), ec);
    if (!ec) impl->acceptor.listen(asio::socket_base::max_listen_connections, ec);
    if (ec) return HeldPort::refused(o.address, impl->port, ec.message());
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
    stop();
}

std::uint16_t HttpServer::port() const {
    return impl_->port;
}

void HttpServer::start(Handler handler, ErrorPage error_page, Task on_tick) {
    CHECK(!impl_->thread.joinable());
    impl_->loop.handler = std::move(handler);
    impl_->loop.error_page = error_page ? std::move(error_page) : ErrorPage(plain_error);
    impl_->on_tick = std::move(on_tick);
    impl_->loop.failed_answer = impl_->loop.last_answer(503, "out of memory; try again later");
    impl_->loop.full_answer = impl_->loop.last_answer(503, "too many connections");
    asio::co_spawn(
        impl_->loop.io, [impl = impl_.get()] { return impl->accept_loop(); }, asio::detached);
    asio::co_spawn(
        impl_->loop.io, [impl = impl_.get()] { return impl->tick_loop(); }, asio::detached);
    impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

void HttpServer::stop(base::Duration grace) {
    if (!impl_->thread.joinable()) return;
    asio::post(impl_->loop.io, [impl = impl_.get(), grace] { impl->begin_stop(grace); });
    impl_->thread.join();
    impl_->mailbox->close();
}

void HttpServer::post(Task task) {
    impl_->mailbox->post(std::move(task), impl_->mailbox);
}

std::function<void(HttpServer::Task)> HttpServer::poster() const {
    return [mailbox = impl_->mailbox](Task task) { mailbox->post(std::move(task), mailbox); };
}

std::size_t HttpServer::connections() const {
    return impl_->connection_count;
}

}  // namespace helix::net
