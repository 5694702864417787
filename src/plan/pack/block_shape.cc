#include "plan/pack/block_shape.h"

#include <algorithm>

#include "base/check.h"
#include "plan/flow/flow_network.h"

namespace helix::plan {

double block_flow(const Block& block, const std::vector<NodeType>& types) {
    FlowNetwork network{
        .n_vertices = block.length + 1, .source = 0, .sink = block.length, .edges = {}};
    for (const Block::Part& part : block.parts) {
        const NodeType& type = types[static_cast<std::size_t>(part.type)];
        network.edges.push_back({part.begin, part.begin + part.size, type.throughput(part.size)});
    }
    return max_flow_value(network);
}

std::int32_t block_depth(const Block& block) {
    std::vector<std::int32_t> depth(static_cast<std::size_t>(block.length) + 1, -1);
    depth[0] = 0;
    // Parts are in order of their begin, so what ends there is known before.
    for (const Block::Part& part : block.parts) {
        const std::int32_t before = depth[static_cast<std::size_t>(part.begin)];
        std::int32_t& after = depth[static_cast<std::size_t>(part.begin + part.size)];
        if (before >= 0) after = std::max(after, before + 1);
    }
    CHECK(depth.back() > 0);
    return depth.back();
}

Block without_layer(const Block& block, std::int32_t layer, const std::vector<NodeType>& types) {
    CHECK(layer >= 0 && layer < block.length);
    Block shorter{.length = block.length - 1,
                  .depth = 0,
                  .group = block.group,
                  .flow = 0,
                  .parts = {},
                  .count = std::vector<std::int32_t>(types.size(), 0)};
    for (Block::Part part : block.parts) {
        if (part.begin <= layer && layer < part.begin + part.size) {
            --part.size;
        } else if (part.begin > layer) {
            --part.begin;
        }
        if (part.size == 0) continue;
        shorter.parts.push_back(part);
        ++shorter.count[static_cast<std::size_t>(part.type)];
    }
    sort_parts(shorter);
    if (shorter.length > 0) {
        shorter.flow = block_flow(shorter, types);
        shorter.depth = block_depth(shorter);
    }
    return shorter;
}

void sort_parts(Block& block) {
    std::sort(block.parts.begin(), block.parts.end());
}

}  // namespace helix::plan
