#pragma once

#include <cstdint>
#include <optional>

#include "core/protocol/messages.h"
#include "spec/cluster_spec.h"

// Does a machine compute slower than it did?

namespace helix::core {

struct SlowdownConfig {
    double factor = 2;  // so many times as slow as usual is slow; 0 = nobody is
    double back = 1.3;  // and at most so many times is as usual again
    Duration lasting = base::from_seconds(10);  // either must last so long
};

// Of one worker with the layers it has. What batches take is compared with what the node's own
// measurements say of batches of that size, and that ratio with what it usually is: contexts,
// neighbours and the engine's habits are in both.
class SlowdownWatch {
  public:
    // True if factor() has changed. Nothing is learned from a node without measurements.
    bool observe(TimePoint now, const WorkerReport& report, const spec::NodeSpec& node,
                 std::int32_t n_layers, const SlowdownConfig& config);
    // It has other layers: what is usual with them is learned anew, unless it is slow now.
    void learn_anew();
    double factor() const { return factor_; }  // so many times as slow as usual; 1 = as usual

  private:
    bool judge(TimePoint now, double ratio, const SlowdownConfig& config);

    std::optional<WorkerReport> from_;  // where the present window begins
    double usual_ = 0;
    int samples_ = 0;
    double factor_ = 1;
    std::optional<TimePoint> since_;  // samples speak for the other state
    double sum_ = 0;                  // of these
    int count_ = 0;
};

// The node as it computes now.
spec::NodeSpec slowed(spec::NodeSpec node, double factor);

}  // namespace helix::core
