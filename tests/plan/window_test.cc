// Capacities of machines for models of which some layers keep a window of a sequence's KV only.

#include <gtest/gtest.h>

#include "plan/problem/capacity.h"
#include "spec/model_shape.h"
#include "spec/roofline_cost.h"

namespace helix::plan::window_test {
namespace {

CapacityTable capacities(const spec::ModelSpec& model) {
    spec::ClusterSpec cluster;
    spec::NodeSpec node;
    node.name = "one";
    node.type = "A10";
    node.memory_bytes = 22'000'000'000;
    cluster.nodes.push_back(node);
    const auto costs = spec::RooflineCost::make(cluster, model);
    EXPECT_TRUE(costs.ok());
    Workload workload;
    workload.prompt_tokens = 6000;
    workload.output_tokens = 400;
    workload.decode_batch = 4096;
    return capacity_from_costs(cluster, model, *costs, workload, MemoryRule{});
}

TEST(Window, TheSameMemoryHoldsMoreSequences) {
    const spec::ModelSpec windowed = *spec::find_model("gpt-oss-20b", spec::WeightFormat::f16);
    spec::ModelSpec plain = windowed;
    plain.window = {};
    const NodeCapacity more = capacities(windowed).nodes.front();
    const NodeCapacity less = capacities(plain).nodes.front();
    ASSERT_GT(less.most(), 2);
    EXPECT_GE(more.most(), less.most());
    for (std::int32_t j = 1; j <= less.most(); ++j) {
        const auto at = static_cast<std::size_t>(j);
        EXPECT_EQ(more.kv_tokens[at], less.kv_tokens[at]) << "the pages are as many";
        EXPECT_GT(more.tokens_per_s[at], less.tokens_per_s[at]) << j;
    }
}

}  // namespace
}  // namespace helix::plan::window_test
