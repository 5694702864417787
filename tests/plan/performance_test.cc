#include "plan/predict/performance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/plan_fixtures.h"
#include "plan/reference_data.h"
#include "spec/kv_fill.h"

namespace helix::plan::performance_test {
namespace {

// Layers in constant time per batch: decodes cost_s for any number of them, prompts a row_s each.
class FlatCosts final : public spec::CostModel {
  public:
    FlatCosts(double batch_s, double row_s) : batch_s_(batch_s), row_s_(row_s) {}
    double layer_s(const spec::NodeSpec&, std::int32_t decodes, std::int32_t rows) const override {
        return (decodes > 0 ? batch_s_ : 0) + row_s_ * rows;
    }

  private:
    double batch_s_;
    double row_s_;
};

// Nodes that hold up to `layers` layers beside kv_tokens of context, whatever they hold.
CapacityTable equal_capacities(std::size_t n, std::int32_t layers, double kv_tokens) {
    NodeCapacity node;
    for (auto& row : node.max_layers) row = {layers, layers};
    for (std::int32_t j = 0; j <= layers; ++j) {
        node.tokens_per_s.push_back(j == 0 ? 0 : 1000.0 / j);
        node.kv_tokens.push_back(j == 0 ? 0 : kv_tokens);
    }
    return {std::vector<NodeCapacity>(n, node)};
}

// Two stages in a row, four layers each.
struct TwoStages {
    spec::ClusterSpec cluster = cluster_of({machine("a", 4, 0.01), machine("b", 4, 0.01)});
    spec::ModelSpec model = small_model(8);
    CapacityTable capacities = equal_capacities(2, 4, 10'000);
    std::vector<spec::LayerRange> layers = {{0, 4}, {4, 8}};
    std::vector<spec::LinkFlow> flows = {
        {spec::kCoordinator, 0, 1}, {0, 1, 1}, {1, spec::kCoordinator, 1}};

    Prediction predict(const PerformanceOptions& options, double batch_s = 0.01,
                       double row_s = 1e-4) const {
        return PerformanceModel({cluster, model, capacities}, FlatCosts(batch_s, row_s), options)
            .predict(layers, flows);
    }
};

PerformanceOptions with(Batching batching, LengthMoments lengths = fixed_lengths(100, 100)) {
    return {.batching = batching, .lengths = lengths, .expected_output = lengths.output};
}

constexpr Batching kBoth[] = {Batching::helix, Batching::reference};

TEST(PerformanceModel, ResidentRequestsFollowLittlesLaw) {
    const TwoStages two;
    for (const Batching batching : kBoth) {
        const Prediction p = two.predict(with(batching));
        EXPECT_EQ(p.limit.kind, PerformanceLimit::Kind::kv);
        EXPECT_NEAR(p.resident, p.kv_requests, 0.001 * p.kv_requests);
        EXPECT_NEAR(p.resident, p.decode_tokens_per_s * (p.tpot_s + p.ttft_s / 100), 1e-9);
        EXPECT_DOUBLE_EQ(p.depth, 2);
    }
    // 10'000 tokens, of which 200 for each request, up to what 50 requests may fill.
    EXPECT_DOUBLE_EQ(two.predict(with(Batching::helix)).kv_requests, spec::kv_fill(0.9, 50) * 50);
}

TEST(PerformanceModel, DecodesAloneTakeTheirPassThroughEveryMachine) {
    TwoStages two;
    // Prompts of one token: as good as none. Groups: 45 requests in two groups pass two stages of
    // 40 ms each, one always in each stage.
    const Prediction p = two.predict(with(Batching::helix, fixed_lengths(1, 200)), 0.01, 1e-9);
    EXPECT_GT(p.tpot_s, 0.080);
    EXPECT_LT(p.tpot_s, 0.120);
}

TEST(PerformanceModel, DevicesOfOneHostComputeAtTheSameTimeUnlessTheyShareItsCores) {
    TwoStages two;
    const auto tpot_s = [&] {
        return two.predict(with(Batching::helix, fixed_lengths(1, 200)), 0.01, 1e-9).tpot_s;
    };
    const double apart = tpot_s();
    two.cluster.nodes[0].host = two.cluster.nodes[1].host = "den";
    const double shared = tpot_s();
    two.cluster.nodes[0].device = "card";
    EXPECT_EQ(tpot_s(), apart);
    EXPECT_NE(shared, apart);
}

TEST(PerformanceModel, MoreMemoryNeverHurtsUntilTheMachinesAreBusy) {
    for (const Batching batching : kBoth) {
        double before = 0;
        for (const double tokens : {2'000.0, 8'000.0, 32'000.0, 128'000.0, 512'000.0}) {
            TwoStages two;
            two.capacities = equal_capacities(2, 4, tokens);
            const Prediction p = two.predict(with(batching));
            EXPECT_GE(p.decode_tokens_per_s, before * 0.999) << to_string(batching) << tokens;
            before = p.decode_tokens_per_s;
        }
    }
}

TEST(PerformanceModel, ASlowLinkIsNamedAsTheLimit) {
    TwoStages two;
    two.capacities = equal_capacities(2, 4, 1e7);
    for (spec::LinkSpec& link : two.cluster.links) {
        if (link.from == 0 && link.to == 1) link.bandwidth_bytes_per_s = 20'000;  // 20 rows/s
    }
    for (const Batching batching : kBoth) {
        const Prediction p = two.predict(with(batching));
        EXPECT_EQ(p.limit.kind, PerformanceLimit::Kind::link);
        EXPECT_EQ(describe_limit(two.cluster, p.limit), "the link a -> b");
        EXPECT_NEAR(p.decode_tokens_per_s, 10, 0.5);  // half of the rows are prompts'
        double busiest = 0;
        for (std::size_t l = 0; l < p.link_busy.size(); ++l) {
            EXPECT_LE(p.link_busy[l], 1);
            busiest = std::max(busiest, p.link_busy[l]);
        }
        EXPECT_GT(busiest, 0.9);
        for (const double busy : p.node_busy) EXPECT_LE(busy, 0.5);
    }
}

TEST(PerformanceModel, AnOfferedLoadBelowSaturationIsServedWithLessWaiting) {
    const TwoStages two;
    for (const Batching batching : kBoth) {
        PerformanceOptions options = with(batching);
        const Prediction most = two.predict(options);
        options.requests_per_s = most.decode_tokens_per_s / 100 / 2;
        const Prediction half = two.predict(options);
        EXPECT_EQ(half.limit.kind, PerformanceLimit::Kind::load);
        EXPECT_NEAR(half.decode_tokens_per_s, most.decode_tokens_per_s / 2, 1e-9);
        EXPECT_LT(half.tpot_s, most.tpot_s);
        EXPECT_LT(half.resident, most.resident);
    }
}

TEST(PerformanceModel, FlowsThatEndWithinTheModelAreBroken) {
    TwoStages two;
    two.flows.pop_back();
    const Prediction p = two.predict(with(Batching::helix));
    EXPECT_EQ(p.limit.kind, PerformanceLimit::Kind::broken);
    EXPECT_EQ(p.decode_tokens_per_s, 0);
}

TEST(PerformanceModel, AStageThatRunsOnlyTheTailOfItsLayersTakesLessTime) {
    TwoStages two;
    const Prediction whole = two.predict(with(Batching::reference));
    two.layers[1] = {4, 8};
    two.layers[0] = {0, 6};
    two.capacities = equal_capacities(2, 6, 10'000);
    const Prediction partial = two.predict(with(Batching::reference));
    // a runs six layers, b the last two of its four: eight in all as before, but b's memory serves
    // twice the requests.
    EXPECT_GE(partial.kv_requests, whole.kv_requests);
    EXPECT_NEAR(partial.tpot_s, whole.tpot_s, 0.1 * whole.tpot_s);
}

TEST(PerformanceModel, FastAndFullPredictionsAgree) {
    const ReferenceProblem problem = reference_problem("single24");
    const auto layout = published_layout("single24__llama2-70b__helix");
    const FlowPlan flow = plan_flow(
        problem.cluster, build_flow_graph({problem.cluster, problem.model(), problem.capacities},
                                          layout.placement, {}));
    for (const Batching batching : kBoth) {
        const PerformanceModel model({problem.cluster, problem.model(), problem.capacities},
                                     problem.tables, {.batching = batching});
        PerformanceScratch scratch;
        const auto& layers = layout.placement.layers;
        const Estimate first = model.estimate(layers, flow.links, scratch);
        const Estimate again = model.estimate(layers, flow.links, scratch);
        EXPECT_EQ(first.decode_tokens_per_s, again.decode_tokens_per_s);  // no memory of the past
        const Prediction whole = model.predict(layers, flow.links);
        EXPECT_EQ(first.decode_tokens_per_s, whole.decode_tokens_per_s);
        EXPECT_EQ(first.tpot_s, whole.tpot_s);
        EXPECT_LT(first.alone_tpot_s, first.tpot_s);
        EXPECT_LT(first.alone_ttft_s, first.ttft_s);
    }
}

// Layouts for LLaMA 70B and the decode tokens/s that the published simulator gives them when as
// much is offered as they serve, on every valid link or on the published ones.
struct Simulated {
    const char* layout;
    bool all_links;
    double decode_tokens_per_s;
};
constexpr Simulated kSimulated[] = {
    {"single24__llama2-70b__helix", false, 252.1},
    {"single24__llama2-70b__petals", false, 191.1},
    {"single24__llama2-70b__petals", true, 196.7},
    {"single24__llama2-70b__swarm", false, 128.2},
    {"distributed24__llama2-70b__petals", false, 66.6},
    {"distributed24__llama2-70b__petals", true, 66.7},
    {"distributed24__llama2-70b__swarm", false, 41.6},
    {"distributed24__llama2-70b__swarm", true, 53.0},
    {"highhet42__llama2-70b__petals", false, 590.5},
    {"highhet42__llama2-70b__petals", true, 567.6},
    {"highhet42__llama2-70b__swarm", false, 536.4},
    {"highhet42__llama2-70b__swarm", true, 574.2},
};

TEST(PerformanceModel, PredictsWhatThePublishedSimulatorDelivers) {
    double error = 0;
    for (const Simulated& known : kSimulated) {
        const auto layout = published_layout(known.layout);
        const ReferenceProblem problem = reference_problem(layout.cluster);
        FlowOptions options{.convention = Convention::reference};
        if (!known.all_links) options.only_links = layout.links;
        const FlowPlan flow =
            plan_flow(problem.cluster,
                      build_flow_graph({problem.cluster, problem.model(), problem.capacities},
                                       layout.placement, options));
        const PerformanceModel model({problem.cluster, problem.model(), problem.capacities},
                                     problem.tables, {.batching = Batching::reference});
        const Prediction p = model.predict(layout.placement.layers, flow.links);
        const double off = p.decode_tokens_per_s / known.decode_tokens_per_s - 1;
        EXPECT_LT(std::abs(off), 0.27) << known.layout;
        error += std::abs(off) / std::size(kSimulated);
        EXPECT_EQ(p.limit.kind, PerformanceLimit::Kind::kv) << known.layout;
    }
    EXPECT_LT(error, 0.12);
}

}  // namespace
}  // namespace helix::plan::performance_test
