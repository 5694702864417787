#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "plan/losses/takeover_bound.h"
#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "plan/report/plan_json.h"

namespace helix::plan::plan_output_test {
namespace {

struct Planned {
    spec::ClusterSpec cluster;
    spec::ModelSpec model = small_model(12);
    PlanReport report;
};

// Three machines hold the model; the fourth is too small for a layer.
Planned plan_three() {
    Planned planned;
    planned.cluster = cluster_of({machine("a<b>", 6, 1e-4), machine("b&\"c\"", 6, 1e-4),
                                  machine("c", 6, 1e-4), machine("tiny", 0.1, 1e-4)});
    planned.cluster.nodes[0].region = "cellar";
    planned.cluster.nodes[1].type = "gpu";
    auto report = plan(planned.cluster, planned.model, PlanOptions{});
    EXPECT_TRUE(report.ok()) << report.error().message;
    planned.report = std::move(*report);
    return planned;
}

TEST(PlanJson, HasWhatTheReportSays) {
    const Planned planned = plan_three();
    const auto json =
        nlohmann::json::parse(plan_to_json(planned.cluster, planned.model, planned.report, 0.5));
    EXPECT_EQ(json.at("seconds"), 0.5);
    EXPECT_EQ(json.at("num_layers"), 12);
    EXPECT_DOUBLE_EQ(json.at("max_flow_tokens_per_s"), planned.report.max_flow_tokens_per_s);
    EXPECT_TRUE(json.at("layers").at("3").is_null());
    for (std::size_t i = 0; i < 3; ++i) {
        const spec::LayerRange range = planned.report.placement.layers[i];
        if (range.empty()) continue;
        EXPECT_EQ(json.at("layers").at(std::to_string(i)),
                  nlohmann::json::array({range.begin, range.end}));
    }
    double entering = 0;
    for (const auto& flow : json.at("flows")) {
        if (flow.at("from") == "source") entering += flow.at("tokens_per_s").get<double>();
    }
    EXPECT_NEAR(entering, planned.report.max_flow_tokens_per_s, 1e-3);
    EXPECT_DOUBLE_EQ(json.at("stall_after_loss").at("coordinator").at("bound_s"),
                     takeover_bound_s(TakeoverRule{}));
}

}  // namespace
}  // namespace helix::plan::plan_output_test
