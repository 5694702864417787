#include "sim/published/reference_world.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace helix::sim::reference_world_test {
namespace {

constexpr double kBandwidth = 1e8;
constexpr double kLatency = 0.01;
constexpr double kActivation = 1000;
constexpr double kToken = 2;

// One layer takes 1 ms per 100 prompt tokens and 2 ms per decoding sequence.
ReferenceMachine plain_machine() {
    return {spec::TimeCurve({0, 100, 10'000}, {0, 0.001, 0.1}),
            spec::TimeCurve({0, 1, 1000}, {0, 0.002, 2.0})};
}

ReferenceNode node_with(std::int32_t index, spec::LayerRange layers) {
    ReferenceNode node;
    node.node = index;
    node.layers = layers;
    node.kv_capacity = 100'000;
    node.prompt_max_requests = 2;
    node.prompt_max_tokens = 4096;
    node.decode_max_context = 1'000'000;
    node.decode_max_sequences = 100;
    node.nic_in_bytes_per_s = 1e10;
    node.nic_out_bytes_per_s = 1e10;
    return node;
}

// Stages of equal nodes; every node of a stage is linked to all of the next.
ReferenceSetup stages_of(const std::vector<std::int32_t>& widths, std::int32_t layers_each) {
    ReferenceSetup setup;
    setup.n_layers = static_cast<std::int32_t>(widths.size()) * layers_each;
    setup.token_bytes = kToken;
    setup.activation_bytes = kActivation;
    setup.coordinator_nic_in_bytes_per_s = 1e10;
    setup.coordinator_nic_out_bytes_per_s = 1e10;
    setup.machines.push_back(plain_machine());
    std::vector<std::int32_t> before = {spec::kCoordinator};
    std::int32_t begin = 0;
    const auto link = [&](std::int32_t from, std::int32_t to) {
        setup.links.push_back({from, to, kLatency, kBandwidth, 100});
    };
    for (const std::int32_t width : widths) {
        std::vector<std::int32_t> stage;
        for (std::int32_t k = 0; k < width; ++k) {
            stage.push_back(static_cast<std::int32_t>(setup.nodes.size()));
            setup.nodes.push_back(node_with(stage.back(), {begin, begin + layers_each}));
            for (const std::int32_t from : before) link(from, stage.back());
        }
        begin += layers_each;
        before = stage;
    }
    for (const std::int32_t from : before) link(from, spec::kCoordinator);
    setup.n_cluster_nodes = setup.nodes.size();
    setup.lengths = LengthSource({{200, 5}, {400, 20}, {50, 60}}, LengthOrder::sampled);
    setup.warmup_s = 0;
    setup.duration_s = 60;
    return setup;
}

double copy_s(double tokens) {
    return tokens * kActivation / 4e9 + tokens * kActivation / 5e9;
}

TEST(ReferenceWorld, OneRequestAloneTakesWhatTheFormulasSay) {
    ReferenceSetup setup = stages_of({1, 1}, 3);
    setup.lengths = LengthSource({{200, 4}}, LengthOrder::recorded);
    setup.offline.initial = 1;
    setup.offline.feed_below = -1;  // nobody follows
    const auto report = run_reference(setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const double prompt_s = 3 * kLatency + (200 * kToken + kToken * 200) / kBandwidth +
                            200 * (kToken + kActivation) / kBandwidth + 6 * 0.002 + 2 * copy_s(200);
    // A decode alone in its batch costs double.
    const double decode_s = 3 * kLatency + 2 * kToken / kBandwidth +
                            (kToken + kActivation) / kBandwidth + 6 * 0.004 + 2 * copy_s(1);
    EXPECT_NEAR(report->ttft.mean, prompt_s, 1e-12);
    EXPECT_NEAR(report->tpot.mean, decode_s, 1e-12);
    EXPECT_EQ(report->tpot.count, 4U);
    EXPECT_EQ(report->iterations, 5U);
    EXPECT_EQ(report->finished, 1U);
    EXPECT_DOUBLE_EQ(report->mean_depth, 2);
    EXPECT_NEAR(report->decode_tokens_per_s, 4 / 60.0, 1e-12);
    EXPECT_NEAR(report->prompt_tokens_per_s, 200 / 60.0, 1e-12);
    EXPECT_NEAR(report->kv_peak, 204 * 3 / 100'000.0, 1e-12);
    EXPECT_NEAR(report->mean_resident, (prompt_s + 4 * decode_s) / 60, 1e-9);
    EXPECT_NEAR(report->node_busy[0] * 60, 3 * 0.002 + copy_s(200) + 4 * (3 * 0.004 + copy_s(1)),
                1e-9);
}

TEST(ReferenceWorld, AStageThatOverlapsRunsOnlyItsTail) {
    ReferenceSetup setup = stages_of({1, 1}, 3);
    setup.nodes[1].layers = {1, 6};
    setup.lengths = LengthSource({{100, 1}}, LengthOrder::recorded);
    setup.offline.initial = 1;
    setup.offline.feed_below = -1;
    const auto report = run_reference(setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    // What arrives in the middle of a node is copied only when its first layer runs: never here.
    const double compute_s = 6 * 0.001 + copy_s(100);
    EXPECT_NEAR(
        report->ttft.mean,
        3 * kLatency + (2 * 100 * kToken + 100 * (kToken + kActivation)) / kBandwidth + compute_s,
        1e-12);
    EXPECT_NEAR(report->kv_peak, 101 * 3 / 100'000.0, 1e-12);
}

class EverySchedulerTest : public testing::TestWithParam<ReferenceScheduler> {};

TEST_P(EverySchedulerTest, EqualSeedsGiveEqualRunsAndOthersDoNot) {
    ReferenceSetup setup = stages_of({2, 3, 2}, 2);
    setup.scheduler = GetParam();
    setup.offline.initial = 12;
    setup.seed = 7;
    const auto first = run_reference(setup);
    const auto second = run_reference(setup);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->digest, second->digest);
    EXPECT_EQ(first->events, second->events);
    EXPECT_EQ(first->ttft.mean, second->ttft.mean);
    setup.seed = 8;
    const auto other = run_reference(setup);
    ASSERT_TRUE(other.ok());
    EXPECT_NE(first->digest, other->digest);
}

TEST_P(EverySchedulerTest, EveryRequestThatComesInGoesOut) {
    ReferenceSetup setup = stages_of({2, 3, 2}, 2);
    setup.scheduler = GetParam();
    setup.online = OnlineLoad{ArrivalProcess::poisson, 600, {}};
    setup.duration_s = 60;
    auto lengths = setup.lengths;
    PythonRandom random(setup.seed);
    const auto arrivals = make_arrivals(*setup.online, lengths, 0, 60, random);
    ASSERT_TRUE(arrivals.ok());
    const auto report = run_reference(setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->admitted, arrivals->size());
    EXPECT_EQ(report->rejected, 0U);
    EXPECT_GE(report->finished + 12, report->admitted);
    EXPECT_GT(report->finished, 20U);
    EXPECT_DOUBLE_EQ(report->mean_depth, 3);
    EXPECT_LT(report->kv_peak, 0.5);
}

INSTANTIATE_TEST_SUITE_P(All, EverySchedulerTest,
                         testing::Values(ReferenceScheduler::max_flow, ReferenceScheduler::swarm,
                                         ReferenceScheduler::random,
                                         ReferenceScheduler::shortest_queue));

TEST(ReferenceWorld, BaselinesKeepTheirPopulation) {
    ReferenceSetup setup = stages_of({1, 2}, 2);
    setup.scheduler = ReferenceScheduler::swarm;
    setup.offline.initial = 9;
    setup.warmup_s = 10;
    const auto report = run_reference(setup);
    ASSERT_TRUE(report.ok());
    // Every end is followed by a new request after the pause.
    EXPECT_GT(report->mean_resident, 8.0);
    EXPECT_LE(report->mean_resident, 9.0);
}

TEST(ReferenceWorld, PromptsThatDoNotFitTheKvEstimateAreRefused) {
    ReferenceSetup setup = stages_of({1, 1}, 2);
    for (ReferenceNode& node : setup.nodes) node.kv_capacity = 4000;
    setup.lengths = LengthSource({{400, 20}}, LengthOrder::recorded);
    setup.offline.initial = 5;
    const auto report = run_reference(setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    // One request is expected to take 2 x 640; two leave less than 15 % of 4000.
    EXPECT_LE(report->kv_peak, 2 * 2 * 420 / 4000.0);
    EXPECT_GT(report->rejected, 0U);
    EXPECT_FALSE(report->kv_overflowed);
}

TEST(ReferenceWorld, DecodesFirstServesDecodesSoonerAndPromptsLater) {
    ReferenceSetup setup = stages_of({1, 1}, 4);
    setup.offline.initial = 20;
    for (ReferenceNode& node : setup.nodes) node.kv_capacity = 60'000;
    const auto fifo = run_reference(setup);
    setup.batching.order = ReferenceBatching::Order::decode_first;
    const auto first = run_reference(setup);
    ASSERT_TRUE(fifo.ok() && first.ok());
    EXPECT_LT(first->tpot.mean, fifo->tpot.mean);
    EXPECT_GT(first->ttft.mean, fifo->ttft.mean);
}

// Alone, a request pays what the published rules count, results on their way out, and no layer
// takes less than the host.
TEST(ReferenceWorld, TwoPassesCopyResultsOutAndWaitForTheHost) {
    ReferenceSetup setup = stages_of({1, 1}, 3);
    setup.nodes[1].layers = {1, 6};  // enters at its third layer
    setup.lengths = LengthSource({{200, 4}}, LengthOrder::recorded);
    setup.offline.initial = 1;
    setup.offline.feed_below = -1;
    setup.batching.order = ReferenceBatching::Order::two_passes;
    setup.batching.layer_host_s = 0.003;
    const auto report = run_reference(setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    // A prompt's layer takes 2 ms of the device: the host's 3 ms count. A lone decode's takes 4 ms.
    const double prompt_s = 3 * kLatency + (200 * kToken + kToken * 200) / kBandwidth +
                            200 * (kToken + kActivation) / kBandwidth + 6 * 0.003 + 3 * copy_s(200);
    const double decode_s = 3 * kLatency + 2 * kToken / kBandwidth +
                            (kToken + kActivation) / kBandwidth + 6 * 0.004 + 3 * copy_s(1);
    EXPECT_NEAR(report->ttft.mean, prompt_s, 1e-12);
    EXPECT_NEAR(report->tpot.mean, decode_s, 1e-12);
    EXPECT_NEAR(report->kv_peak, 204 * 3 / 100'000.0, 1e-12);
}

// A prompt's result does not wait for the decodes that came with it, as it does in a mixed batch.
TEST(ReferenceWorld, TwoPassesHandPromptsOnFirst) {
    ReferenceSetup setup = stages_of({1, 1}, 4);
    setup.offline.initial = 20;
    for (ReferenceNode& node : setup.nodes) node.kv_capacity = 60'000;
    const auto mixed = run_reference(setup);
    setup.batching.order = ReferenceBatching::Order::two_passes;
    setup.batching.layer_host_s = 0;
    const auto apart = run_reference(setup);
    ASSERT_TRUE(mixed.ok() && apart.ok());
    EXPECT_LT(apart->ttft.mean, mixed->ttft.mean);
    EXPECT_GT(apart->finished, mixed->finished / 2);
    setup.batching.layer_host_s = 0.02;
    const auto slower = run_reference(setup);
    ASSERT_TRUE(slower.ok());
    EXPECT_LT(slower->decode_tokens_per_s, apart->decode_tokens_per_s);
}

TEST(ReferenceWorld, ImpossibleSetupsAreErrorsThatSayWhy) {
    const auto why = [](const ReferenceSetup& setup) {
        const auto report = run_reference(setup);
        return report.ok() ? std::string() : report.error().message;
    };
    ReferenceSetup setup = stages_of({1, 1}, 2);
    setup.nodes[1].layers = {3, 4};
    EXPECT_EQ(why(setup), "no node holds layer 2");
    setup = stages_of({1, 1}, 2);
    setup.links.pop_back();
    EXPECT_EQ(why(setup), "node 1 is a dead end: no link with flow leaves it");
    setup.links.clear();
    EXPECT_EQ(why(setup), "no link with flow leaves the coordinator");
    setup = stages_of({1, 1}, 2);
    setup.scheduler = ReferenceScheduler::random;
    setup.nodes[0].prompt_max_tokens = 300;
    EXPECT_NE(why(setup).find("takes 300 prompt tokens"), std::string::npos);
    setup = stages_of({1}, 2);
    setup.online = OnlineLoad{ArrivalProcess::shuffled, 0, {}};
    EXPECT_EQ(why(setup), "online load: the rate must be above 0 tokens/s");
    setup.online = OnlineLoad{ArrivalProcess::shuffled, 100, {}};
    EXPECT_NE(why(setup).find("need a file of counts"), std::string::npos);
    setup.lengths = {};
    EXPECT_EQ(why(setup), "no request lengths are given");
}

// Counts what it is told.
class Counter final : public Observer {
  public:
    bool request_created(std::uint64_t, base::TimePoint, std::int32_t, std::int32_t) override {
        ++created;
        return true;
    }
    void request_admitted(std::uint64_t, base::TimePoint, std::span<const PipelineStage>) override {
        ++admitted;
    }
    void token(std::uint64_t, base::TimePoint) override { ++tokens; }
    void request_finished(std::uint64_t, base::TimePoint) override { ++finished; }
    void node_computed(const NodeBatch& batch) override {
        layer_tokens += batch.layers.size() * (batch.decodes + batch.prompt_tokens);
    }
    void request_computed(const RequestWork& work) override {
        followed_layer_tokens += work.layers.size() * work.tokens;
    }
    void link_carried(const LinkTransfer&) override { ++transfers; }
    void request_moved(const RequestMove&) override { ++moves; }

    std::uint64_t created = 0;
    std::uint64_t admitted = 0;
    std::uint64_t tokens = 0;
    std::uint64_t finished = 0;
    std::int64_t layer_tokens = 0;
    std::int64_t followed_layer_tokens = 0;
    std::uint64_t transfers = 0;
    std::uint64_t moves = 0;
};

TEST(ReferenceWorld, ObserversSeeEverythingAndChangeNothing) {
    ReferenceSetup setup = stages_of({1, 2}, 3);
    const auto unseen = run_reference(setup);
    Counter counter;
    setup.observer = &counter;
    const auto seen = run_reference(setup);
    ASSERT_TRUE(unseen.ok() && seen.ok());
    EXPECT_EQ(seen->digest, unseen->digest);
    EXPECT_EQ(counter.created, seen->admitted + seen->rejected);
    EXPECT_EQ(counter.admitted, seen->admitted);
    EXPECT_EQ(counter.tokens, seen->iterations);
    EXPECT_EQ(counter.finished, seen->finished);
    EXPECT_EQ(counter.layer_tokens, counter.followed_layer_tokens);
    EXPECT_GE(counter.moves, seen->iterations * 3);  // to, between and from two stages
    EXPECT_GE(counter.transfers, counter.moves);
}

TEST(SimReport, JsonHasTheNamedFields) {
    const auto report = run_reference(stages_of({1, 1}, 2));
    ASSERT_TRUE(report.ok());
    const auto json = nlohmann::json::parse(report_json(*report));
    for (const char* key : {"decode_tokens_per_s", "max_flow_tokens_per_s", "mean_depth", "kv_peak",
                            "rejected", "digest"}) {
        EXPECT_TRUE(json.contains(key)) << key;
    }
    for (const char* key : {"ttft_s", "tpot_s"}) {
        for (const char* part : {"mean", "p50", "p95", "p99"}) {
            EXPECT_TRUE(json.at(key).contains(part)) << key << ' ' << part;
        }
    }
    EXPECT_EQ(json.at("digest").get<std::string>().size(), 16U);
}

}  // namespace
}  // namespace helix::sim::reference_world_test
