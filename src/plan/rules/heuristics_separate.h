#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"

// What operators of mixed clusters do without a planner: pipelines of equal machines, side by side.
// The paper compares itself with both ("separate pipelines", SP and SP+).

namespace helix::plan {

struct SeparatePipelines {
    struct Pipeline {
        std::string type;                 // "mixed" if it has several
        std::vector<std::int32_t> nodes;  // in the order of their layers
        double tokens_per_s = 0;          // of its slowest node
    };
    std::vector<Pipeline> pipelines;
    spec::Placement placement;
    // Only these: a flow over all links may lead requests across from one pipeline to another.
    // (from, to) for FlowOptions::only_links.
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    std::vector<std::string> notes;  // which type cannot hold the model, which nodes stay unused
};

// For each type of machine as many pipelines as it can hold, or `most` of them (0: any number),
// equally many nodes in each, the layers
// split equally (the first nodes take one layer less where that does not come out even). Layer
// limits hold, unlike in the published plans for the 70B model. What is left over stays unused.
// Errors: no type can hold the model.
base::Result<SeparatePipelines> separate_placement(const Problem& problem, std::size_t most = 0);

// The same, and the nodes left over form as many pipelines of mixed types as they can hold, layers
// split so that the slowest node is as fast as possible. Errors: not even those hold the
// model.
base::Result<SeparatePipelines> separate_plus_placement(const Problem& problem);

}  // namespace helix::plan
