#pragma once

#include "base/result.h"
#include "cli/simulate_load.h"
#include "sim/published/reference_setup.h"
#include "sim/throughput/helix_run.h"
#include "sim/throughput/peak_search.h"

// The peak of a simulated cluster, with a line on the terminal that says how the search gets on.

namespace helix::cli {

base::Result<sim::Peak> search_peak(const sim::HelixSetup& setup);
base::Result<sim::Peak> search_peak(const sim::ReferenceSetup& setup);

// Where the load is a share of the peak: searches it and sets the rate. The peak, 0 if it was not
// needed. Setup: one that is under this load.
template <typename Setup>
base::Result<double> load_from_peak(const SimulatedLoad& load, Setup& setup) {
    if (load.peak_share <= 0) return 0.0;
    TRY(const sim::Peak peak, search_peak(setup));
    sim::set_rate(*setup.online, load.peak_share * peak.tokens_per_s);
    return peak.tokens_per_s;
}

// For standard output.
std::string peak_json(const sim::Peak& peak);
std::string peak_text(const sim::Peak& peak);

}  // namespace helix::cli
