#include "lab/load/simulated_twin.h"

#include <gtest/gtest.h>

#include "lab/load/load_report.h"

namespace helix::lab::simulated_twin_test {
namespace {

// A layer takes 1 ms for any decodes and 10 ms for any prompt.
class StepCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec&, std::int32_t decodes,
                   std::int32_t prefill) const override {
        return (decodes > 0 ? 1e-3 : 0) + (prefill > 0 ? 1e-2 : 0);
    }
};

constexpr const char* kTwoStages = R"({"serving": true, "workers": [
    {"id": 4, "name": "a", "type": "T4", "host": 4, "layers": [0, 3], "kv_pages": 600},
    {"id": 7, "name": "b", "type": "T4", "host": 7, "layers": [3, 8], "kv_pages": 800},
    {"id": 9, "name": "c", "type": "T4", "host": 9, "layers": null, "kv_pages": 0}],
  "flows": [{"from": -1, "to": 4, "tokens_per_s": 10}, {"from": 4, "to": 7, "tokens_per_s": 10},
            {"from": 7, "to": -1, "tokens_per_s": 10}]})";

TEST(ServedCluster, WorkersAndFlowsAreNumberedAnew) {
    const auto cluster = parse_served_cluster(kTwoStages, "http://x");
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    EXPECT_EQ(cluster->n_layers, 8);
    ASSERT_EQ(cluster->nodes.size(), 3U);
    EXPECT_EQ(cluster->nodes[1].name, "b");
    EXPECT_EQ(cluster->nodes[1].type, "T4");
    EXPECT_EQ(cluster->placement.layers[1], (spec::LayerRange{3, 8}));
    EXPECT_TRUE(cluster->placement.layers[2].empty());
    EXPECT_EQ(cluster->kv_pages[1], 800);
    ASSERT_EQ(cluster->flows.size(), 3U);
    EXPECT_EQ(cluster->flows[1].from, 0);
    EXPECT_EQ(cluster->flows[1].to, 1);
    EXPECT_EQ(cluster->flows[2].to, spec::kCoordinator);
}

TEST(ServedCluster, CoreSharesAreReadAndWrongOnesNamed) {
    const auto served = [](const std::string& share) {
        std::string text = kTwoStages;
        text.insert(text.find("\"layers\": [3"), "\"core_share\": " + share + ", ");
        return parse_served_cluster(text, "http://x");
    };
    const auto halves = served("0.5");
    ASSERT_TRUE(halves.ok()) << halves.error().message;
    EXPECT_EQ(halves->nodes[0].core_share, 1) << "as an earlier release does not say it";
    EXPECT_EQ(halves->nodes[1].core_share, 0.5);
    for (const char* wrong : {"0", "1.5", "\"half\""}) {
        const auto refused = served(wrong);
        ASSERT_FALSE(refused.ok()) << wrong;
        EXPECT_NE(refused.error().message.find("core_share"), std::string::npos) << wrong;
    }
}

TEST(ServedCluster, WhatIsNoneIsRefused) {
    const auto idle = parse_served_cluster(R"({"workers": [], "flows": []})", "http://x");
    ASSERT_FALSE(idle.ok());
    EXPECT_NE(idle.error().message.find("no placement"), std::string::npos);
    const auto other = parse_served_cluster(R"({"object": "list"})", "http://x");
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().message.find("http://x/helix/cluster"), std::string::npos);
    EXPECT_FALSE(parse_served_cluster("<html>", "http://x").ok());
}

TEST(SimulatedLoad, ALoneRequestTakesTheMachinesTime) {
    const auto cluster = parse_served_cluster(kTwoStages, "http://x");
    ASSERT_TRUE(cluster.ok());
    TwinOptions options;
    options.context_length = 1000;
    options.link_latency_s = 0;
    const auto result = simulate_load(*cluster, StepCost(), options, {{0.5, 50, 11}});
    ASSERT_TRUE(result.ok()) << result.error().message;
    ASSERT_EQ(result->requests.size(), 1U);
    const RequestRecord& request = result->requests[0];
    EXPECT_FALSE(request.failure);
    EXPECT_EQ(request.output_tokens, 11);
    EXPECT_NEAR(request.first_s - request.scheduled_s, 8 * 1e-2, 1e-3);
    EXPECT_NEAR(request.last_s - request.first_s, 10 * 8 * 1e-3, 1e-3);
    EXPECT_EQ(result->tokens.size(), 11U);
    const auto same = simulate_load(*cluster, StepCost(), options, {{0.5, 50, 11}});
    EXPECT_EQ(same->requests[0].last_s, request.last_s);
    options.time_scale = 2;
    const auto slow = simulate_load(*cluster, StepCost(), options, {{0.5, 50, 11}});
    EXPECT_NEAR(slow->requests[0].first_s - 0.5, 2 * 8 * 1e-2, 2e-3);
}

TEST(SimulatedLoad, WorldsOfDifferentSeedsPartAndEqualOnesDoNot) {
    const auto cluster = parse_served_cluster(kTwoStages, "http://x");
    TwinOptions options;
    options.context_length = 1000;
    options.link_latency_s = 1e-3;
    std::vector<LoadRequest> requests;
    for (std::int32_t i = 0; i < 20; ++i) requests.push_back({i * 0.05, 40, 20});
    options.before = {{0, 16, 9}, {1, 16, 9}};
    const auto run = [&](std::uint64_t seed) {
        options.seed = seed;
        const auto result = simulate_load(*cluster, StepCost(), options, requests);
        EXPECT_TRUE(result.ok()) << result.error().message;
        EXPECT_EQ(result->requests.size(), requests.size());
        EXPECT_EQ(result->tokens.size(), requests.size() * 20);  // none of those before
        return result->requests.back().last_s;
    };
    const double first = run(1);
    EXPECT_EQ(run(1), first);
    EXPECT_NE(run(2), first);
    EXPECT_NEAR(run(2), first, 0.5 * first);
}

TEST(SimulatedLoad, ARequestThatNoMachineCanHoldIsSaid) {
    const auto cluster = parse_served_cluster(kTwoStages, "http://x");
    TwinOptions options;
    options.context_length = 1000;
    const auto result = simulate_load(*cluster, StepCost(), options, {{0, 5000, 5}});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().message,
              "node a holds 3200 tokens of context; a request may need 5005");
}

TEST(ServedCluster, TheLastPipelinesAreInTheOrderOfTheirRequests) {
    const std::string log = R"(, "requests": [
        {"pipeline": [{"worker": 7, "layers": [0, 8]}]},
        {"pipeline": [{"worker": 4, "layers": [0, 3]}, {"worker": 7, "layers": [3, 8]}]},
        {"pipeline": []}]})";
    const std::string text(kTwoStages);
    const std::string body = text.substr(0, text.find_last_of('}')) + log;
    const auto last = parse_last_pipelines(body, "http://x", 2);
    ASSERT_TRUE(last.ok()) << last.error().message;
    ASSERT_EQ(last->size(), 2U);
    EXPECT_EQ(last->at(0), (ServedPipeline{{0, {0, 3}}, {1, {3, 8}}}));
    EXPECT_EQ(last->at(1), (ServedPipeline{{1, {0, 8}}}));
    EXPECT_FALSE(parse_last_pipelines(body, "http://x", 4).ok());
}

TEST(SimulatedLoad, LoneRequestsTellWhatAHopCosts) {
    const auto cluster = parse_served_cluster(kTwoStages, "http://x");
    TwinOptions options;
    options.context_length = 1000;
    options.link_latency_s = 7e-3;
    options.wake_share = 0;
    options.answer_delay_s = 3e-3;
    options.time_scale = 2;
    std::vector<LoadRequest> requests;
    for (std::int32_t i = 0; i < 5; ++i) requests.push_back({i * 10.0, 16, 9});
    const auto real = simulate_load(*cluster, StepCost(), options, requests);
    ASSERT_TRUE(real.ok()) << real.error().message;
    TwinOptions fitted;
    fitted.context_length = 1000;
    fitted.time_scale = 2;
    const std::vector<ServedPipeline> pipelines(5, {{0, {0, 3}}, {1, {3, 8}}});
    const auto status = fit_to_lone(*cluster, StepCost(), *real, pipelines, fitted);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_NEAR(fitted.link_latency_s, 7e-3, 1e-4);
    EXPECT_NEAR(fitted.answer_delay_s, 3e-3, 5e-4);
}

TEST(LoadReport, ComparisonsSayHowFarTheSimulationIsOff) {
    LoadReport measured;
    LoadReport simulated;
    measured.decode_tokens_per_s = 100;
    simulated.decode_tokens_per_s = 110;
    const auto comparisons = compare(measured, simulated);
    EXPECT_EQ(comparisons[0].name, "decode_tokens_per_s");
    EXPECT_NEAR(comparisons[0].error(), 0.1, 1e-12);
    EXPECT_EQ(comparisons[1].error(), 0);  // nothing was measured
    EXPECT_NE(comparison_text(comparisons).find("+10.0 %"), std::string::npos);
}

}  // namespace
}  // namespace helix::lab::simulated_twin_test
