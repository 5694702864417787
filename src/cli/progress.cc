#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace helix::cli {
namespace {

using std::chrono::milliseconds;
constexpr int kBarWidth = 30;

std::size_t terminal_columns() {
    winsize size = {};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
    return known ? size.ws_col : 80;
}

}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), began_(std::chrono::steady_clock::now()), shown_(began_) {}

ProgressLine::~ProgressLine() {
    if (drawn_ && isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
}

void ProgressLine::update(std::uint64_t done, std::uint64_t total) {
    if (total > 0) update(done, total, nullptr);
}

void ProgressLine::interrupt() {
    if (drawn_ && isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
    drawn_ = false;
}

void ProgressLine::update(std::uint64_t done, std::uint64_t total,
                          const std::function<std::string()>& note) {
    const auto now = std::chrono::steady_clock::now();
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (now - began_ < std::chrono::seconds(2)) return;
    if (drawn_ && now - shown_ < (terminal ? milliseconds(100) : milliseconds(10000))) return;
    shown_ = now;
    drawn_ = true;
    const double share =
        total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
    const std::string text = note ? note() : "";
    if (!terminal) {
        std::string line = what_ + ":";
        if (total > 0) line += fmt::format(" {:.0f} %{}", share * 100, note ? "," : "");
        std::fprintf(stderr, "%s\n", (note ? line + " " + text : line).c_str());
        return;
    }
    const int full = static_cast<int>(share * kBarWidth);
    std::string bar(static_cast<std::size_t>(full), '#');
    bar.resize(kBarWidth, '.');
    const std::string percent = fmt::format(" {:3.0f} % {}", share * 100, text);
    std::string line = what_ + (total > 0 ? " [" + bar + "]" + percent : " " + text);
    const std::size_t columns = terminal_columns();
    if (line.size() >= columns && total > 0) line = what_ + percent;
    if (line.size() >= columns) line.resize(columns - 1);  // a second line could not be taken away
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
    std::fflush(stderr);
}

}  // namespace helix::cli
