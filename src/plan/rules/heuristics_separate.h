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

// The layers split equally over these nodes, in this order; the first take one layer less where
// that does not come out even. No node's limit is looked at. The placement has n_nodes nodes.
spec::Placement equal_chain(const std::vector<std::int32_t>& nodes, std::size_t n_nodes,
                            std::int32_t n_layers);
// From the coordinator through the nodes in this order and back, as (from, to).
std::vector<std::pair<std::int32_t, std::int32_t>> chain_links(
    const std::vector<std::int32_t>& nodes);

// For each type of machine as many pipelines as it can hold, or `most` of them (0: any number),
// equally many nodes in each, each an equal_chain. Layer limits hold. What is left over stays
// unused. Errors: no type can hold the model.
base::Result<SeparatePipelines> separate_placement(const Problem& problem, std::size_t most = 0);

// The capacities that separate pipelines by type are made with where nothing else is planned: the
// published ones of the 70B model hold more layers than the measured tables cover. Where all
// machines of a type hold too few layers for one pipeline within their tables, they are as in
// CapacityTable::beyond_tables, up to what one pipeline over all of them needs. The notes of
// separate_placement say where that was used, and where even it is not enough.
CapacityTable separate_capacities(const Problem& problem);

// As separate_placement, and the nodes left over form as many pipelines of mixed types as they can
// hold, layers split so that the slowest node is as fast as possible. Errors: not even those hold
// the model.
base::Result<SeparatePipelines> separate_plus_placement(const Problem& problem);

}  // namespace helix::plan
