#include "core/coordinator/auto_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

namespace helix::core::auto_scale_test {
namespace {

// Nodes of 10,000 tokens that share the load evenly; each sequence has 100 tokens.
class Cluster {
  public:
    explicit Cluster(const AutoScaleConfig& config) : scaler_(config) { add_node(); }

    // Goes on to this time, at which this many sequences run.
    void at(double s, std::int64_t sequences) {
        const TimePoint now{static_cast<std::int64_t>(s * 1e9)};
        while (!coming_.empty() && now >= coming_.front()) {
            add_node();
            coming_.erase(coming_.begin());
        }
        ScaleView view;
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            const auto n = static_cast<std::int64_t>(nodes_.size());
            const std::int64_t here =
                sequences / n + (static_cast<std::int64_t>(i) < sequences % n ? 1 : 0);
            NodeLoad load(1, 10'000, 0);
            if (here > 0) {
                load.add({UsageKind::running, 100 * here, 1, static_cast<std::int32_t>(here)});
            }
            view.nodes.push_back({nodes_[i], load});
            view.spare.push_back(i != 0);
        }
        const auto decision = scaler_.step(now, view);
        if (!decision) return;
        changes.push_back({s, decision->add});
        if (decision->add) {
            coming_.push_back(now + start_time);
            most_coming = std::max(most_coming, coming_.size());
        } else {
            EXPECT_NE(decision->stop.value, 0U);  // it cannot be spared
            EXPECT_EQ(std::erase(nodes_, decision->stop), 1U);
        }
    }
    std::size_t size() const { return nodes_.size(); }
    AutoScaler& scaler() { return scaler_; }

    struct Change {
        double s;
        bool add;
    };
    std::vector<Change> changes;
    std::size_t most_coming = 0;  // at once
    Duration start_time = base::from_seconds(5);

  private:
    void add_node() { nodes_.push_back({next_++}); }
    AutoScaler scaler_;
    std::vector<WorkerId> nodes_;
    std::vector<TimePoint> coming_;
    std::uint32_t next_ = 0;
};

AutoScaleConfig four() {
    AutoScaleConfig config;
    config.low = 64;
    config.max_nodes = 4;
    return config;
}

TEST(AutoScale, AStepLoadAddsNodesAndTakesThemAwayAgain) {
    Cluster cluster(four());
    std::size_t most = 0;
    for (int s = 0; s < 1500; ++s) {
        cluster.at(s, s >= 100 && s < 600 ? 180 : 5);
        most = std::max(most, cluster.size());
    }
    // With 180 sequences of 100 tokens two nodes leave each sequence 11 tokens, three 66, four 122.
    EXPECT_EQ(most, 3U);
    EXPECT_EQ(cluster.size(), 1U);
    ASSERT_EQ(cluster.changes.size(), 4U);  // twice up, twice down
    EXPECT_TRUE(cluster.changes[0].add && cluster.changes[1].add);
    EXPECT_FALSE(cluster.changes[2].add || cluster.changes[3].add);
    EXPECT_GE(cluster.changes[2].s, 600);
}

// Machines take their time to start: as many as are missing are asked for, without waiting for the
// first of them, and no more.
TEST(AutoScale, ASteepRiseStartsSeveralAtOnce) {
    Cluster cluster(four());
    cluster.start_time = base::from_seconds(60);
    for (int s = 0; s < 100; ++s) cluster.at(s, 180);
    EXPECT_EQ(cluster.most_coming, 2U);
    EXPECT_EQ(cluster.size(), 3U);  // 66 tokens of freeness each
    ASSERT_EQ(cluster.changes.size(), 2U);
    EXPECT_LE(cluster.changes[1].s, cluster.changes[0].s + 2);
}

// Through one period it may go up and down once each way; noise within the band changes nothing.
TEST(AutoScale, DoesNotFlapUnderASine) {
    for (const double period_s : {20.0, 60.0, 300.0, 2000.0}) {
        Cluster cluster(four());
        int turns = 0;
        for (int s = 0; s < 6000; ++s) {
            const double wave = std::sin(2 * std::numbers::pi * s / period_s);
            cluster.at(s, static_cast<std::int64_t>(100 + 90 * wave));
        }
        for (std::size_t i = 1; i < cluster.changes.size(); ++i) {
            if (cluster.changes[i].add != cluster.changes[i - 1].add) ++turns;
        }
        EXPECT_LE(turns, 2 * 6000 / period_s + 1) << period_s;
        EXPECT_LE(turns, 6000 / 90) << period_s;
        // A quick wave is not followed at all.
        if (period_s <= 60) {
            EXPECT_LE(cluster.changes.size(), 3U) << period_s;
        }
    }
}

TEST(AutoScale, ConstantLoadComesToRest) {
    for (std::int64_t sequences = 0; sequences <= 400; sequences += 7) {
        Cluster cluster(four());
        for (int s = 0; s < 3000; ++s) cluster.at(s, sequences);
        EXPECT_LE(cluster.changes.size(), 4U) << sequences;
        if (!cluster.changes.empty()) {
            EXPECT_LT(cluster.changes.back().s, 1000) << sequences;
        }
    }
}

TEST(AutoScale, AShortPeakChangesNothing) {
    Cluster cluster(four());
    for (int s = 0; s < 500; ++s) cluster.at(s, s % 20 < 8 ? 180 : 60);
    EXPECT_TRUE(cluster.changes.empty());
}

TEST(AutoScale, ANodeThatDoesNotComeIsAskedForAgain) {
    AutoScaleConfig config = four();
    config.max_nodes = 2;
    Cluster cluster(config);
    cluster.start_time = base::from_seconds(1e6);
    for (int s = 0; s < 300; ++s) cluster.at(s, 180);
    ASSERT_EQ(cluster.changes.size(), 1U);  // one that starts is waited for
    AutoScaler scaler(config);
    ScaleView full;
    full.nodes.push_back({{0}, NodeLoad(1, 100, 0)});
    full.nodes[0].load.add({UsageKind::running, 90, 1});
    full.spare = {0};
    const auto adds_at = [&](double s) {
        return scaler.step({static_cast<std::int64_t>(s * 1e9)}, full).has_value();
    };
    EXPECT_FALSE(adds_at(0));
    EXPECT_FALSE(adds_at(29));  // the number of nodes was first seen at 0
    EXPECT_TRUE(adds_at(30));
    EXPECT_FALSE(adds_at(100));
    scaler.could_not({110'000'000'000});
    EXPECT_FALSE(adds_at(120));
    EXPECT_TRUE(adds_at(150));
}

// A node that is empty, as one that has just come is, does not hide that the others are full.
TEST(AutoScale, OneEmptyNodeBesideFullOnesIsTooLittle) {
    AutoScaler scaler(four());
    ScaleView view;
    for (std::uint32_t i = 0; i < 3; ++i) {
        view.nodes.push_back({{i}, NodeLoad(1, 10'000, 0)});
        view.spare.push_back(1);
    }
    const auto decide = [&] {
        std::optional<ScaleDecision> decision;
        for (int s = 0; s < 200 && !decision; ++s) {
            decision = scaler.step({s * 1'000'000'000LL}, view);
        }
        return decision;
    };
    // 200 sequences share what is left, which gives each 60 tokens. The mean of the three nodes
    // would be 3350.
    for (std::uint32_t i = 0; i < 2; ++i) {
        view.nodes[i].load.add({UsageKind::running, 9'000, 1, 100});
    }
    const auto decision = decide();
    ASSERT_TRUE(decision);
    EXPECT_TRUE(decision->add);
}

// A load that falls and stays low: the first stop waits for hold_down, the others for the
// cool-down.
TEST(AutoScale, FallingLoadIsFollowedWithoutWaitingAnewForEachNode) {
    AutoScaleConfig config = four();
    config.min_nodes = 1;
    Cluster cluster(config);
    for (int s = 0; s < 300; ++s) cluster.at(s, 250);
    ASSERT_EQ(cluster.size(), 4U);
    const std::size_t before = cluster.changes.size();
    for (int s = 300; s < 600; ++s) cluster.at(s, 2);
    EXPECT_EQ(cluster.size(), 1U);
    ASSERT_EQ(cluster.changes.size(), before + 3);
    EXPECT_NEAR(cluster.changes[before].s, 360, 1);
    EXPECT_NEAR(cluster.changes[before + 1].s, 391, 1);
    EXPECT_NEAR(cluster.changes[before + 2].s, 422, 1);
}

// A node that is lost was not stopped by us, so what is left must prove for hold_down that it is
// enough.
TEST(AutoScale, ANodeThatIsLostBeginsTheWaitAnew) {
    AutoScaleConfig config = four();
    AutoScaler scaler(config);
    ScaleView view;
    for (std::uint32_t i = 0; i < 3; ++i) {
        view.nodes.push_back({{i}, NodeLoad(1, 10'000, 0)});
        view.spare.push_back(1);
    }
    const auto stops_at = [&](int s) {
        return scaler.step({s * 1'000'000'000LL}, view).has_value();
    };
    for (int s = 0; s < 50; ++s) ASSERT_FALSE(stops_at(s));
    view.nodes.pop_back();
    view.spare.pop_back();
    for (int s = 50; s < 110; ++s) ASSERT_FALSE(stops_at(s)) << s;
    EXPECT_TRUE(stops_at(110));
}

TEST(AutoScale, StopsTheLeastLoadedThatCanBeSpared) {
    AutoScaleConfig config = four();
    AutoScaler scaler(config);
    ScaleView view;
    for (std::uint32_t i = 0; i < 3; ++i) {
        view.nodes.push_back({{i}, NodeLoad(1, 100'000, 0)});
        view.nodes[i].load.add({UsageKind::running, 100, 1, static_cast<std::int32_t>(i + 1)});
    }
    view.spare = {0, 1, 1};
    std::optional<ScaleDecision> decision;
    for (int s = 0; s < 200 && !decision; ++s) decision = scaler.step({s * 1'000'000'000LL}, view);
    ASSERT_TRUE(decision);
    EXPECT_FALSE(decision->add);
    EXPECT_EQ(decision->stop.value, 1U);
    // While a node drains no other one goes.
    view.nodes[1].load.add({UsageKind::draining});
    for (int s = 200; s < 600; ++s) EXPECT_FALSE(scaler.step({s * 1'000'000'000LL}, view));
}

}  // namespace
}  // namespace helix::core::auto_scale_test
