#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/coordinator/freeness.h"

namespace helix::core {

struct AutoScaleConfig {
    // Freeness of the nodes together, in tokens: below low a node is added, above high one is
    // stopped. Nodes take their time to come: at 64 a rush is there before them (experiment
    // auto-scaling).
    double low = 512;
    double high = 1024;
    Duration hold = base::from_seconds(10);            // it must be outside for so long,
    Duration hold_down = base::from_seconds(60);       // or, for the first stop of several, so long
    Duration cool_down = base::from_seconds(30);       // after a node came or went
    Duration start_timeout = base::from_seconds(300);  // then a node that was asked for is not
                                                       // waited for any more
    std::int32_t min_nodes = 1;
    std::int32_t max_nodes = 1;
};

struct ScaleNode {
    WorkerId worker;
    NodeLoad load;
};

struct ScaleView {
    std::vector<ScaleNode> nodes;  // that serve, the draining ones too
    // Is the cluster whole without this worker: could the layers be held by the others?
    std::vector<char> spare;  // by index in nodes
};

struct ScaleDecision {
    bool add = false;
    WorkerId stop;  // if not add
};

// When nodes are added and stopped, by the freeness that each would have if they
// shared all load evenly. (Llumnix takes the mean of what each has. One empty node, as one that has
// just come is, has hundreds of times the freeness of a busy one and hides ten that are full.)
//
// So many are asked for as bring freeness back to low, without waiting for the first of them. Stops
// are one at a time, each when the last is seen and the cool-down is over: hold_down only for the
// first, for as long as freeness stays above high, so that a load that falls for an hour is
// followed.
//
// It does not flap: a node is stopped only if the others, taking over its load, stay a quarter of
// the way from low to high above low; so the load that a stop leaves behind never adds one at once.
class AutoScaler {
  public:
    explicit AutoScaler(const AutoScaleConfig& config);
    // Several times a second. A decision is made once: the caller carries it out.
    std::optional<ScaleDecision> step(TimePoint now, const ScaleView& view);
    // The node that was asked for will not come.
    void could_not(TimePoint now);

  private:
    std::optional<ScaleDecision> least_loaded(TimePoint now, const ScaleView& view);

    AutoScaleConfig config_;
    std::optional<TimePoint> low_since_;
    std::optional<TimePoint> high_since_;
    std::optional<TimePoint> changed_;  // the number of nodes, or a decision
    std::size_t serving_ = 0;           // at the last step
    bool stopping_ = false;             // one was told to go and is still seen
    bool starting_ = false;
    std::size_t expected_ = 0;  // so many serve once what was asked for is there
};

}  // namespace helix::core
