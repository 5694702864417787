#include "plan/milp/milp_stop.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace helix::plan {

const char* to_string(MilpStop stop) {
    switch (stop) {
        case MilpStop::finished:
            return "finished";
        case MilpStop::near_bound:
            return "near the bound";
        case MilpStop::no_gain:
            return "good enough and no gain";
        case MilpStop::idle:
            return "nothing better for too long";
        case MilpStop::time_limit:
            return "time limit";
        case MilpStop::asked:
            return "asked to stop";
    }
    return "?";
}

MilpWatch::MilpWatch(const MilpStopOptions& options, double upper_bound)
    : options_(options),
      upper_bound_(upper_bound),
      started_s_(options_.now_s ? options_.now_s() : 0) {}

double MilpWatch::seconds() const {
    return options_.now_s ? options_.now_s() - started_s_ : 0;
}

bool MilpWatch::stop(double best, double bound) {
    if (std::isfinite(bound)) upper_bound_ = std::min(upper_bound_, bound);
    const double before = incumbents_.empty() ? 0 : incumbents_.back().tokens_per_s;
    // A start of flow 0 is an incumbent too; later ones count from a millionth better.
    if (std::isfinite(best) && (incumbents_.empty() || best > before * (1 + 1e-6) + 1e-6)) {
        incumbents_.push_back({best, seconds()});
    }
    if (reason_ == MilpStop::finished) reason_ = check();
    return reason_ != MilpStop::finished;
}

MilpStop MilpWatch::check() const {
    if (options_.asked && options_.asked()) return MilpStop::asked;
    const double now = seconds();
    if (options_.now_s && options_.time_limit_s > 0 && now >= options_.time_limit_s)
        return MilpStop::time_limit;
    const double last_gain_s = incumbents_.empty() ? 0 : incumbents_.back().seconds;
    if (options_.now_s && options_.idle_s > 0 && now - last_gain_s >= options_.idle_s)
        return MilpStop::idle;
    if (incumbents_.empty()) return MilpStop::finished;
    const MilpIncumbent& last = incumbents_.back();
    if (options_.near_bound > 0 && last.tokens_per_s >= options_.near_bound * upper_bound_)
        return MilpStop::near_bound;
    if (options_.now_s && options_.good_enough > 0 && options_.no_gain_s > 0 &&
        last.tokens_per_s >= options_.good_enough * upper_bound_ &&
        now - last.seconds >= options_.no_gain_s) {
        return MilpStop::no_gain;
    }
    return MilpStop::finished;
}

}  // namespace helix::plan
