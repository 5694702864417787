#include "plan/search/anneal.h"

#include <cmath>

#include "base/check.h"
#include "base/random.h"
#include "plan/search/moves.h"

namespace helix::plan {
namespace {

constexpr std::int64_t kAnnealStopEvery = 64;

}  // namespace

Annealed anneal_to_target(TargetFlow& flow, const CapacityTable& capacities, std::int32_t n_layers,
                          const std::vector<spec::LayerRange>& start,
                          const AnnealOptions& options) {
    CHECK(options.target > 0 && options.hot > 0 && options.cold > 0);
    base::Random random(options.seed);
    Mover mover(capacities, n_layers, random);
    std::vector<spec::LayerRange> current = start;
    std::vector<spec::LayerRange> moved;
    double missing = flow.missing(current, options.target);
    flow.keep_prices();
    Annealed best{current, missing, 0};
    const double cooling = std::log(options.cold / options.hot) /
                           static_cast<double>(std::max<std::int64_t>(options.iterations, 1));
    while (best.missing > 0 && best.iterations < options.iterations) {
        if (options.stop && best.iterations % kAnnealStopEvery == 0 && options.stop()) break;
        const double temperature =
            options.hot * std::exp(cooling * static_cast<double>(best.iterations));
        ++best.iterations;
        moved = current;
        mover.move(moved,
                   static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(n_layers))));
        if (moved == current) continue;
        // The acceptance is drawn first, so that the flow can be given up as soon as it fails.
        const double most = missing - temperature * std::log(1 - random.uniform());
        const double next = flow.missing(moved, options.target, most);
        if (next > most) continue;
        current.swap(moved);
        missing = next;
        flow.keep_prices();
        if (missing < best.missing) {
            best.missing = missing;
            best.layers = current;
            if (options.seen && missing < 1) options.seen(current);
        }
    }
    return best;
}

}  // namespace helix::plan
