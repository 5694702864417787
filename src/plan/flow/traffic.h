#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/cluster_spec.h"
#include "spec/layer_range.h"
#include "spec/placement.h"

namespace helix::plan {

// How requests spread over a placement: what routing by flow weights (the max-flow scheduler) does
// in the long run. Only the ratios of the flows that leave one place matter.
struct Traffic {
    struct Hop {
        std::int32_t from = 0;  // a stage; -1 = the coordinator
        std::int32_t to = 0;
        std::int32_t link = 0;   // index into ClusterSpec::links
        double share = 0;        // of all requests
        double of_sender = 0;    // of those that pass `from`
        double of_receiver = 0;  // of those that pass `to`
    };
    struct Stage {
        std::int32_t node = 0;
        double share = 0;   // of all requests
        double layers = 0;  // that a request runs here, on average
        std::int32_t held = 0;
        std::uint32_t first_out = 0;  // its hops are [first_out, last_out)
        std::uint32_t last_out = 0;
    };

    std::vector<Stage> stages;           // along every hop the stage number rises
    std::vector<Hop> hops;               // by sender, the coordinator's first
    std::vector<std::int32_t> stage_of;  // [node]; -1 = not used
    double depth = 0;                    // stages of a request, on average
};

class TrafficBuilder {
  public:
    explicit TrafficBuilder(const spec::ClusterSpec& cluster);

    // Hops with less than least_share of what leaves their sender are left out. False when some of
    // what enters cannot get through all layers: traffic is not valid then. flows: along valid hops
    // of the placement and existing links. Reuses the memory of traffic.
    bool build(std::span<const spec::LayerRange> layers, std::int32_t n_layers,
               std::span<const spec::LinkFlow> flows, double least_share, Traffic& traffic) const;

    // Index into ClusterSpec::links, -1 where there is none.
    std::int32_t link_index(std::int32_t from, std::int32_t to) const {
        return link_index_[static_cast<std::size_t>(from + 1) * (n_nodes_ + 1) +
                           static_cast<std::size_t>(to + 1)];
    }

  private:
    void add_stages(std::span<const spec::LayerRange> layers, std::span<const spec::LinkFlow> flows,
                    Traffic& traffic) const;

    std::size_t n_nodes_;
    std::vector<std::int32_t> link_index_;
};

}  // namespace helix::plan
