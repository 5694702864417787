#include "lab/simulation/simulated_load.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace helix::lab {

std::int32_t default_population(const sim::ReferenceSetup& setup) {
    std::vector<double> layer_tokens(static_cast<std::size_t>(setup.n_layers));
    for (const sim::ReferenceNode& node : setup.nodes) {
        for (std::int32_t l = node.layers.begin; l < node.layers.end; ++l) {
            layer_tokens[static_cast<std::size_t>(l)] +=
                static_cast<double>(node.kv_capacity) / node.layers.size();
        }
    }
    const double least = *std::min_element(layer_tokens.begin(), layer_tokens.end());
    return std::max(1, static_cast<std::int32_t>(0.7 * least / setup.lengths.mean_tokens()));
}

void put_under_load(sim::HelixSetup& setup, const SimulatedLoad& load) {
    setup.lengths = load.lengths;
    setup.online = load.online;
    setup.warmup_s = load.warmup_s;
    setup.duration_s = load.duration_s;
    setup.seed = load.seed;
    if (load.population > 0) setup.offline.initial = load.population;
}

void put_under_load(sim::ReferenceSetup& setup, const SimulatedLoad& load) {
    setup.lengths = load.lengths;
    setup.online = load.online;
    setup.warmup_s = load.warmup_s;
    setup.duration_s = load.duration_s;
    setup.seed = load.seed;
    if (load.online) {
        setup.kv_high_water = 0.9;
        setup.output_ratio = 0.6;
        return;
    }
    const bool constant = setup.scheduler != sim::ReferenceScheduler::max_flow;
    if (constant) setup.offline.initial = default_population(setup);
    if (load.population > 0) setup.offline.initial = load.population;
}

}  // namespace helix::lab
