#include "plan/search/scale.h"

#include <gtest/gtest.h>

#include <map>

#include "base/effort.h"
#include "plan/bounds/bounds.h"
#include "plan/flow/evaluator.h"
#include "plan/problem/generate.h"
#include "plan/problem/problem.h"
#include "plan_fixtures.h"

namespace helix::plan::scale_test {
namespace {

// T(j) by type for a model of 24 layers, in proportion to the types' memory.
CapacityTable capacities_of(const spec::ClusterSpec& cluster) {
    CapacityTable table;
    for (const spec::NodeSpec& machine : cluster.nodes) {
        const auto layers = static_cast<std::int32_t>(machine.memory_bytes / 4'000'000'000);
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {layers, layers};
        const double speed = machine.type == "A100" ? 8000 : 100.0 * layers;
        node.tokens_per_s.push_back(0);
        for (std::int32_t j = 1; j <= layers; ++j) node.tokens_per_s.push_back(speed / j);
        node.kv_tokens = node.tokens_per_s;
        table.nodes.push_back(std::move(node));
    }
    return table;
}

spec::ModelSpec model_of_24() {
    spec::ModelSpec model = small_model(24);
    model.activation_bytes_per_token = 16384;
    return model;
}

TEST(GenerateCluster, HasTheMixAllLinksAndRepeats) {
    const spec::ClusterSpec cluster = generate_cluster(84, 4, 7);
    ASSERT_EQ(cluster.nodes.size(), 84U);
    EXPECT_EQ(cluster.links.size(), 85U * 84U);
    std::map<std::string, int> types;
    std::map<std::string, int> regions;
    for (const spec::NodeSpec& node : cluster.nodes) {
        ++types[node.type];
        ++regions[node.region];
    }
    EXPECT_EQ(types, (std::map<std::string, int>{{"A100", 8},
                                                 {"L4", 16},
                                                 {"L4x2", 8},
                                                 {"T4", 20},
                                                 {"T4x2", 12},
                                                 {"T4x4", 8},
                                                 {"V100", 12}}));
    for (const auto& [region, count] : regions) EXPECT_EQ(count, 21) << region;
    for (const spec::LinkSpec& link : cluster.links) {
        const bool inside = link.from >= 0 && link.to >= 0 && link.from % 4 == link.to % 4;
        EXPECT_EQ(link.bandwidth_bytes_per_s > 1e9, inside);
    }
    const spec::ClusterSpec again = generate_cluster(84, 4, 7);
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i)
        ASSERT_EQ(again.nodes[i].type, cluster.nodes[i].type);
    for (std::size_t l = 0; l < cluster.links.size(); ++l)
        ASSERT_EQ(again.links[l].bandwidth_bytes_per_s, cluster.links[l].bandwidth_bytes_per_s);
}

TEST(SearchLarge, ComesNearTheBoundAndRepairsTheLossOfANode) {
    // Under a sanitizer the search is short, and only what always holds of it is expected.
    spec::ClusterSpec cluster = generate_cluster(kSanitized ? 12 : 80, 2, 1);
    for (spec::LinkSpec& link : cluster.links) {  // between regions hardly anything gets through
        const bool outside = link.from == spec::kCoordinator || link.to == spec::kCoordinator;
        if (!outside && link.bandwidth_bytes_per_s < 1e9) link.bandwidth_bytes_per_s = 1e4;
    }
    const CapacityTable capacities = capacities_of(cluster);
    const spec::ModelSpec model = model_of_24();
    const FlowOptions exact{.partial = false};
    const Evaluator evaluator({cluster, model, capacities}, exact);
    ScaleOptions options;
    options.upper_bound = flow_bounds({cluster, model, capacities}).best;
    options.exchanges = kSanitized ? 4'000 : 200'000;
    options.iterations = kSanitized ? 100 : 5000;
    const double near = kSanitized ? 0 : 1;
    const SearchResult found = search_large({cluster, model, capacities}, exact, options);
    ASSERT_TRUE(check_placement({cluster, model, capacities}, found.most_flow).ok());
    EXPECT_EQ(found.flow, evaluator.flow(found.most_flow.layers));
    EXPECT_GT(found.flow, near * 0.6 * options.upper_bound);
    EXPECT_LE(found.flow, options.upper_bound * (1 + 1e-9));

    spec::Placement broken = found.most_flow;
    broken.layers[0] = {};
    const SearchResult repaired =
        repair_large({cluster, model, capacities}, exact, found.most_flow, 0, options);
    EXPECT_TRUE(repaired.most_flow.layers[0].empty());
    EXPECT_GE(repaired.flow, evaluator.flow(broken.layers));
    EXPECT_GT(repaired.flow, near * 0.75 * found.flow);
    EXPECT_EQ(repaired.flow, evaluator.flow(repaired.most_flow.layers));
    int moved = 0;
    for (std::size_t i = 1; i < cluster.nodes.size(); ++i)
        moved += repaired.most_flow.layers[i] != found.most_flow.layers[i] ? 1 : 0;
    EXPECT_LE(moved, 40);  // at most the machines of one region
}

}  // namespace
}  // namespace helix::plan::scale_test
