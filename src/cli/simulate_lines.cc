#include "cli/simulate_lines.h"

#include <fmt/format.h>

namespace helix::cli {

void SimulationLines::show_peak(const sim::PeakProgress& progress) {
    if (progress.run != run_) {
        line_.reset();  // wipes it
        line_.emplace(progress.tokens_per_s > 0
                          ? fmt::format("searching the peak, run {}: {:.0f} tokens/s", progress.run,
                                        progress.tokens_per_s)
                          : std::string("searching the peak, offline"));
        run_ = progress.run;
    }
    constexpr std::uint64_t kParts = 1000;
    line_->update(static_cast<std::uint64_t>(progress.share_done * kParts), kParts);
}

void SimulationLines::show_run(double done_s, double total_s) {
    if (!running_) {
        line_.reset();
        line_.emplace("simulating");
        running_ = true;
    }
    line_->update(static_cast<std::uint64_t>(done_s), static_cast<std::uint64_t>(total_s));
}

lab::SimulationProgress SimulationLines::progress() {
    return {[this](const sim::PeakProgress& progress) { show_peak(progress); },
            [this](double done_s, double total_s) { show_run(done_s, total_s); }};
}

}  // namespace helix::cli
