#include "sim/report/run_detail.h"

#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <vector>

namespace helix::sim::run_detail_test {
namespace {

base::TimePoint at(double seconds) {
    return {base::from_seconds(seconds).ns};
}

struct Watched {
    spec::ClusterSpec cluster;
    spec::Placement placement;
    std::unique_ptr<RunDetailObserver> observer;
};

// Two machines of one layer each; the window is [10 s, 20 s).
std::unique_ptr<Watched> two_machines(double ttft_slo_s, double tpot_slo_s) {
    auto watched = std::make_unique<Watched>();
    watched->cluster.nodes.resize(2);
    watched->cluster.nodes[0].name = "a";
    watched->cluster.nodes[1].name = "b";
    watched->placement.layers = {{0, 1}, {1, 2}};
    RunDetailOptions options;
    options.window_begin = at(10);
    options.window_end = at(20);
    options.ttft_slo_s = ttft_slo_s;
    options.tpot_slo_s = tpot_slo_s;
    watched->observer = std::make_unique<RunDetailObserver>(watched->cluster, watched->placement,
                                                            std::vector<double>{100, 200}, options);
    return watched;
}

// Created, given a place a second later, first token after two, two more half a second apart.
void one_request(RunDetailObserver& observer, std::uint64_t id, double from_s) {
    observer.request_created(id, at(from_s), 90, 10);
    observer.request_admitted(id, at(from_s + 1), {});
    observer.token(id, at(from_s + 2));
    observer.token(id, at(from_s + 2.5));
    observer.token(id, at(from_s + 3));
    observer.request_finished(id, at(from_s + 3));
}

TEST(RunDetail, CountsWhatHappensInTheWindow) {
    const auto watched = two_machines(0, 0);
    one_request(*watched->observer, 0, 8.5);  // created before it
    one_request(*watched->observer, 1, 12);
    one_request(*watched->observer, 2, 18);  // ends after it
    watched->observer->request_created(3, at(19), 50, 50);
    watched->observer->request_rejected(3, at(19));
    const RunDetail detail = watched->observer->detail();
    EXPECT_DOUBLE_EQ(detail.offered_tokens_per_s, 30);
    EXPECT_DOUBLE_EQ(detail.requests_per_s, 0.2);
    EXPECT_EQ(detail.created, 3U);
    EXPECT_EQ(detail.finished, 2U);
    EXPECT_EQ(detail.rejected, 1U);
    EXPECT_EQ(detail.queueing.count, 2U);
    EXPECT_NEAR(detail.queueing.mean, 1, 1e-9);
    EXPECT_NEAR(detail.latency.mean, 3, 1e-9);
    EXPECT_DOUBLE_EQ(detail.goodput_per_s, 0.2);
    EXPECT_DOUBLE_EQ(detail.good_share, 2.0 / 3);
}

TEST(RunDetail, GoodputKeepsBothLimits) {
    for (const auto& [ttft, tpot, good] : {std::tuple{2.0, 0.5, 0.1}, std::tuple{1.9, 0.5, 0.0},
                                           std::tuple{2.0, 0.4, 0.0}, std::tuple{0.0, 0.5, 0.1}}) {
        const auto watched = two_machines(ttft, tpot);
        one_request(*watched->observer, 0, 12);
        EXPECT_DOUBLE_EQ(watched->observer->detail().goodput_per_s, good) << ttft << ' ' << tpot;
    }
}

TEST(RunDetail, LinksAndKvMemoryAreSharesOfTheWindow) {
    const auto watched = two_machines(0, 0);
    RunDetailObserver& observer = *watched->observer;
    observer.link_carried({-1, 0, at(9), at(11), 1000, {}});  // half of it inside
    observer.link_carried({0, 1, at(12), at(15), 3000, base::from_seconds(2)});
    observer.link_carried({0, 1, at(15), at(16), 1000, {}});
    observer.kv_used(0, at(5), 50);
    observer.kv_used(0, at(12), 80);
    observer.kv_used(0, at(15), 0);
    observer.kv_used(1, at(25), 200);
    const RunDetail detail = observer.detail();
    ASSERT_EQ(detail.links.size(), 2U);
    EXPECT_EQ(detail.links[0].from, "a");
    EXPECT_EQ(detail.links[0].to, "b");
    EXPECT_DOUBLE_EQ(detail.links[0].busy, 0.4);
    EXPECT_DOUBLE_EQ(detail.links[0].bytes_per_s, 400);
    EXPECT_DOUBLE_EQ(detail.links[0].mean_wait_s, 1);
    EXPECT_EQ(detail.links[1].from, "coordinator");
    EXPECT_DOUBLE_EQ(detail.links[1].busy, 0.1);
    ASSERT_EQ(detail.nodes.size(), 2U);
    EXPECT_DOUBLE_EQ(detail.nodes[0].kv_mean, (2 * 0.5 + 3 * 0.8) / 10);
    EXPECT_DOUBLE_EQ(detail.nodes[0].kv_peak, 0.8);
    EXPECT_DOUBLE_EQ(detail.nodes[1].kv_peak, 0);
}

}  // namespace
}  // namespace helix::sim::run_detail_test
