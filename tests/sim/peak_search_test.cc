#include "sim/throughput/peak_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace helix::sim::peak_search_test {
namespace {

// Serves all that is offered up to its knee, and no more than that however much comes.
struct Knee {
    double at = 0;
    std::vector<double> tried{};
    base::Result<double> operator()(double offered) {
        tried.push_back(offered);
        return std::min(offered, at);
    }
};

TEST(PeakSearch, FindsTheKneeFromBelowAndAboveAndFarAway) {
    for (const double guess : {900.0, 1000.0, 1300.0, 50.0, 60'000.0}) {
        Knee knee{.at = 1000};
        const auto peak = find_peak(guess, [&](double rate) { return knee(rate); });
        ASSERT_TRUE(peak.ok()) << peak.error().message;
        // 97 % of a rate is enough, and the next rate tried is at most 2 % higher.
        EXPECT_LE(peak->tokens_per_s, 1000 / 0.97) << guess;
        EXPECT_GE(peak->tokens_per_s, 1000 / 0.97 / 1.02) << guess;
        EXPECT_EQ(peak->served_tokens_per_s, std::min(peak->tokens_per_s, 1000.0));
        EXPECT_EQ(static_cast<std::size_t>(peak->runs), knee.tried.size());
        EXPECT_LE(peak->runs, guess < 100 || guess > 2000 ? 16 : 7) << guess;
    }
}

TEST(PeakSearch, ACollapseAboveTheKneeIsNotMistakenForCapacity) {
    const auto served = [](double rate) -> base::Result<double> {
        return rate <= 400 ? rate : 400 * std::exp(-(rate - 400) / 50);
    };
    const auto peak = find_peak(700, served);
    ASSERT_TRUE(peak.ok()) << peak.error().message;
    EXPECT_LE(peak->tokens_per_s, 402);
    EXPECT_GE(peak->tokens_per_s, 400 / 1.02);
}

TEST(PeakSearch, StricterRulesGiveALowerAndSharperPeak) {
    Knee knee{.at = 1000};
    const PeakRules rules{.keeps_up = 0.999, .precision = 0.001};
    const auto peak = find_peak(
        700, [&](double rate) { return knee(rate); }, rules);
    ASSERT_TRUE(peak.ok());
    EXPECT_NEAR(peak->tokens_per_s, 1001, 1.1);
}

TEST(PeakSearch, ErrorsOfARunEndItAndAnEndlessClusterIsSaid) {
    const auto broken = find_peak(
        100, [](double) -> base::Result<double> { return base::invalid("no such layout"); });
    ASSERT_FALSE(broken.ok());
    EXPECT_EQ(broken.error().message, "no such layout");
    const auto endless = find_peak(100, [](double rate) -> base::Result<double> { return rate; });
    ASSERT_FALSE(endless.ok());
    EXPECT_NE(endless.error().message.find("a peak needs an end"), std::string::npos);
    const auto dead = find_peak(100, [](double) -> base::Result<double> { return 0.0; });
    ASSERT_FALSE(dead.ok());
    EXPECT_NE(dead.error().message.find("is sustained"), std::string::npos);
}

TEST(EvenLoad, EveryStretchIsOfferedTheRate) {
    std::vector<RequestLength> rows;
    for (std::int32_t i = 1; i <= 500; ++i) rows.push_back({i * i % 2000 + 1, i % 300 + 1});
    const LengthSource lengths(rows, LengthOrder::sampled);
    const OnlineLoad load = even_load(lengths, 5000, 600);
    EXPECT_EQ(load.process, ArrivalProcess::listed);
    for (double from = 0; from < 600; from += 60) {
        double tokens = 0;
        for (const Arrival& a : load.listed) {
            if (a.at_s >= from && a.at_s < from + 60) {
                tokens += a.length.prompt_tokens + a.length.output_tokens;
            }
        }
        EXPECT_NEAR(tokens / 60, 5000, 75) << from;
    }
}

class TwoRates final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec&, std::int32_t decodes,
                   std::int32_t prompt_tokens) const override {
        return prompt_tokens * 1e-5 + (decodes > 0 ? 2e-3 : 0);
    }
};

// One machine, ten layers: a batch with decodes takes 20 ms whatever their number, a prompt token
// 0.1 ms, so that no policy serves more than 10,000 prompt tokens/s.
TEST(PeakSearch, BelowItsPeakAClusterKeepsUpAndAboveItDoesNot) {
    spec::ClusterSpec cluster;
    cluster.nodes.resize(1);
    cluster.nodes[0].name = "one";
    cluster.links = {{spec::kCoordinator, 0, 1e9, 1e-4}, {0, spec::kCoordinator, 1e9, 1e-4}};
    const TwoRates costs;
    HelixSetup setup;
    setup.cluster = &cluster;
    setup.costs = &costs;
    setup.model.n_layers = 10;
    setup.model.activation_bytes_per_token = 1000;
    setup.model.token_bytes = 2;
    setup.placement.layers = {{0, 10}};
    setup.flows = {{spec::kCoordinator, 0, 100}, {0, spec::kCoordinator, 100}};
    setup.kv_tokens = {200'000};
    setup.lengths = LengthSource({{800, 20}, {1200, 20}}, LengthOrder::sampled);
    std::int32_t runs = 0;
    const auto peak =
        find_peak(setup, [&](const PeakProgress& p) { runs = std::max(runs, p.run); });
    ASSERT_TRUE(peak.ok()) << peak.error().message;
    EXPECT_EQ(peak->runs, runs);
    EXPECT_GT(peak->tokens_per_s, 1000);
    EXPECT_LT(peak->tokens_per_s, 10'200 / 0.97);
    setup.online = even_load(setup.lengths, peak->tokens_per_s * 0.9, 120);
    setup.warmup_s = 60;
    setup.duration_s = 60;
    const auto below = run_helix(setup);
    ASSERT_TRUE(below.ok());
    EXPECT_GT(below->prompt_tokens_per_s + below->decode_tokens_per_s,
              0.97 * 0.9 * peak->tokens_per_s);
    setup.online = even_load(setup.lengths, peak->tokens_per_s * 1.2, 120);
    const auto above = run_helix(setup);
    ASSERT_TRUE(above.ok());
    EXPECT_LT(above->prompt_tokens_per_s + above->decode_tokens_per_s,
              0.97 * 1.2 * peak->tokens_per_s);
}

}  // namespace
}  // namespace helix::sim::peak_search_test
