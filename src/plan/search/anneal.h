#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/flow/target_flow.h"
#include "plan/problem/capacity.h"
#include "spec/layer_range.h"

namespace helix::plan {

struct AnnealOptions {
    double target = 0;  // tokens/s, > 0
    std::uint64_t seed = 1;
    std::int64_t iterations = 100'000;
    double hot = 1.0;  // temperatures, in missing layers
    double cold = 0.02;
    std::function<bool()> stop;  // asked every few moves; true ends the search at once
    // Called with every placement that misses less than all before it, once less than one layer is
    // missing: its flow may be worth knowing although it is below the target.
    std::function<void(const std::vector<spec::LayerRange>&)> seen;
};

struct Annealed {
    std::vector<spec::LayerRange> layers;  // the least missing that was seen
    double missing = 0;  // layers per token (TargetFlow); 0: the target is reached
    std::int64_t iterations = 0;
};

// Simulated annealing towards a placement that carries the target, with Mover's moves, from
// `start`; ends as soon as it is reached. The same arguments give the same result.
Annealed anneal_to_target(TargetFlow& flow, const CapacityTable& capacities, std::int32_t n_layers,
                          const std::vector<spec::LayerRange>& start, const AnnealOptions& options);

}  // namespace helix::plan
