#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "plan/problem/node_types.h"

namespace helix::plan {

// Nodes that together carry `flow` through `length` consecutive layers and meet at both ends, so
// that blocks may follow each other in any order: single nodes, blocks in a row, blocks side by
// side, nested as deep as it pays.
struct Block {
    struct Part {                // one node
        std::int32_t begin = 0;  // within the block
        std::int32_t size = 0;
        std::int32_t type = 0;
        auto operator<=>(const Part&) const = default;
    };

    std::int32_t length = 0;
    std::int32_t depth = 0;  // stages of its longest path
    std::int32_t group = 0;  // of all its nodes
    double flow = 0;
    std::vector<Part> parts;          // sorted
    std::vector<std::int32_t> count;  // [type]
};

// What the parts really carry and how deep they are.
double block_flow(const Block& block, const std::vector<NodeType>& types);
std::int32_t block_depth(const Block& block);
void sort_parts(Block& block);

// The block with layer `layer` cut out: nodes that hold it hold one layer less, or are no longer
// there.
Block without_layer(const Block& block, std::int32_t layer, const std::vector<NodeType>& types);

}  // namespace helix::plan
