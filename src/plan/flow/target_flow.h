#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/problem/problem.h"

namespace helix::plan {

// How far placements are from carrying a wanted flow, graded where the maximum flow is flat: the
// least cost of sending the wanted flow through the layer boundaries when a token may also
// * skip a layer that nobody serves it (1 per layer),
// * go back over layers it has already passed (1/2 per layer; free with partial inference, where
//   that is no fault),
// * go where no link with room leads (kLinkCost, in layers).
// Nodes between which no link can bind form groups; within one, a node is a single arc between two
// boundaries (with partial inference behind a vertex of its own that all boundaries of its range
// lead to), and only links between groups are arcs of their own. Primal-dual with potentials on
// integers (2^-20 tokens/s); nothing is allocated once the buffers have grown.
class TargetFlow {
  public:
    static constexpr double kNever = std::numeric_limits<double>::infinity();

    // The referenced objects must outlive this one. Convention::reference is met but for what NICs
    // that serve the coordinator alone carry more; trunks are not known here.
    TargetFlow(const Problem& problem, const FlowOptions& options);

    // The cost per unit of `target` tokens/s (> 0), in layers: 0 exactly if the placement's maximum
    // flow reaches it. As soon as the cost is known to lie above give_up, some value above give_up.
    double missing(std::span<const spec::LayerRange> layers, double target,
                   double give_up = kNever);

    // Remembers the prices (dual values) of the last placement that was judged to the end: most
    // worse ones are then refused by them alone.
    void keep_prices();

    std::int32_t n_groups() const { return n_groups_; }

  private:
    using Units = std::int64_t;
    struct Arc {
        std::int32_t to = 0;
        std::int32_t next = -1;  // of the same vertex
        std::int32_t cost = 0;   // in half layers
        Units room = 0;
    };

    void find_groups();
    bool wide(std::int32_t from, std::int32_t to) const;
    double fastest(std::int32_t node) const;
    double coverage_cost(std::span<const spec::LayerRange> layers, double target);

    void fill_prices(std::span<const spec::LayerRange> layers);
    Units start_from_prices(Units wanted, Units& left);
    std::int32_t final_price(std::int32_t v) const {
        const auto of = [this](std::int32_t u) {
            const auto k = static_cast<std::size_t>(u);
            return price_[k] + potential_[k];
        };
        return of(v) - of(source_);
    }
    Units node_units(std::int32_t i, spec::LayerRange range) const;
    void build(std::span<const spec::LayerRange> layers);
    void find_boundaries(std::span<const spec::LayerRange> layers);
    void add_chains();
    void add_ends(std::span<const spec::LayerRange> layers);
    void add_nodes(std::span<const spec::LayerRange> layers);
    void add_links(std::span<const spec::LayerRange> layers);
    std::int32_t rows() const { return flat_ ? 1 : n_groups_ + 1; }
    std::int32_t new_vertex();
    void add_arc(std::int32_t from, std::int32_t to, Units room, std::int32_t cost);
    std::int32_t hub(std::int32_t group, std::int32_t boundary) const;
    std::int32_t virtual_hub(std::int32_t boundary) const { return hub(n_groups_, boundary); }

    // Adds the reduced distances from the source to the potentials; false if the sink is out of
    // reach.
    bool raise_potentials();
    Units push(std::int32_t vertex, Units limit);

    const CapacityTable& capacities_;
    std::int32_t n_layers_;
    std::int32_t n_nodes_;
    bool partial_;
    bool flat_ = false;     // one group and wide ends: no link can bind
    bool covered_ = false;  // and partial inference: coverage says it all

    std::int32_t n_groups_ = 0;
    std::vector<std::int32_t> group_;    // [node]
    std::vector<double> link_tokens_;    // [from][to] between nodes; 0 = no link
    std::vector<double> source_tokens_;  // [node]
    std::vector<double> sink_tokens_;    // [node]
    std::vector<double> nic_limit_;      // [node]
    std::vector<bool> wide_ends_;        // [group]: the coordinator's links of all its nodes

    std::vector<std::int32_t> boundary_of_;  // [0..L] to the index among those in use
    std::vector<std::int32_t> boundaries_;
    std::vector<std::int32_t> in_;  // [node]
    std::vector<std::int32_t> out_;
    std::vector<Arc> arcs_;            // a and a ^ 1 are each other's reverse
    std::vector<std::int32_t> first_;  // [vertex]
    std::vector<std::int32_t> price_;  // from the kept prices; the potentials come on top
    std::vector<Units> excess_;
    std::vector<std::int32_t> potential_;
    std::vector<std::int32_t> distance_;
    std::vector<std::uint8_t> seen_;
    std::vector<std::int32_t> prices_;  // [group, virtual last][boundary], in half layers
    std::int32_t sink_price_ = 0;
    std::vector<double> coverage_;  // [layer]
    std::vector<std::vector<std::int32_t>> buckets_;
    std::int32_t source_ = 0;
    std::int32_t sink_ = 0;
    std::int32_t from_ = 0;  // feeds the vertices that have too much
    std::int32_t into_ = 0;  // takes what others lack
};

}  // namespace helix::plan
