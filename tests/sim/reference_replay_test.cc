#include <gtest/gtest.h>

#include <string>

#include "base/effort.h"
#include "paper_data.h"
#include "sim/published/reference_world.h"
#include "spec/cluster_file.h"
#include "spec/placement_file.h"

// Published runs, repeated. The figures are the reference's own, from the paper's artifact and its
// simulator; means over 15,000 to 150,000 passes agree in nine digits only if every event
// came in the reference's order.

namespace helix::sim::reference_replay_test {
namespace {

const std::string kData = kPaperData;
constexpr double kNoFigure = -1;

struct Inputs {
    spec::ClusterSpec cluster;
    spec::ProfileTables tables;
};

Inputs inputs(const std::string& cluster_name) {
    auto cluster = spec::read_cluster_file(kData + "/clusters/" + cluster_name + ".json");
    EXPECT_TRUE(cluster.ok()) << cluster.error().message;
    auto tables = spec::ProfileTables::read(kData + "/profiles", "llama2-70b");
    EXPECT_TRUE(tables.ok()) << tables.error().message;
    return {std::move(*cluster), std::move(*tables)};
}

void give_lengths(ReferenceSetup& setup) {
    auto lengths =
        LengthSource::read(kData + "/traces/azure_conv_lengths.csv", LengthOrder::sampled);
    ASSERT_TRUE(lengths.ok()) << lengths.error().message;
    setup.lengths = std::move(*lengths);
}

ReferenceSetup replay(const std::string& cluster_name, const std::string& layout) {
    const Inputs in = inputs(cluster_name);
    auto setup = read_replay_setup(kData + "/replay/" + cluster_name + "__" + layout + ".json",
                                   in.cluster, in.tables);
    EXPECT_TRUE(setup.ok()) << setup.error().message;
    give_lengths(*setup);
    return std::move(*setup);
}

// A separate pipeline: its nodes hold more layers than their tables know.
ReferenceSetup pipeline(const std::string& cluster_name) {
    const Inputs in = inputs(cluster_name);
    const std::string type = cluster_name.substr(cluster_name.find('_') + 1);
    const std::string cluster = cluster_name.substr(0, cluster_name.find('_'));
    const auto layout = spec::read_placement_file(kData + "/layouts/" + cluster +
                                                  "__llama2-70b__separate_" + type + ".json");
    EXPECT_TRUE(layout.ok()) << layout.error().message;
    auto setup = reference_setup(in.cluster, in.tables, layout->placement, layout->links, {}, true);
    EXPECT_TRUE(setup.ok()) << setup.error().message;
    give_lengths(*setup);
    setup->scheduler = ReferenceScheduler::random;
    return std::move(*setup);
}

// The long replays compare figures; the short ones run the same code.
constexpr const char* kOthersRun = "figures are compared without a sanitizer";

struct Figures {
    double decode_tokens_per_s = kNoFigure;
    double prompt_tokens_per_s = kNoFigure;
    double ttft_mean_s = kNoFigure;
    double tpot_mean_s = kNoFigure;
    std::uint64_t iterations = 0;
};

void expect_figures(const ReferenceSetup& setup, const Figures& published) {
    const auto report = run_reference(setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto expect_near = [](double ours, double theirs, double tolerance) {
        if (theirs != kNoFigure) {
            EXPECT_NEAR(ours, theirs, tolerance);
        }
    };
    expect_near(report->decode_tokens_per_s, published.decode_tokens_per_s, 5e-5);
    expect_near(report->prompt_tokens_per_s, published.prompt_tokens_per_s, 5e-5);
    expect_near(report->ttft.mean, published.ttft_mean_s, 1e-8);
    expect_near(report->tpot.mean, published.tpot_mean_s, 1e-8);
    if (published.iterations > 0) {
        EXPECT_EQ(report->iterations, published.iterations);
    }
}

TEST(ReferenceReplay, Single24HelixComesOutToTheLastPrintedDigit) {
    if (kSanitized) GTEST_SKIP() << kOthersRun;
    const ReferenceSetup setup = replay("single24", "helix");
    expect_figures(setup, {252.0800, 713.7467, 2.955280937, 1.450098279, 154'701});
    const auto report = run_reference(setup);
    ASSERT_TRUE(report.ok());
    EXPECT_NEAR(report->ttft.p50, 3.05, 0.005);
    EXPECT_NEAR(report->ttft.p95, 5.07, 0.005);
    EXPECT_NEAR(report->tpot.p50, 1.15, 0.005);
    EXPECT_NEAR(report->tpot.p95, 3.17, 0.006);
    EXPECT_NEAR(report->mean_depth, 16.05, 0.005);
    EXPECT_NEAR(report->mean_resident, 369, 0.5);
    EXPECT_NEAR(report->kv_layer_peak, 0.809, 0.0005);
    EXPECT_NEAR(report->kv_peak, 0.859, 0.0005);
    EXPECT_EQ(report->rejected, 219U);
    EXPECT_EQ(report->finished, 554U);
    EXPECT_NEAR(report->max_flow_tokens_per_s, 1289.56, 0.005);
}

// Published: 98.0 decode tokens/s, and 9.0 s and 2.49 s on average.
TEST(ReferenceReplay, Distributed24HelixGivesThePublishedThroughput) {
    const auto report = run_reference(replay("distributed24", "helix"));
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_NEAR(report->decode_tokens_per_s, 98.0, 0.05);
    EXPECT_NEAR(report->ttft.mean, 8.958, 0.0005);
    EXPECT_NEAR(report->tpot.mean, 2.488, 0.0005);
    EXPECT_NEAR(report->max_flow_tokens_per_s, 1212.18, 0.005);
}

// The artifact's split of the flow hangs on Python's hash seed here; this is the one of the
// published figure.
TEST(ReferenceReplay, Highhet42HelixGivesThePublishedThroughput) {
    if (kSanitized) GTEST_SKIP() << kOthersRun;
    const auto report = run_reference(replay("highhet42", "helix"));
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_NEAR(report->decode_tokens_per_s, 645.6, 0.05);
    EXPECT_NEAR(report->max_flow_tokens_per_s, 4137.55, 0.005);
}

TEST(ReferenceReplay, MaxFlowSchedulerOnTheOtherLayouts) {
    if (kSanitized) GTEST_SKIP() << kOthersRun;
    expect_figures(replay("single24", "petals"),
                   {191.066667, 566.023333, 2.320323189, 1.002362318, 123'038});
    expect_figures(replay("distributed24", "petals"),
                   {66.613333, 382.691667, 14.050273002, 3.221556948, 40'523});
    const auto single = run_reference(replay("single24", "swarm"));
    ASSERT_TRUE(single.ok());
    EXPECT_NEAR(single->decode_tokens_per_s, 128.2, 0.05);
    EXPECT_NEAR(single->ttft.mean, 3.414, 0.0005);
    EXPECT_NEAR(single->tpot.mean, 1.552, 0.0005);
    const auto distributed = run_reference(replay("distributed24", "swarm"));
    ASSERT_TRUE(distributed.ok());
    EXPECT_NEAR(distributed->decode_tokens_per_s, 41.60, 0.005);
    EXPECT_NEAR(distributed->ttft.mean, 20.321, 0.0005);
    EXPECT_NEAR(distributed->tpot.mean, 4.554, 0.0005);
}

TEST(ReferenceReplay, SwarmSchedulerWithAConstantPopulation) {
    if (kSanitized) GTEST_SKIP() << kOthersRun;
    ReferenceSetup setup = replay("single24", "swarm");
    setup.scheduler = ReferenceScheduler::swarm;
    setup.offline.initial = 180;
    expect_figures(setup, {124.748333, 367.008333, 3.360745739, 1.428517662, 79'974});
    setup = replay("distributed24", "swarm");
    setup.scheduler = ReferenceScheduler::swarm;
    setup.offline.initial = 180;
    expect_figures(setup, {51.945, 303.468333, 71.182775614, 3.136577948, 31'461});
}

TEST(ReferenceReplay, SeparatePipelines) {
    ReferenceSetup setup = pipeline("single24_a100");
    setup.offline.initial = 18;
    expect_figures(setup, {84.265, 270.646667, 0.580555051, 0.210750001, 55'872});
    setup = pipeline("single24_l4");
    setup.offline.initial = 40;
    expect_figures(setup, {35.198333, 117.711667, 2.849463405, 1.123239402, 23'096});
    setup = pipeline("distributed24_a100");
    setup.offline.initial = 1;
    expect_figures(setup, {4.48, 14.445, 0.604569264, 0.220071013, 2'967});
    setup = pipeline("single24_t4");
    setup.offline.initial = 3;
    expect_figures(setup, {4.815, 15.736667, 3.484825501, 0.605922096, 3'184});
}

TEST(ReferenceReplay, OnlineSwarmMeetsThePublishedArrivals) {
    if (kSanitized) GTEST_SKIP() << kOthersRun;
    ReferenceSetup setup = replay("single24", "swarm");
    setup.scheduler = ReferenceScheduler::swarm;
    auto counts = read_arrival_counts(kData + "/traces/azure_conv_arrivals_per_3s.csv");
    ASSERT_TRUE(counts.ok()) << counts.error().message;
    setup.online = OnlineLoad{ArrivalProcess::shuffled, 350, std::move(*counts)};
    setup.warmup_s = 0;
    setup.duration_s = 1800;
    expect_figures(setup, {69.792222, 259.733333, 3.013218303, 1.262304873, 0});
}

// Nodes that run decodes before prompts, layer by layer, serve more than the published order does.
TEST(ReferenceReplay, DecodesFirstGivesTheKnownGain) {
    if (kSanitized) GTEST_SKIP() << kOthersRun;
    ReferenceSetup setup = replay("single24", "helix");
    setup.batching.order = ReferenceBatching::Order::decode_first;
    setup.batching.prompts_per_layer = 3;
    setup.batching.prompt_every = 0;
    setup.batching.links_too = false;
    auto report = run_reference(setup);
    ASSERT_TRUE(report.ok());
    EXPECT_NEAR(report->decode_tokens_per_s, 386.1, 0.05);
    EXPECT_NEAR(report->ttft.mean, 9.46, 0.005);
    setup.batching.links_too = true;
    report = run_reference(setup);
    ASSERT_TRUE(report.ok());
    EXPECT_NEAR(report->decode_tokens_per_s, 385.8, 0.05);
    EXPECT_NEAR(report->ttft.mean, 9.71, 0.005);
    // The quota's exact rule is not published; one in four gave 360.1 there.
    setup.batching.prompts_per_layer = 1;
    setup.batching.prompt_every = 4;
    report = run_reference(setup);
    ASSERT_TRUE(report.ok());
    EXPECT_NEAR(report->decode_tokens_per_s, 360.1, 0.01 * 360.1);
    EXPECT_NEAR(report->ttft.mean, 4.62, 0.01 * 4.62);
}

TEST(ReferenceReplay, TheRecordedStreamIsTheSampledTrace) {
    auto sampled =
        LengthSource::read(kData + "/traces/azure_conv_lengths.csv", LengthOrder::sampled);
    auto recorded =
        LengthSource::read(kData + "/replay/length_stream_seed0.csv", LengthOrder::recorded);
    ASSERT_TRUE(sampled.ok() && recorded.ok());
    PythonRandom random(0);
    PythonRandom unused(0);
    for (int i = 0; i < 20'000; ++i) {
        const RequestLength a = sampled->next(random);
        const RequestLength b = recorded->next(unused);
        ASSERT_EQ(a.prompt_tokens, b.prompt_tokens) << "draw " << i;
        ASSERT_EQ(a.output_tokens, b.output_tokens) << "draw " << i;
    }
}

}  // namespace
}  // namespace helix::sim::reference_replay_test
