#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/bounds/delivered_machine.h"

// The inequality of plan/bounds/delivered_bound.h at given prices, one flow and any R, computed so
// that no rounding can make it say that it is broken where it holds.

namespace helix::plan {

class DeliveredProof {
  public:
    // Prices may be anything: what is not above 0, or beyond usable_price(), counts as 0. The kinds
    // stay where they are for as long as the proof is used.
    DeliveredProof(const std::vector<MachineKind>& kinds, const TokenNeeds& needs,
                   const DeliveredPrices& prices, double flow);

    // No more than what the inequality is broken by where so many tokens are held; above 0: that
    // the flow is impossible there is proven.
    double margin(double held_tokens) const;

    // Proven from `from`, where the margin is above 0, to here; stops are all K(j) beyond `from`,
    // rising, and the end.
    double proven_up_to(double from, const std::vector<double>& stops) const;

    // With how many layers a machine of the kind earns most, and no less than how much.
    struct Best {
        std::int32_t layers = 0;
        double earned = 0;
    };
    Best best_layers(std::size_t k, double held_tokens) const;

  private:
    const std::vector<MachineKind>* kinds_;
    double n_layers_;
    DeliveredPrices prices_;
    double on_links_;  // tokens of context whose row is on links, at the least
    double paid_ = 0;  // for all rows: no more than their prices' sum
    std::vector<std::vector<double>> earned_;  // [kind][j]: no less than what rows earn
};

}  // namespace helix::plan
