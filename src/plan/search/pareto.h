#pragma once

#include <cstddef>
#include <vector>

namespace helix::plan {

// What plans are compared by when no single one is best.
struct Merits {
    double flow_tokens_per_s = 0;
    double decode_tokens_per_s = 0;  // predicted
    double depth = 0;                // less is better
    double kv_tokens = 0;            // of the layer with least
    double worst_loss_share = 0;     // of the flow that any single loss leaves

    // At least as good in everything and better in something, by more than rounding.
    bool dominate(const Merits& other) const;
};

// Indices of those that no other dominates; of equal ones the first. In order.
std::vector<std::size_t> pareto_front(const std::vector<Merits>& merits);

}  // namespace helix::plan
