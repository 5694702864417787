#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/coordinator/freeness.h"

namespace helix::core {

struct AutoScaleConfig {
    // The freeness of all nodes together, in tokens: below low a node is added, above high one is
    // stopped. Nodes take their time to come, and with a low of 512 new ones are there before a
    // rush has filled the old ones, which with 64 they are not (experiment auto-scaling).
    double low = 512;
    double high = 1024;
    // Freeness must be outside for this long, or for hold_down before the first of several stops.
    Duration hold = base::from_seconds(10);
    Duration hold_down = base::from_seconds(60);
    // Nothing is decided for this long after a node came or went.
    Duration cool_down = base::from_seconds(30);
    // A node that was asked for is waited for this long.
    Duration start_timeout = base::from_seconds(300);
    std::int32_t min_nodes = 1;
    std::int32_t max_nodes = 1;
};

struct ScaleNode {
    WorkerId worker;
    NodeLoad load;
};

struct ScaleView {
    std::vector<ScaleNode> nodes;  // nodes that serve, those that drain included
    // Says of each node whether the others could hold all layers without it.
    std::vector<char> spare;  // by index in nodes
};

struct ScaleDecision {
    bool add = false;
    WorkerId stop;  // the node to stop, if add is false
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
    // Is called several times a second. Each decision is returned once, and the caller carries it
    // out.
    std::optional<ScaleDecision> step(TimePoint now, const ScaleView& view);
    // The node that was asked for will not come.
    void could_not(TimePoint now);

  private:
    std::optional<ScaleDecision> least_loaded(TimePoint now, const ScaleView& view);

    AutoScaleConfig config_;
    std::optional<TimePoint> low_since_;
    std::optional<TimePoint> high_since_;
    // When the number of nodes last changed, or the last decision
    std::optional<TimePoint> changed_;
    std::size_t serving_ = 0;  // nodes that served at the last step
    bool stopping_ = false;    // a node was told to go and is still here
    bool starting_ = false;
    // This many nodes serve once those that were asked for are here.
    std::size_t expected_ = 0;
};

}  // namespace helix::core
