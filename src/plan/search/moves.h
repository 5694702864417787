#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "plan/problem/capacity.h"
#include "spec/layer_range.h"

namespace helix::plan {

// Random changes of a placement, for searches. Every move leaves each range within [0, L) and
// within what its node can hold; it may leave the placement as it was. The same random numbers make
// the same moves.
class Mover {
  public:
    using Layers = std::vector<spec::LayerRange>;  // parallel to the nodes; empty = left out

    // Both references must outlive this object; n_layers > 0.
    Mover(const CapacityTable& capacities, std::int32_t n_layers, base::Random& random);

    // One move: a node is placed beside or over others, over the layer `weakest` (the one that is
    // served least), resized, shifted, left out, exchanged with another; or everything that ends at
    // one boundary or between two follows; or two neighbouring runs of layers change places.
    void move(Layers& layers, std::int32_t weakest);

  private:
    std::int32_t random_node();
    std::int32_t random_size(std::int32_t most);
    std::int32_t step();
    // A boundary that some range has; 0 or L where there is none.
    std::int32_t random_boundary(const Layers& layers);

    // The range cut to [0, L) and to what node i holds; kept as it was if nothing remains.
    void set(Layers& layers, std::int32_t i, spec::LayerRange range) const;
    void place_beside(Layers& layers, std::int32_t i);
    void place_over(Layers& layers, std::int32_t i, std::int32_t layer);
    void shift(Layers& layers, std::int32_t i);
    void exchange(Layers& layers, std::int32_t i, std::int32_t k) const;
    void move_boundary(Layers& layers, std::int32_t i);
    void move_boundaries(Layers& layers);
    void exchange_runs(Layers& layers);

    const CapacityTable& capacities_;
    std::int32_t n_layers_;
    base::Random& random_;
};

}  // namespace helix::plan
