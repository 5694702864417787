#include "cli/plan_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace helix::cli {
namespace {

using std::chrono::milliseconds;

}  // namespace

PlanProgressLine::PlanProgressLine()
    : began_(std::chrono::steady_clock::now()),
      shown_(began_),
      terminal_(isatty(STDERR_FILENO) != 0) {}

PlanProgressLine::~PlanProgressLine() {
    interrupt();
}

void PlanProgressLine::interrupt() {
    if (drawn_ && terminal_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
}

void PlanProgressLine::update(const plan::PlanProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (now - began_ < std::chrono::seconds(1)) return;
    if (now - shown_ < (terminal_ ? milliseconds(100) : milliseconds(10'000))) return;
    shown_ = now;
    drawn_ = true;
    std::string line = fmt::format(
        "{:>3.0f} s  {}", std::chrono::duration<double>(now - began_).count(), progress.phase);
    if (progress.flow_tokens_per_s > 0) {
        line += fmt::format("  flow {:.0f}", progress.flow_tokens_per_s);
        if (progress.bound_tokens_per_s > 0) {
            const double gap = 1 - progress.flow_tokens_per_s / progress.bound_tokens_per_s;
            line += fmt::format(" of at most {:.0f} (gap {:.1f} %)", progress.bound_tokens_per_s,
                                std::max(0.0, gap) * 100);
        }
    }
    std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
}

}  // namespace helix::cli
