#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sim/cluster/carrier.h"
#include "sim/cluster/virtual_clock.h"
#include "sim/throughput/modelled_network.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

namespace helix::sim {

// Carries messages over modelled NICs, links and trunks: all arrive, in as long as their bytes
// take.
class ModelledCarrier final : public Carrier {
  public:
    struct Journey {
        double bytes = 0;
        base::TimePoint posted;
        Passage passage;
    };
    // All must outlive it.
    ModelledCarrier(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                    VirtualClock& clock)
        : model_(model), clock_(clock), network_(cluster) {}

    void send(SimMessage message) override;
    // Is called with each message that arrives, before it is received.
    void set_watch(std::function<void(const SimMessage&, const Journey&)> watch) {
        watch_ = std::move(watch);
    }

  private:
    struct Carried {
        SimMessage message;
        Journey journey;
    };
    double bytes_of(const SimMessage& message) const;
    void prepare(std::uint32_t slot, int step) const;
    void arrive(std::uint32_t slot);

    const spec::ModelSpec& model_;
    VirtualClock& clock_;
    ModelledNetwork network_;
    std::vector<Carried> carried_;  // by slot
    std::vector<std::uint32_t> free_slots_;
    std::function<void(const SimMessage&, const Journey&)> watch_;
};

}  // namespace helix::sim
