#pragma once

#include <functional>
#include <vector>

namespace helix::plan {

// When a running MILP search is good enough, the paper's third speed-up of its program; the
// defaults of all but idle_s are those of its artifact. Each criterion has its own switch: a value
// of 0 or less turns it off. Seconds are those of `now_s`.
struct MilpStopOptions {
    double near_bound = 0.995;           // stop at best >= near_bound * upper bound
    double good_enough = 0.95;           // stop at best >= good_enough * upper bound ...
    double no_gain_s = 100;              // ... once nothing better came for so long
    double idle_s = 0;                   // stop once nothing better came for so long, however good
    double time_limit_s = 36'000;        // stop after so long
    std::function<double()> now_s = {};  // a clock; without one only near_bound can fire
    std::function<bool()> asked = {};    // the caller's own reason (a deadline, Ctrl-C)
};

enum class MilpStop { finished, near_bound, no_gain, idle, time_limit, asked };
const char* to_string(MilpStop stop);

// A better solution and when it came, in seconds since the start.
struct MilpIncumbent {
    double tokens_per_s = 0;
    double seconds = 0;
};

// Follows a search through the solver's `stop` calls.
class MilpWatch {
  public:
    // upper_bound: of the flow; the solver's own bound counts too once it is lower.
    MilpWatch(const MilpStopOptions& options, double upper_bound);
    bool stop(double best, double bound);

    MilpStop reason() const { return reason_; }  // finished unless stop() has returned true
    const std::vector<MilpIncumbent>& incumbents() const { return incumbents_; }
    double seconds() const;  // since the start

  private:
    MilpStop check() const;

    MilpStopOptions options_;
    double upper_bound_;
    double started_s_;
    std::vector<MilpIncumbent> incumbents_;
    MilpStop reason_ = MilpStop::finished;
};

}  // namespace helix::plan
