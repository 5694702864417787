#pragma once

#include <cstdint>
#include <optional>

#include "core/protocol/messages.h"
#include "spec/cluster_spec.h"

// This tells whether a machine computes slower than it did.

namespace helix::core {

struct SlowdownConfig {
    double factor = 2;  // a machine this many times as slow is slow; 0: none is
    double back = 1.3;  // at most this many times as slow is usual again
    Duration lasting = base::from_seconds(10);  // either must last this long
};

// SlowdownWatch watches one worker with the layers it has. It compares what batches take with what
// the node's own measurements say of batches of that size, and that ratio with what it usually is:
// contexts, neighbours and the engine's habits are in both.
class SlowdownWatch {
  public:
    // Returns true if factor() has changed. Nothing is learned from a node without measurements.
    bool observe(TimePoint now, const WorkerReport& report, const spec::NodeSpec& node,
                 std::int32_t n_layers, const SlowdownConfig& config);
    // The worker has other layers. What is usual with them is learned anew, unless it is slow now.
    void learn_anew();
    // The worker is this many times as slow as usual; 1 = it is as usual.
    double factor() const { return factor_; }

  private:
    bool judge(TimePoint now, double ratio, const SlowdownConfig& config);

    std::optional<WorkerReport> from_;  // where the present window begins
    double usual_ = 0;
    int samples_ = 0;
    double factor_ = 1;
    std::optional<TimePoint> since_;  // since then samples speak for the other state
    double sum_ = 0;                  // the sum of these samples
    int count_ = 0;
};

// Returns the node as it computes now.
spec::NodeSpec slowed(spec::NodeSpec node, double factor);

}  // namespace helix::core
