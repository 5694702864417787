#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/flow/evaluator.h"
#include "plan/flow/flow_graph.h"
#include "plan/problem/problem.h"
#include "plan/published_problems.h"

// Small parts of the published problems, and their optimum by trying every placement.

namespace helix::plan {

// The first m machines of ablation10 and 6 m layers: whole layers to spare, but few.
inline PublishedProblem part_of_ablation(std::int32_t m) {
    PublishedProblem problem = published_problem("ablation10", "llama1-30b", "ablation10");
    problem.cluster.nodes.resize(static_cast<std::size_t>(m));
    problem.capacities.nodes.resize(static_cast<std::size_t>(m));
    std::erase_if(problem.cluster.links,
                  [m](const spec::LinkSpec& link) { return link.from >= m || link.to >= m; });
    problem.model.n_layers = 6 * m;
    return problem;
}

// The largest flow of any placement of a small problem; branches that can no longer hold all layers
// are cut off. every_node: all must hold something.
class EveryPlacement {
  public:
    EveryPlacement(const Problem& problem, const FlowOptions& options, bool every_node)
        : evaluator_(problem, options),
          every_node_(every_node),
          layers_(problem.cluster.nodes.size()),
          held_(static_cast<std::size_t>(problem.model.n_layers)),
          missing_(problem.model.n_layers) {}

    double best() {
        place(0);
        return best_;
    }

  private:
    void place(std::int32_t i) {
        if (i == evaluator_.n_nodes()) {
            best_ = std::max(best_, evaluator_.flow(layers_));
            return;
        }
        std::int32_t room = 0;
        for (std::int32_t k = i; k < evaluator_.n_nodes(); ++k)
            room += evaluator_.capacities().nodes[static_cast<std::size_t>(k)].most();
        if (room < missing_) return;
        if (!every_node_) place(i + 1);
        const std::int32_t n_layers = evaluator_.n_layers();
        for (std::int32_t begin = 0; begin < n_layers; ++begin) {
            for (std::int32_t end = begin + 1;
                 end <=
                 std::min(
                     n_layers,
                     begin + evaluator_.capacities().nodes[static_cast<std::size_t>(i)].most());
                 ++end) {
                if (!evaluator_.capacities().nodes[static_cast<std::size_t>(i)].fits({begin, end},
                                                                                     n_layers))
                    continue;
                put(i, {begin, end}, 1);
                place(i + 1);
                put(i, {begin, end}, -1);
            }
        }
    }

    void put(std::int32_t i, spec::LayerRange range, std::int32_t change) {
        layers_[static_cast<std::size_t>(i)] = change > 0 ? range : spec::LayerRange{};
        for (std::int32_t l = range.begin; l < range.end; ++l) {
            std::int32_t& holders = held_[static_cast<std::size_t>(l)];
            if (holders == 0) --missing_;
            holders += change;
            if (holders == 0) ++missing_;
        }
    }

    Evaluator evaluator_;
    bool every_node_;
    std::vector<spec::LayerRange> layers_;
    std::vector<std::int32_t> held_;  // holders of each layer
    std::int32_t missing_;            // layers without one
    double best_ = 0;
};

}  // namespace helix::plan
