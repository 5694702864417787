#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/flow/evaluator.h"
#include "spec/placement.h"

namespace helix::plan {

// The largest flow of any placement, by trying them all: for a handful of nodes and layers.
inline double exhaustive_flow(const Evaluator& evaluator,
                              spec::Placement* best_placement = nullptr) {
    const auto n = static_cast<std::size_t>(evaluator.n_nodes());
    const std::int32_t n_layers = evaluator.n_layers();
    std::vector<std::vector<spec::LayerRange>> choices(n);
    for (std::size_t i = 0; i < n; ++i) {
        choices[i].push_back({});
        for (std::int32_t begin = 0; begin < n_layers; ++begin) {
            for (std::int32_t end = begin + 1; end <= n_layers; ++end) {
                const spec::LayerRange range{begin, end};
                if (evaluator.capacities().nodes[i].fits(range, n_layers))
                    choices[i].push_back(range);
            }
        }
    }
    std::vector<std::size_t> pick(n, 0);
    std::vector<spec::LayerRange> layers(n);
    double best = 0;
    while (true) {
        for (std::size_t i = 0; i < n; ++i) layers[i] = choices[i][pick[i]];
        const double flow = evaluator.flow(layers);
        if (flow > best) {
            best = flow;
            if (best_placement != nullptr) best_placement->layers = layers;
        }
        std::size_t i = 0;
        while (i < n && ++pick[i] == choices[i].size()) pick[i++] = 0;
        if (i == n) return best;
    }
}

}  // namespace helix::plan
