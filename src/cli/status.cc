// helix status, helix top

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <poll.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>

#include <fmt/format.h>

#include "base/escape.h"
#include "cli/cluster_report.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/server_client.h"

namespace helix::cli {
namespace {

struct StatusArguments {
    ServerArguments server;
    bool json = false;
    double interval_s = 1;
};

constexpr std::chrono::milliseconds kBetweenLooks{700};  // that status measures rates by
constexpr double kRatesOver_s = 5;

bool colours() {
    return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

base::Status show_status(const StatusArguments& a) {
    TRY(ServerClient server, ServerClient::connect(a.server));
    TRY(const nlohmann::json before, server.ask("GET", "/helix/cluster"));
    if (a.json) {
        std::printf("%s\n", before.dump().c_str());
        return base::Ok{};
    }
    ::poll(nullptr, 0, static_cast<int>(kBetweenLooks.count()));
    TRY(const nlohmann::json now, server.ask("GET", "/helix/cluster"));
    view::ShownCluster cluster = cluster_report(server.url(), now, before);
    cluster.requests.clear();
    std::fputs(view::cluster_text(cluster, colours()).c_str(), stdout);
    return base::Ok{};
}

// The terminal while a program draws on all of it: another screen, no cursor, keys at once.
class FullScreen {
  public:
    FullScreen() {
        terminal_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
        if (terminal_) {
            termios keys = before_;
            keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
            ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
        }
        std::fputs("\x1b[?1049h\x1b[?25l", stdout);
    }
    ~FullScreen() {
        std::fputs("\x1b[?25h\x1b[?1049l", stdout);
        std::fflush(stdout);
        if (terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    FullScreen(const FullScreen&) = delete;
    FullScreen& operator=(const FullScreen&) = delete;

    static std::size_t lines() {
        winsize size{};
        const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
        return known ? size.ws_row : 24;
    }
    static void draw(const std::string& text) {
        std::string out = "\x1b[H";
        for (const char c : text) {
            if (c == '\n') out += "\x1b[K";  // what was there before
            out += c;
        }
        std::fputs((out + "\x1b[J").c_str(), stdout);
        std::fflush(stdout);
    }
    // Waits so long, or until 'q' is pressed, which is true.
    bool quits_within(std::chrono::milliseconds time) const {
        if (!terminal_) return ::poll(nullptr, 0, static_cast<int>(time.count())) < 0;
        const auto until = std::chrono::steady_clock::now() + time;
        while (true) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                until - std::chrono::steady_clock::now());
            if (left.count() <= 0) return false;
            pollfd keys{STDIN_FILENO, POLLIN, 0};
            if (::poll(&keys, 1, static_cast<int>(left.count())) <= 0) return false;
            char key = 0;
            if (::read(STDIN_FILENO, &key, 1) != 1 || key == 'q') return true;
        }
    }

  private:
    bool terminal_ = false;
    termios before_{};
};

// What the server said in the last seconds.
class Looks {
  public:
    // The picture of what it says now, or of what it said last and why it says nothing.
    std::string picture(ServerClient& server, std::optional<std::size_t> lines) {
        auto now = server.ask("GET", "/helix/cluster");
        if (!now.ok()) {
            looks_.clear();
            return fmt::format("{}\n", base::escaped(now.error().message));
        }
        looks_.push_back(std::move(now).value());
        while (looks_.size() > 2 && seconds_since(looks_[1]) >= kRatesOver_s) looks_.pop_front();
        const nlohmann::json before = looks_.size() > 1 ? looks_.front() : nlohmann::json();
        return view::cluster_text(cluster_report(server.url(), looks_.back(), before), colours(),
                                  lines);
    }

  private:
    double seconds_since(const nlohmann::json& look) const {
        const auto time = [](const nlohmann::json& one) {
            const auto found = one.find("time_s");
            return found != one.end() && found->is_number() ? found->get<double>() : 0.0;
        };
        return time(looks_.back()) - time(look);
    }
    std::deque<nlohmann::json> looks_;
};

base::Status show_top(const StatusArguments& a) {
    if (a.interval_s < 0.1 || a.interval_s > 3600) {
        return base::invalid("--interval: from 0.1 to 3600 seconds");
    }
    TRY(ServerClient server, ServerClient::connect(a.server));
    TRY_VOID(server.ask("GET", "/helix/cluster"));  // a wrong address ends it at once
    const std::chrono::milliseconds interval{static_cast<std::int64_t>(1000 * a.interval_s)};
    Looks looks;
    if (::isatty(STDOUT_FILENO) != 1) {
        while (std::ferror(stdout) == 0) {
            std::printf("%s\n", looks.picture(server, {}).c_str());
            std::fflush(stdout);
            ::poll(nullptr, 0, static_cast<int>(interval.count()));
        }
        return base::Ok{};
    }
    std::atomic<bool> stopped = false;
    const Interrupt interrupt([&stopped] { stopped = true; });
    const FullScreen screen;
    constexpr std::chrono::milliseconds kStep{100};  // after which a signal is heard
    while (!stopped) {
        // The last line is left empty: it says how to leave.
        const std::size_t lines = std::max<std::size_t>(FullScreen::lines(), 4) - 2;
        FullScreen::draw(looks.picture(server, lines) + "\nq ends it");
        for (auto waited = kStep; !stopped && waited <= interval; waited += kStep) {
            if (screen.quits_within(kStep)) stopped = true;
        }
    }
    return base::Ok{};
}

}  // namespace

void add_status(App& app) {
    CLI::App* status =
        app.parser.add_subcommand("status", "A cluster that serves: machines, layers, rates, plan");
    auto a = std::make_shared<StatusArguments>();
    add_server_options(*status, a->server);
    status->add_flag("--json", a->json, "what the server says, as one JSON object");
    status->footer(
        "Examples:\n  helix status\n  helix status --server http://hall:8080 --api-key KEY");
    status->callback([&app, a] { app.action = [a] { return show_status(*a); }; });
}

void add_top(App& app) {
    CLI::App* top = app.parser.add_subcommand(
        "top", "The same again and again, with the last requests, until 'q' is pressed");
    auto a = std::make_shared<StatusArguments>();
    add_server_options(*top, a->server);
    top->add_option("--interval", a->interval_s, "seconds between two looks")
        ->capture_default_str();
    top->footer("Examples:\n  helix top\n  helix top --server http://hall:8080 --interval 5");
    top->callback([&app, a] { app.action = [a] { return show_top(*a); }; });
}

}  // namespace helix::cli
