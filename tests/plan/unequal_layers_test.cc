// Models whose layers differ in size: a machine is given as many layers as it holds wherever they
// lie, so no placement asks more of a memory than is there.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "plan/problem/capacity.h"
#include "spec/measured_node.h"
#include "spec/model_spec.h"

namespace helix::plan::unequal_layers_test {
namespace {

spec::NodeSpec node_of(std::int64_t memory_bytes) {
    spec::NodeSpec node;
    node.name = "a";
    node.memory_bytes = memory_bytes;
    node.decode_s_per_layer = node.decode_batch_s_per_layer = 0.001;
    node.prefill_s_per_token_layer = 0.0001;
    return node;
}

TEST(UnequalLayers, AMachineHoldsItsLayersWhereverTheyLie) {
    base::Random random(7);
    for (int i = 0; i < 100; ++i) {
        spec::ModelSpec model;
        model.n_layers = 10;
        model.embedding_bytes = 150;
        model.head_bytes = 250;
        model.activation_bytes_per_token = 8;
        std::vector<std::int64_t> sizes;
        for (int l = 0; l < 10; ++l) sizes.push_back(100 * random.between(1, 5));
        spec::set_layer_sizes(model, sizes);
        spec::ClusterSpec cluster;
        cluster.nodes.push_back(node_of(random.between(500, 4000)));
        const std::int64_t memory = cluster.nodes[0].memory_bytes;
        const CapacityTable table = capacity_from_costs(cluster, model, spec::MeasuredNode(), {},
                                                        MemoryRule{.kv_reserve = 0});
        for (const bool first : {false, true}) {
            for (const bool last : {false, true}) {
                if (first && last) continue;
                const std::int32_t most = table.nodes[0].max_layers[first][last];
                EXPECT_LE(most, table.nodes[0].most());
                // Whether one layer more may be too much: where the machine is no end, at any
                // place.
                bool more = most == table.nodes[0].most() && (first || last);
                for (std::int32_t begin = 0; begin < 10; ++begin) {
                    for (std::int32_t end = begin + 1; end <= 10; ++end) {
                        const bool there = (begin == 0) == first && (end == 10) == last;
                        std::int64_t bytes = spec::stored_bytes(model, {begin, end});
                        if (there && end - begin <= most) {
                            EXPECT_LE(bytes, memory) << "case " << i;
                        }
                        if (!first && begin == 0) bytes -= model.embedding_bytes;
                        if (!last && end == 10) bytes -= model.head_bytes;
                        const bool counts = there || (!first && !last);
                        more = more || (counts && end - begin == most + 1 && bytes > memory);
                    }
                }
                const bool all = most >= (first || last ? 9 : 10);
                EXPECT_TRUE(more || all) << "case " << i << ": it could hold more";
            }
        }
    }
}

}  // namespace
}  // namespace helix::plan::unequal_layers_test
