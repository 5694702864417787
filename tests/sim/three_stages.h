#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "core/coordinator/coordinator.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/flat_cost.h"

// Three workers of two layers each in a row, what their batches cost, and prompts for them.

namespace helix::sim::test_support {

constexpr std::int32_t kLayers = 6;

using sim::FlatCost;

inline core::CoordinatorEvent three_stages(const core::PlanCluster& request) {
    if (request.workers.size() != 3) return core::NotPlanned{request.plan, "three are needed"};
    core::Planned planned;
    planned.plan = request.plan;
    planned.placement.layers = {{0, 2}, {2, 4}, {4, kLayers}};
    planned.flows = {{spec::kCoordinator, 0, 9}, {0, 1, 9}, {1, 2, 9}, {2, spec::kCoordinator, 9}};
    return planned;
}

constexpr std::int32_t kPromptVocab = 50;

// Prompts are cut, their beginnings are kept, and memory runs short.
inline FaultyClusterConfig crowded_stages() {
    FaultyClusterConfig config;
    config.coordinator.n_layers = config.worker.n_layers = kLayers;
    config.coordinator.block_size = config.worker.block_size = 4;
    config.coordinator.context_length = 256;
    config.coordinator.expected_output_tokens = 1;  // far too few
    config.coordinator.prefix_cache = config.worker.prefix_cache = true;
    config.coordinator.speculation.ngram_tokens = 3;
    config.worker.max_batch_rows = 16;
    config.worker.mixed_prefill_rows = 8;
    config.vocab = kPromptVocab;
    return config;
}

// Prompts that begin alike, so that there is something cached.
inline std::vector<core::Token> random_prompt(base::Random& random) {
    std::vector<core::Token> prompt;
    for (std::int32_t i = 0; i < 24; ++i) prompt.push_back(i);
    prompt.resize(static_cast<std::size_t>(random.between(1, 24)));
    for (std::int64_t n = random.between(0, 60); n > 0; --n)
        prompt.push_back(static_cast<core::Token>(random.below(kPromptVocab)));
    return prompt;
}

}  // namespace helix::sim::test_support
