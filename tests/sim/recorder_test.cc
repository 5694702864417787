#include "sim/report/recorder.h"

#include <gtest/gtest.h>

#include <numeric>

#include "sim/fake_cluster.h"

namespace helix::sim::recorder_test {
namespace {

base::TimePoint at(double s) {
    return {base::from_seconds(s).ns};
}

spec::ClusterSpec two_nodes() {
    spec::ClusterSpec cluster;
    cluster.nodes.resize(2);
    cluster.nodes[0].name = "a";
    cluster.nodes[1].name = "b";
    cluster.links = {{0, 1, 1e6, 0.001}};
    return cluster;
}

class RecorderTest : public ::testing::Test {
  protected:
    static RecorderOptions options() {
        RecorderOptions o;
        o.window_begin = at(10);
        o.window_end = at(20);
        o.ttft_limit_s = 2;
        o.tpot_limit_s = 0.5;
        return o;
    }
    Recorder recorder_{two_nodes(), spec::Placement{{{0, 4}, {2, 8}}}, 8, {1000, 0}, options()};
};

TEST_F(RecorderTest, CountsOnlyWhatHappensInsideTheWindow) {
    recorder_.request_created(1, at(9), 100, 3);
    recorder_.request_admitted(1, at(9.5), {});
    recorder_.token(1, at(11));  // TTFT 2 s; queueing was before the window
    recorder_.token(1, at(12));  // TPOT 1 s
    recorder_.token(1, at(12.5));
    recorder_.request_finished(1, at(12.5));
    recorder_.request_created(2, at(19), 50, 9);
    recorder_.request_admitted(2, at(19.5), {});
    recorder_.token(2, at(21));
    recorder_.request_created(3, at(19.5), 50, 9);
    recorder_.request_rejected(3, at(19.6));
    const Recording r = recorder_.recording(at(22));
    EXPECT_EQ(r.ttft.count(), 1U);
    EXPECT_DOUBLE_EQ(r.ttft.mean(), 2);
    EXPECT_EQ(r.tpot.count(), 2U);
    EXPECT_DOUBLE_EQ(r.tpot.mean(), 0.75);
    EXPECT_EQ(r.queueing.count(), 1U);
    EXPECT_DOUBLE_EQ(r.queueing.mean(), 0.5);
    EXPECT_DOUBLE_EQ(r.latency.mean(), 3.5);
    EXPECT_DOUBLE_EQ(r.decode_tokens_per_s, 0.2);
    EXPECT_DOUBLE_EQ(r.prompt_tokens_per_s, 10);
    EXPECT_EQ(r.created, 2U);
    EXPECT_EQ(r.finished, 1U);
    EXPECT_EQ(r.rejected, 1U);
    EXPECT_EQ(r.good, 0U);  // a mean TPOT of 0.75 s is over 0.5 s
    EXPECT_DOUBLE_EQ(r.mean_running, (2.5 + 0.5) / 10);
    EXPECT_DOUBLE_EQ(r.mean_waiting, (0.5 + 0.1) / 10);
}

TEST_F(RecorderTest, ARequestIsGoodWhenItKeepsBothLimits) {
    struct Case {
        double first_s;
        double second_s;
    };
    std::uint64_t id = 0;
    for (const Case& c : {Case{12, 12.5}, Case{12.1, 12.2}, Case{11, 11.6}, Case{11, 11.1}}) {
        recorder_.request_created(++id, at(10), 1, 2);
        recorder_.request_admitted(id, at(10), {});
        recorder_.token(id, at(c.first_s));
        recorder_.token(id, at(c.second_s));
        recorder_.request_finished(id, at(c.second_s));
    }
    const Recording r = recorder_.recording(at(20));
    EXPECT_EQ(r.finished, 4U);
    EXPECT_EQ(r.good, 2U);
    EXPECT_DOUBLE_EQ(r.goodput_per_s, 0.2);
}

TEST_F(RecorderTest, NodesAreBusyForTheirPartOfTheWindow) {
    recorder_.node_computed({0, at(8), at(11), {0, 4}, 5, 0});
    recorder_.node_computed({1, at(12), at(13), {4, 8}, 3, 10});
    recorder_.node_computed({0, at(19), at(25), {0, 4}, 7, 0});
    const Recording r = recorder_.recording(at(25));
    EXPECT_DOUBLE_EQ(r.nodes[0].busy, 0.2);
    EXPECT_DOUBLE_EQ(r.nodes[1].busy, 0.1);
    EXPECT_EQ(r.nodes[0].batches, 1U);  // the later one ends outside
    EXPECT_DOUBLE_EQ(r.nodes[0].decode_tokens_per_s, 0.5);
    EXPECT_DOUBLE_EQ(r.nodes[1].mean_decodes, 3);
    // 4 of the 6 layers that b holds.
    EXPECT_DOUBLE_EQ(r.nodes[1].decode_tokens_per_s, 0.3 * 4 / 6);
    EXPECT_DOUBLE_EQ(r.nodes[1].prompt_tokens_per_s, 1.0 * 4 / 6);
    EXPECT_EQ(r.nodes[1].layer_tokens_per_s, (std::vector<double>{0, 0, 0, 0, 1.3, 1.3, 1.3, 1.3}));
    const Series& busy = r.nodes[0].busy_over_time;
    const double seconds = std::accumulate(busy.begin(), busy.end() - 1, 0.0) * r.bucket_s +
                           busy.back() * (25 - r.bucket_s * static_cast<double>(busy.size() - 1));
    EXPECT_NEAR(seconds, 9, 1e-9);
}

TEST_F(RecorderTest, KvUseIsAStepFunction) {
    recorder_.kv_used(0, at(5), 900);
    recorder_.kv_used(0, at(9), 200);
    recorder_.kv_used(0, at(15), 400);
    recorder_.kv_used(1, at(15), 400);
    const Recording r = recorder_.recording(at(20));
    EXPECT_DOUBLE_EQ(r.nodes[0].kv_mean, 0.3);
    EXPECT_DOUBLE_EQ(r.nodes[0].kv_peak, 0.4);  // 0.9 was before the window
    EXPECT_EQ(r.nodes[1].kv_peak, 0);           // capacity unknown
    const auto bucket = static_cast<std::size_t>(6 / r.bucket_s);
    EXPECT_DOUBLE_EQ(r.nodes[0].kv_over_time.at(bucket), 0.9);
}

TEST_F(RecorderTest, LinksAreListedByLoad) {
    recorder_.link_carried({spec::kCoordinator, 0, at(11), at(11.1), 400, {}});
    recorder_.link_carried({0, 1, at(11), at(13), 2e6, {}});
    recorder_.link_carried({0, 1, at(13), at(14), 1e6, base::from_seconds(1.5)});
    const Recording r = recorder_.recording(at(20));
    ASSERT_EQ(r.links.size(), 2U);
    EXPECT_EQ(r.links[0].from, 0);
    EXPECT_EQ(r.links[0].to, 1);
    EXPECT_DOUBLE_EQ(r.links[0].busy, 0.3);
    EXPECT_DOUBLE_EQ(r.links[0].carried_bytes, 3e6);
    EXPECT_DOUBLE_EQ(r.links[0].mean_wait_s, 0.75);
    EXPECT_DOUBLE_EQ(r.links[0].most_wait_s, 1.5);
    EXPECT_DOUBLE_EQ(r.links[0].bytes_per_s, 1e6);
    EXPECT_NEAR(r.links[0].busiest, 1, 1e-9);
    EXPECT_EQ(r.links[1].bytes_per_s, 0);
}

TEST_F(RecorderTest, LayerAfterLayerOnOneNodeIsOneStay) {
    ASSERT_TRUE(recorder_.request_created(7, at(11), 10, 2));
    EXPECT_FALSE(recorder_.request_created(8, at(9), 10, 2));  // not the window's
    recorder_.request_admitted(7, at(11.5), {});
    recorder_.request_moved({7, spec::kCoordinator, 0, at(11.5), at(11.5), at(11.6)});
    recorder_.request_computed({7, 0, at(11.6), at(11.7), {0, 1}, 10});
    recorder_.request_computed({7, 0, at(11.8), at(11.9), {1, 2}, 10});
    recorder_.request_computed({8, 0, at(11.8), at(11.9), {1, 2}, 10});
    recorder_.request_moved({7, 0, 1, at(11.9), at(11.9), at(12)});
    recorder_.request_computed({7, 1, at(12), at(12.5), {2, 8}, 10});
    recorder_.token(7, at(12.6));
    const Recording r = recorder_.recording(at(13));
    ASSERT_EQ(r.timelines.size(), 1U);
    const Timeline& t = r.timelines[0];
    EXPECT_DOUBLE_EQ(t.admitted_s, 11.5);
    EXPECT_DOUBLE_EQ(t.first_token_s, 12.6);
    EXPECT_EQ(t.ended_s, -1);
    ASSERT_EQ(t.slices.size(), 4U);
    EXPECT_TRUE(t.slices[0].layers.empty());
    EXPECT_EQ(t.slices[1].layers, (spec::LayerRange{0, 2}));
    EXPECT_DOUBLE_EQ(t.slices[1].begin_s, 11.6);
    EXPECT_DOUBLE_EQ(t.slices[1].end_s, 11.9);
    EXPECT_TRUE(t.complete);
}

TEST_F(RecorderTest, ARunThatStopsEarlyIsRatedOverWhatThereWas) {
    recorder_.request_created(1, at(10), 100, 3);
    recorder_.request_admitted(1, at(10), {});
    recorder_.token(1, at(11));
    const Recording r = recorder_.recording(at(12));
    EXPECT_DOUBLE_EQ(r.window_s(), 2);
    EXPECT_DOUBLE_EQ(r.prompt_tokens_per_s, 50);
    EXPECT_DOUBLE_EQ(r.mean_running, 1);
}

TEST(Recorder, CountsFromAdmissionWhereQueuesAreKeptFull) {
    RecorderOptions options;
    options.window_end = at(100);
    options.from_admission = true;
    options.ttft_limit_s = 1.5;
    Recorder recorder(two_nodes(), spec::Placement{{{0, 4}, {2, 8}}}, 8, {}, options);
    recorder.request_created(1, at(0), 5, 1);
    recorder.request_admitted(1, at(50), {});
    recorder.token(1, at(51));
    recorder.request_preempted(1, at(52));
    recorder.request_admitted(1, at(53), {});
    recorder.token(1, at(54));
    recorder.request_finished(1, at(54));
    const Recording r = recorder.recording(at(54));
    EXPECT_DOUBLE_EQ(r.ttft.mean(), 1);
    EXPECT_DOUBLE_EQ(r.tpot.mean(), 3);
    EXPECT_DOUBLE_EQ(r.latency.mean(), 4);
    EXPECT_DOUBLE_EQ(r.queueing.mean(), 50);
    EXPECT_EQ(r.preempted, 1U);
    EXPECT_EQ(r.good, 1U);
}

TEST(Recorder, FollowsAFairAndRepeatableChoiceOfRequests) {
    std::vector<int> chosen(100);
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        RecorderOptions options;
        options.window_end = at(1000);
        options.timelines = 10;
        options.seed = seed;
        Recorder recorder(two_nodes(), spec::Placement{{{0, 4}, {2, 8}}}, 8, {}, options);
        for (std::uint64_t id = 0; id < 100; ++id) {
            recorder.request_created(id, at(static_cast<double>(id)), 1, 1);
        }
        const Recording r = recorder.recording(at(100));
        ASSERT_EQ(r.timelines.size(), 10U);
        for (const Timeline& t : r.timelines) ++chosen[t.request];
    }
    // Each is drawn 40 times of 400; six standard deviations.
    for (const int times : chosen) EXPECT_NEAR(times, 40, 36);
}

TEST(Recorder, AgreesWithItselfOverAWholeFakeRun) {
    FakeClusterConfig config;
    config.run_s = 60;
    FakeCluster world(config, nullptr);
    RecorderOptions options;
    options.window_begin = at(10);
    options.window_end = at(60);
    Recorder recorder(world.cluster(), world.placement(), config.n_layers, world.kv_capacity(),
                      options);
    world.watch(&recorder);
    world.run();
    const Recording r = recorder.recording(world.now());
    EXPECT_GT(r.finished, 150U);
    // Every token that leaves the cluster has passed every layer.
    double through = 0;
    for (const NodeRecord& node : r.nodes) through += node.layer_tokens_per_s[5];
    EXPECT_NEAR(through / (r.decode_tokens_per_s + r.prompt_tokens_per_s), 1, 0.05);
    EXPECT_NEAR(r.tpot.mean() * r.decode_tokens_per_s + r.ttft.mean() * 4,
                r.mean_running + r.mean_waiting, 0.1 * r.mean_running);  // Little's law
    EXPECT_LE(r.decode_over_time.size(), options.buckets);
    for (const NodeRecord& node : r.nodes) {
        EXPECT_GT(node.busy, 0.02) << node.name;
        EXPECT_LE(node.busy, 1 + 1e-9) << node.name;
        for (const double busy : node.busy_over_time) EXPECT_LE(busy, 1 + 1e-9) << node.name;
    }
    EXPECT_EQ(r.timelines.size(), options.timelines);
}

}  // namespace
}  // namespace helix::sim::recorder_test
