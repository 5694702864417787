#include "core/coordinator/prompt_window.h"

#include <algorithm>

namespace helix::core {
namespace {

constexpr double kWindowGain = 0.5;     // of the way to Little's law, per window of prompts
constexpr double kMostFaster = 2;       // a prompt quicker than target / kMostFaster says no more
constexpr double kWindowMeanOver = 32;  // the mean is over this many prompts
constexpr double kLeastPrompts = 2;
constexpr double kRowsPerWorker = 128;

}  // namespace

void PromptWindow::set_workers(std::int64_t count) {
    least_rows_ = kRowsPerWorker * static_cast<double>(count);
}

void PromptWindow::start(std::int64_t rows) {
    in_flight_ += rows;
    const auto n = static_cast<double>(rows);
    mean_rows_ = mean_rows_ > 0 ? mean_rows_ + (n - mean_rows_) / kWindowMeanOver : n;
}

void PromptWindow::finish(std::int64_t rows, Duration took) {
    in_flight_ -= rows;
    const double pace =
        took.ns > 0 ? std::min(target_.seconds() / took.seconds(), kMostFaster) : kMostFaster;
    if (pace < 1 || blocked_) rows_ += kWindowGain * static_cast<double>(rows) * (pace - 1);
    rows_ = std::max(rows_, std::max(least_rows_, kLeastPrompts * mean_rows_));
    blocked_ = false;
}

}  // namespace helix::core
