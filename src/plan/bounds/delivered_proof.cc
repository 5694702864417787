#include "plan/bounds/delivered_proof.h"

#include <algorithm>

#include "base/index.h"
#include "plan/bounds/outward.h"

namespace helix::plan {
namespace {

using base::at;

constexpr int kHalvings = 24;  // of the interval in which a proof ends

DeliveredPrices usable_prices(DeliveredPrices prices) {
    for (double& price : prices.decodes) price = usable_price(price);
    prices.prompts = usable_price(prices.prompts);
    prices.kv = usable_price(prices.kv);
    prices.held = usable_price(prices.held);
    return prices;
}

}  // namespace

DeliveredProof::DeliveredProof(const std::vector<MachineKind>& kinds, const TokenNeeds& needs,
                               const DeliveredPrices& prices, double flow)
    : kinds_(&kinds),
      n_layers_(needs.n_layers),
      prices_(usable_prices(prices)),
      on_links_(needs.tokens_on_links(flow)) {
    paid_ = prices_.prompts;
    for (const double price : prices_.decodes) paid_ = add_down(paid_, price);
    for (const MachineKind& kind : kinds) {
        earned_.push_back(MachineEarnings(kind, needs, prices_, flow).by_layers());
    }
}

double DeliveredProof::margin(double held_tokens) const {
    const double kv = multiply_down(multiply_down(prices_.kv, n_layers_), held_tokens);
    const double travelling = multiply_down(prices_.held, on_links_);
    const double needed = add_down(add_down(paid_, kv), travelling);
    double earned = multiply_up(prices_.held, held_tokens);
    for (std::size_t k = 0; k < kinds_->size(); ++k) {
        const double best = best_layers(k, held_tokens).earned;
        earned = add_up(earned, multiply_up(best, (*kinds_)[k].count));
    }
    return subtract_down(needed, earned);
}

double DeliveredProof::proven_up_to(double from, const std::vector<double>& stops) const {
    for (auto stop = std::upper_bound(stops.begin(), stops.end(), from); stop != stops.end();
         ++stop) {
        if (margin(*stop) > 0) {
            from = *stop;
            continue;
        }
        double beyond = *stop;
        for (int step = 0; step < kHalvings; ++step) {
            const double middle = (from + beyond) / 2;
            (margin(middle) > 0 ? from : beyond) = middle;
        }
        break;
    }
    return from;
}

DeliveredProof::Best DeliveredProof::best_layers(std::size_t k, double held_tokens) const {
    const MachineKind& kind = (*kinds_)[k];
    Best best;
    for (std::int32_t j = 1; j <= kind.most(); ++j) {
        const double held = std::min(kind.kv_tokens[at(j)], held_tokens);
        const double memory = multiply_up(multiply_up(prices_.kv, j), held);
        const double earned = add_up(earned_[k][at(j)], memory);
        if (earned > best.earned) best = {j, earned};
    }
    return best;
}

}  // namespace helix::plan
