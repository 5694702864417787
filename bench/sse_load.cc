// rooms: api net
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "../tests/api/timed_service.h"
#include "api/api_server.h"
#include "net/open_files.h"
#include "net/sse.h"

// How many streams one server thread feeds, how evenly, and at what cost: the real API server with
// a model that says a byte at a fixed interval in one process, a client with N streams in another.
// --url measures a server that runs already (then without CPU and memory).

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using helix::net::SseParser;
using tcp = asio::ip::tcp;

struct Options {
    int streams = 2000;
    int events = 60;
    int interval_ms = 100;
    std::string host = "127.0.0.1";
    int port = 0;  // 0 = a server of our own
};

struct Totals {
    std::vector<double> connect_ms;
    std::vector<double> first_ms;
    std::vector<double> gap_ms;
    std::int64_t events = 0;
    int complete = 0;
    int failed = 0;
};

double ms_between(Clock::time_point a, Clock::time_point b) {
    return std::chrono::duration<double, std::milli>(b - a).count();
}

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    Stream(asio::io_context& io, const Options& options, Totals& totals)
        : socket_(io),
          options_(options),
          totals_(totals),
          parser_([this](std::string_view data) { on_event(data); }) {}

    void start() {
        begun_ = Clock::now();
        const tcp::endpoint server(asio::ip::make_address(options_.host),
                                   static_cast<std::uint16_t>(options_.port));
        socket_.async_connect(server, [self = shared_from_this()](const error_code& ec) {
            if (ec) return self->fail();
            self->totals_.connect_ms.push_back(ms_between(self->begun_, Clock::now()));
            self->send();
        });
    }

  private:
    void send() {
        const std::string body = fmt::format(
            R"({{"stream":true,"ignore_eos":true,"max_tokens":{},"messages":[{{"role":"user","content":"go"}}]}})",
            options_.events);
        request_ = fmt::format(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n"
            "content-length: {}\r\nconnection: close\r\n\r\n{}",
            options_.host, body.size(), body);
        asio::async_write(socket_, asio::buffer(request_),
                          [self = shared_from_this()](const error_code& ec, std::size_t) {
                              if (ec) return self->fail();
                              self->receive();
                          });
    }
    void receive() {
        socket_.async_read_some(asio::buffer(buffer_),
                                [self = shared_from_this()](const error_code& ec, std::size_t n) {
                                    if (ec) return self->done_ ? void() : self->fail();
                                    // Chunk framing has line ends of its own, which the parser
                                    // takes for lines that it does not know.
                                    self->parser_.push(std::string_view(self->buffer_.data(), n));
                                    if (!self->done_) self->receive();
                                });
    }
    void on_event(std::string_view data) {
        const auto now = Clock::now();
        if (data == "[DONE]") {
            done_ = true;
            ++totals_.complete;
            return;
        }
        if (data.find("\"content\":\"") == std::string_view::npos ||
            data.find("\"role\"") != std::string_view::npos) {
            return;
        }
        ++totals_.events;
        if (seen_++ == 0) {
            totals_.first_ms.push_back(ms_between(begun_, now));
        } else {
            totals_.gap_ms.push_back(ms_between(last_, now));
        }
        last_ = now;
    }
    void fail() { ++totals_.failed; }

    tcp::socket socket_;
    const Options& options_;
    Totals& totals_;
    SseParser parser_;
    std::string request_;
    std::array<char, 4096> buffer_{};
    Clock::time_point begun_;
    Clock::time_point last_;
    int seen_ = 0;
    bool done_ = false;
};

std::string percentiles(std::vector<double>& values) {
    if (values.empty()) return "-";
    std::sort(values.begin(), values.end());
    const auto at = [&](double q) {
        return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
    };
    return fmt::format("{:.1f} / {:.1f} / {:.1f}", at(0.5), at(0.99), values.back());
}

// Tells its port through the pipe, then serves until the pipe's other end is closed.
int serve(const Options& options, int to_parent, int from_parent) {
    helix::net::raise_open_file_limit();
    helix::api::TimedService service(std::chrono::milliseconds(options.interval_ms),
                                     "The quick brown fox jumps over the lazy dog. ");
    helix::api::ApiOptions api;
    auto server = helix::api::ApiServer::start(std::move(api), helix::api::byte_model(service));
    const std::uint16_t port = server.ok() ? (*server)->port() : std::uint16_t{0};
    if (write(to_parent, &port, sizeof port) != sizeof port || port == 0) return 1;
    char byte = 0;
    while (read(from_parent, &byte, 1) > 0) {
    }
    return 0;
}

// The user and system seconds of a process so far, from /proc/PID/stat.
double cpu_seconds(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string skipped;
    for (int i = 3; i < 14; ++i) fields >> skipped;
    double user = 0;
    double system = 0;
    fields >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double rss_mb(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/statm", pid));
    double size = 0;
    double resident = 0;
    file >> size >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

int measure(const Options& options, pid_t server) {
    helix::net::raise_open_file_limit();
    asio::io_context io{1};
    Totals totals;
    const auto begun = Clock::now();
    for (int i = 0; i < options.streams; ++i)
        std::make_shared<Stream>(io, options, totals)->start();
    double peak_rss_mb = 0;
    const auto limit = std::chrono::milliseconds(options.events * options.interval_ms * 3 + 30000);
    while (totals.complete + totals.failed < options.streams && Clock::now() - begun < limit) {
        io.run_for(std::chrono::milliseconds(200));
        io.restart();
        if (server > 0) peak_rss_mb = std::max(peak_rss_mb, rss_mb(server));
    }
    const double seconds = ms_between(begun, Clock::now()) / 1e3;
    fmt::print("{} streams of {} events at {} ms: {} complete, {} failed, {:.1f} s\n",
               options.streams, options.events, options.interval_ms, totals.complete, totals.failed,
               seconds);
    fmt::print("connect  p50 / p99 / max ms: {}\n", percentiles(totals.connect_ms));
    fmt::print("first    p50 / p99 / max ms: {}\n", percentiles(totals.first_ms));
    fmt::print("gap      p50 / p99 / max ms: {}\n", percentiles(totals.gap_ms));
    if (server > 0 && totals.events > 0) {
        fmt::print("server: {:.1f} us CPU an event (both threads), {:.0f} MB at most\n",
                   cpu_seconds(server) * 1e6 / static_cast<double>(totals.events), peak_rss_mb);
    }
    return totals.complete == options.streams ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Measures server-sent events under many streams");
    app.add_option("--streams", options.streams, "streams at once")->capture_default_str();
    app.add_option("--events", options.events, "tokens of each stream")->capture_default_str();
    app.add_option("--interval-ms", options.interval_ms, "between two tokens of a stream")
        ->capture_default_str();
    app.add_option("--host", options.host, "address of a server that runs already")
        ->capture_default_str();
    app.add_option("--port", options.port, "its port; 0 = start one")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    if (options.port != 0) return measure(options, 0);

    int up[2];
    int down[2];
    if (pipe(up) != 0 || pipe(down) != 0) return 1;
    const pid_t child = fork();
    if (child == 0) {
        close(up[0]);
        close(down[1]);
        _exit(serve(options, up[1], down[0]));
    }
    close(up[1]);
    close(down[0]);
    std::uint16_t port = 0;
    int status = 1;
    if (read(up[0], &port, sizeof port) == sizeof port && port != 0) {
        options.port = port;
        status = measure(options, child);
    }
    close(down[1]);
    waitpid(child, nullptr, 0);
    return status;
}
