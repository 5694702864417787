#include "engine/measure/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <vector>

namespace helix::engine::measure {
namespace {

using TimingClock = std::chrono::steady_clock;

constexpr double kRun_s = 0.02;  // at least, of one run
// For so long, or the budget where that is less, runs do not count: the clock of a card that has
// waited rises while it works.
constexpr double kWarm_s = 0.3;
constexpr std::int64_t kMostCalls = 4096;
constexpr std::size_t kMostRuns = 15;
constexpr std::size_t kLeastRuns = 3;

double seconds_from(TimingClock::time_point began) {
    return std::chrono::duration<double>(TimingClock::now() - began).count();
}

}  // namespace

base::Result<Timing> time_calls(double budget_s,
                                const std::function<base::Status(std::int64_t n)>& calls) {
    TRY_VOID(calls(1));
    const auto warm = TimingClock::now();
    auto before = warm;
    TRY_VOID(calls(1));
    const double once_s = std::max(seconds_from(before), 1e-7);
    const auto n = static_cast<std::int64_t>(
        std::clamp(std::ceil(kRun_s / once_s), 1.0, static_cast<double>(kMostCalls)));
    while (seconds_from(warm) < std::min(kWarm_s, budget_s)) TRY_VOID(calls(n));
    const auto began = TimingClock::now();
    std::vector<double> seconds;
    while (seconds.size() < kMostRuns) {
        const double spent_s = seconds_from(began);
        const bool slow = spent_s > budget_s;
        // A call that takes longer than the budget alone is measured by one.
        if (slow && (seconds.size() >= kLeastRuns || (!seconds.empty() && once_s > budget_s)))
            break;
        before = TimingClock::now();
        TRY_VOID(calls(n));
        seconds.push_back(seconds_from(before) / static_cast<double>(n));
    }
    std::sort(seconds.begin(), seconds.end());
    const std::size_t count = seconds.size();
    Timing timing;
    timing.seconds = seconds[count / 2];
    timing.spread = (seconds[count * 3 / 4] - seconds[count / 4]) / 2 / timing.seconds;
    timing.runs = static_cast<int>(count);
    return timing;
}

base::Status wait_for(Device& device, const Buffer& buffer) {
    const auto read = device.read(buffer, 0, 1);
    if (!read.ok()) return read.error();
    return base::Ok{};
}

}  // namespace helix::engine::measure
