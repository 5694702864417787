#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/problem/capacity.h"
#include "spec/placement.h"

// Placements by rule, for comparison and as starts of the search. None looks at links. A method
// that finds no room for all layers returns nullopt; nodes it has no use for are left out.

namespace helix::plan {

// One pipeline through `nodes` in this order, split so that its slowest node is as fast as
// possible. The ends are exchanged for others where the embedding or the head would not fit.
std::optional<spec::Placement> chain_placement(const CapacityTable& capacities,
                                               std::int32_t n_layers,
                                               std::span<const std::int32_t> nodes);

// What a person does with a few odd machines: the best single pipeline over the k fastest nodes, k
// = 1..n (k = 1: the whole model on one machine).
std::optional<spec::Placement> even_placement(const CapacityTable& capacities,
                                              std::int32_t n_layers);

// As many pipelines side by side as there is memory for, each over the fewest nodes, large nodes
// first; nodes left over take what they can of the slowest layers.
std::optional<spec::Placement> replicated_placement(const CapacityTable& capacities,
                                                    std::int32_t n_layers);

// 0 .. n-1 in an order drawn by seed: in which nodes might join.
std::vector<std::int32_t> shuffled_order(std::int32_t n, std::uint64_t seed);

// What Petals does (Borzunov et al., 2023): the nodes, in joining order, each take their most
// layers where the sorted throughputs of the layers are lexicographically smallest.
std::optional<spec::Placement> petals_placement(const CapacityTable& capacities,
                                                std::int32_t n_layers,
                                                std::span<const std::int32_t> order);

// What SWARM does (Ryabinin et al., 2023), as the paper adapts it: equal stages; the nodes, fastest
// first, each go to the stage with the least throughput. n_stages = 0: as few as let the weakest
// node that holds anything hold one.
std::optional<spec::Placement> swarm_placement(const CapacityTable& capacities,
                                               std::int32_t n_layers, std::int32_t n_stages);
std::int32_t swarm_stages(const CapacityTable& capacities, std::int32_t n_layers);

// The most layers that one pipeline over all nodes can hold, embedding and head counted; all
// placements of L layers are impossible if it is below L, and some chain_placement exists
// otherwise.
std::int32_t holdable_layers(const CapacityTable& capacities, std::int32_t n_layers);

}  // namespace helix::plan
