#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace helix::cli {
namespace {

using std::chrono::milliseconds;
constexpr int kBarWidth = 30;

}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), began_(std::chrono::steady_clock::now()), shown_(began_) {}

ProgressLine::~ProgressLine() {
    if (drawn_ && isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
}

void ProgressLine::update(std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (now - began_ < std::chrono::seconds(2) || total == 0) return;
    if (drawn_ && now - shown_ < (terminal ? milliseconds(100) : milliseconds(10000))) return;
    shown_ = now;
    drawn_ = true;
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    if (!terminal) {
        std::fprintf(stderr, "%s: %.0f %%\n", what_.c_str(), share * 100);
        return;
    }
    const int full = static_cast<int>(share * kBarWidth);
    std::string bar(static_cast<std::size_t>(full), '#');
    bar.resize(kBarWidth, '.');
    std::fprintf(stderr, "\r%s [%s] %3.0f %%", what_.c_str(), bar.c_str(), share * 100);
    std::fflush(stderr);
}

}  // namespace helix::cli
