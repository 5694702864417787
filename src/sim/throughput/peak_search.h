#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "sim/load/load.h"
#include "sim/published/reference_setup.h"
#include "sim/throughput/helix_run.h"

// The highest load that a cluster sustains, found by trying: what "75 % of peak" is a share of.

namespace helix::sim {

// Offered rates count prompt and output tokens of the requests that come, served ones those of the
// prompts and decodes done. A rate is sustained when at least `keeps_up` of it is served: what is
// left undone then grows by no more than the rest.
struct PeakRules {
    double keeps_up = 0.97;
    double precision = 0.02;  // of the result: the next higher rate tried was not sustained
    std::int32_t most_runs = 24;
};

struct Peak {
    double tokens_per_s = 0;         // the highest offered rate found to be sustained
    double served_tokens_per_s = 0;  // at that rate
    std::int32_t runs = 0;
};

// tokens/s served when so many are offered.
using ServedAtRate = std::function<base::Result<double>(double offered_tokens_per_s)>;

// Bisection between a rate that is sustained and one that is not, found from first_guess (above 0),
// the better the fewer runs. Errors: served()'s; no rate is sustained, or every one is.
base::Result<Peak> find_peak(double first_guess, const ServedAtRate& served,
                             const PeakRules& rules = {});

// Requests at one constant rate whose lengths run evenly through all of `lengths`, so that any
// stretch of time is offered the same: what a peak is measured with. It is then a figure of the
// cluster and the lengths, whatever bursts it is later put under.
OnlineLoad even_load(const LengthSource& lengths, double tokens_per_s, double duration_s);

// Told before every run which one begins, and within it how far it is.
struct PeakProgress {
    std::int32_t run = 0;     // from 1; the first is offline
    double tokens_per_s = 0;  // offered; 0 = offline
    double share_done = 0;
};
using PeakWatch = std::function<void(const PeakProgress&)>;

// The peak of a setup, under even_load() of its lengths; its own load, window and observer do not
// matter. The first guess is what an offline run serves. A run warms up for as long as all but the
// longest answers take offline (1 min to 1 h), and counts for half that time (1 to 10 min). A run
// whose KV memory overflows sustains nothing.
base::Result<Peak> find_peak(const HelixSetup& setup, const PeakWatch& watch = {},
                             const PeakRules& rules = {});
base::Result<Peak> find_peak(const ReferenceSetup& setup, const PeakWatch& watch = {},
                             const PeakRules& rules = {});

}  // namespace helix::sim
