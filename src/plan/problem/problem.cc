#include "plan/problem/problem.h"

#include <fmt/format.h>

#include <cstddef>

#include "spec/layer_range.h"

namespace helix::plan {

base::Status check_placement(const Problem& problem, const spec::Placement& placement) {
    const auto& [cluster, model, capacities] = problem;
    if (placement.layers.size() != cluster.nodes.size()) {
        return base::invalid(fmt::format("placement: has {} nodes, the cluster {} has {}",
                                         placement.layers.size(), cluster.name,
                                         cluster.nodes.size()));
    }
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        const spec::LayerRange range = placement.layers[i];
        if (range.begin == range.end) continue;
        if (range.begin < 0 || range.end <= range.begin || range.end > model.n_layers) {
            return base::invalid(fmt::format(
                "placement: node {} has layers [{}, {}), expected a range within [0, {}) of {}",
                cluster.nodes[i].name, range.begin, range.end, model.n_layers, model.name));
        }
        if (!spec::may_hold(model, range)) {
            return base::invalid(
                fmt::format("placement: node {} has layers [{}, {}), but the last {} of {}, [{}, "
                            "{}), share keys "
                            "and values and stay together",
                            cluster.nodes[i].name, range.begin, range.end, model.joined_layers,
                            model.name, model.n_layers - model.joined_layers, model.n_layers));
        }
        const NodeCapacity& capacity = capacities.nodes[i];
        if (!capacity.fits(range, model.n_layers)) {
            return base::invalid(fmt::format(
                "placement: node {} has the {} layers [{}, {}), but can hold at most {} there",
                cluster.nodes[i].name, range.size(), range.begin, range.end,
                capacity.max_layers[range.begin == 0][range.end == model.n_layers]));
        }
    }
    return base::Ok{};
}

}  // namespace helix::plan
