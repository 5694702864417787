#pragma once

#include <cstdint>
#include <optional>

#include "cli/progress.h"
#include "lab/simulation/simulation.h"
#include "sim/throughput/peak_search.h"

// How `helix simulate` gets on, for terminals.

namespace helix::cli {

// One line of progress for each run of a search for the peak, then one for the run itself; the last
// is wiped when this goes.
class SimulationLines {
  public:
    // Must not outlive this.
    lab::SimulationProgress progress();

  private:
    void show_peak(const sim::PeakProgress& progress);
    void show_run(double done_s, double total_s);

    std::int32_t run_ = 0;  // of the search
    bool running_ = false;
    std::optional<ProgressLine> line_;
};

}  // namespace helix::cli
