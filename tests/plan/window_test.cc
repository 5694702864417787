// Capacities of machines for models of which some layers keep a window of a sequence's KV only, or
// nothing.

#include <gtest/gtest.h>

#include "plan/problem/capacity.h"
#include "spec/measured_node.h"
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

// Of ten layers the last three have no KV of their own, and read what the seventh has.
TEST(SharedKv, LayersWithoutKvTakeNoMemoryForIt) {
    spec::ModelSpec model;
    model.n_layers = 10;
    model.layer_bytes = 100;
    model.activation_bytes_per_token = 8;
    model.kv_bytes_per_token_layer = 2;
    model.joined_layers = 4;
    model.shared_kv_layers = 3;
    spec::ClusterSpec cluster;
    spec::NodeSpec node;
    node.name = "one";
    node.memory_bytes = 10'000;
    node.decode_s_per_layer = node.decode_batch_s_per_layer = 0.001;
    node.prefill_s_per_token_layer = 0.0001;
    cluster.nodes.push_back(node);
    const CapacityTable table =
        capacity_from_costs(cluster, model, spec::MeasuredNode(), {}, MemoryRule{.kv_reserve = 0});
    EXPECT_EQ(table.nodes[0].most(), 10);
    EXPECT_DOUBLE_EQ(table.kv_tokens(0, model, {0, 10}), 9000 / 2.0 / 7);
    EXPECT_DOUBLE_EQ(table.kv_tokens(0, model, {0, 6}), 9400 / 2.0 / 6);
    EXPECT_DOUBLE_EQ(table.kv_tokens(0, model, {2, 6}), 9600 / 2.0 / 4);
    EXPECT_DOUBLE_EQ(table.kv_tokens(0, model, {6, 10}), 9600 / 2.0);
    EXPECT_DOUBLE_EQ(table.kv_tokens(0, model, {3, 10}), 9300 / 2.0 / 4);
}

}  // namespace
}  // namespace helix::plan::window_test
