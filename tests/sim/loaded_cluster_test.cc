#include "sim/throughput/helix_run.h"

#include <gtest/gtest.h>

#include "sim/plain_cost.h"
#include "sim/throughput/modelled_network.h"

namespace helix::sim::helix_world_test {
namespace {

constexpr double kBandwidth = 1e8;
constexpr double kLatency = 0.01;

struct Bed {
    spec::ClusterSpec cluster;
    PlainCost costs;
    HelixSetup setup;
};

// Stages of equal nodes, all linked with all.
std::unique_ptr<Bed> stages_of(const std::vector<std::int32_t>& widths, std::int32_t layers_each,
                               double kv_tokens) {
    auto bed = std::make_unique<Bed>();
    std::vector<std::vector<std::int32_t>> stages;
    std::int32_t begin = 0;
    for (const std::int32_t width : widths) {
        stages.emplace_back();
        for (std::int32_t k = 0; k < width; ++k) {
            stages.back().push_back(static_cast<std::int32_t>(bed->cluster.nodes.size()));
            spec::NodeSpec node;
            node.name = "n" + std::to_string(bed->cluster.nodes.size());
            bed->cluster.nodes.push_back(node);
            bed->setup.placement.layers.push_back({begin, begin + layers_each});
            bed->setup.kv_tokens.push_back(kv_tokens);
        }
        begin += layers_each;
    }
    const auto n = static_cast<std::int32_t>(bed->cluster.nodes.size());
    for (std::int32_t from = spec::kCoordinator; from < n; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < n; ++to) {
            if (from != to) bed->cluster.links.push_back({from, to, kBandwidth, kLatency});
        }
    }
    stages.insert(stages.begin(), {spec::kCoordinator});
    stages.push_back({spec::kCoordinator});
    for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
        for (const std::int32_t from : stages[s]) {
            for (const std::int32_t to : stages[s + 1]) {
                bed->setup.flows.push_back({from, to, 100});
            }
        }
    }
    bed->setup.cluster = &bed->cluster;
    bed->setup.costs = &bed->costs;
    bed->setup.model.n_layers = begin;
    bed->setup.model.activation_bytes_per_token = 1000;
    bed->setup.model.token_bytes = 2;
    bed->setup.lengths = LengthSource({{200, 5}, {400, 20}, {50, 60}}, LengthOrder::sampled);
    bed->setup.warmup_s = 0;
    bed->setup.duration_s = 12;
    return bed;
}

TEST(LoadedCluster, OneRequestAloneTakesWhatTheFormulasSay) {
    const auto bed = stages_of({1, 1}, 3, 10'000);
    bed->setup.lengths = LengthSource({{200, 4}}, LengthOrder::recorded);
    bed->setup.offline.initial = 1;
    bed->setup.offline.delay_s = 1000;  // nobody follows
    const auto report = run_helix(bed->setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const double copy_s = 1000 * (1 / 4e9 + 1 / 5e9);
    // A message carries a header and one more for each sequence in it, 64 bytes each.
    const double heads_s = 2 * 64 / kBandwidth;
    const double prompt_s = 3 * (kLatency + heads_s) + 200 * 2 / kBandwidth + 2 / kBandwidth +
                            200 * 1002 / kBandwidth + 6 * 0.002 + 2 * 200 * copy_s;
    const double decode_s = 3 * (kLatency + heads_s) + 2 * 2 / kBandwidth + 1002 / kBandwidth +
                            6 * 2 * 0.00201 + 2 * copy_s;
    EXPECT_NEAR(report->ttft.mean, prompt_s, 2e-8);
    EXPECT_NEAR(report->tpot.mean, decode_s, 2e-8);
    EXPECT_EQ(report->tpot.count, 4U);
    EXPECT_EQ(report->iterations, 5U);
    EXPECT_EQ(report->finished, 1U);
    EXPECT_DOUBLE_EQ(report->mean_depth, 2);
    EXPECT_NEAR(report->node_busy[0] * 12, 3 * 0.002 + 200 * copy_s + 4 * (6 * 0.00201 + copy_s),
                1e-7);
}

TEST(LoadedCluster, EqualSeedsGiveEqualRunsAndOthersDoNot) {
    const auto bed = stages_of({2, 3, 2}, 2, 3000);
    const auto first = run_helix(bed->setup);
    const auto second = run_helix(bed->setup);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->digest, second->digest);
    EXPECT_EQ(first->events, second->events);
    bed->setup.seed = 5;
    const auto other = run_helix(bed->setup);
    ASSERT_TRUE(other.ok());
    EXPECT_NE(first->digest, other->digest);
}

TEST(LoadedCluster, OnlineEveryRequestIsServed) {
    const auto bed = stages_of({2, 3, 2}, 2, 4000);
    bed->setup.online = OnlineLoad{ArrivalProcess::poisson, 2000, {}};
    bed->setup.check_invariants = true;
    auto lengths = bed->setup.lengths;
    PythonRandom random(bed->setup.seed);
    const auto arrivals = make_arrivals(*bed->setup.online, lengths, 0, 12, random);
    ASSERT_TRUE(arrivals.ok());
    const auto report = run_helix(bed->setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->rejected, 0U);
    EXPECT_GE(report->admitted + 2, arrivals->size());
    EXPECT_GE(report->finished + 30, report->admitted);
    EXPECT_DOUBLE_EQ(report->mean_depth, 3);
}

// Twelve stages, some three times as slow as others, always with more to do than they can: the
// stages are kept at work, and prompts do not wait long for their first token.
TEST(LoadedCluster, ADeepUnequalPipelineServesManyAndAnswersSoon) {
    class UnequalCost final : public spec::CostModel {
      public:
        double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                       std::int32_t prefill_tokens) const override {
            const double slow = node.name == "n3" || node.name == "n8" ? 3 : 1;
            return slow * ((decode_seqs > 0 ? 0.005 + 0.00003 * decode_seqs : 0) +
                           0.00002 * prefill_tokens);
        }
    };
    const UnequalCost costs;
    const auto bed = stages_of(std::vector<std::int32_t>(12, 1), 4, 150'000);
    bed->setup.overheads.lone_decode_doubles = false;
    bed->setup.costs = &costs;
    bed->setup.lengths = LengthSource({{300, 100}, {900, 200}, {1500, 80}}, LengthOrder::sampled);
    bed->setup.warmup_s = 30;
    bed->setup.duration_s = 60;
    const auto report = run_helix(bed->setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->rejected, 0U);
    EXPECT_LT(report->ttft.mean, 1.5);
    EXPECT_LT(report->ttft.p95, 3);
    // The decodes, in one group that meets no prompt, would go round in that time.
    const double lap_s = 4 * (10 + 2 * 3) * 0.005;
    EXPECT_LT(report->tpot.mean, 3 * lap_s);
    EXPECT_GT(report->mean_resident, 60);
    EXPECT_GT(report->decode_tokens_per_s, 110);
}

TEST(LoadedCluster, MoreThanTheKvMemoryHoldsWaitsAndPreemptsButAllEnd) {
    const auto bed = stages_of({1, 1}, 2, 1500);
    bed->setup.coordinator.policy.kv_high_water = 1.0;
    bed->setup.check_invariants = true;
    bed->setup.duration_s = 40;
    bed->setup.coordinator.expected_output_tokens = 1;  // admits far too many
    bed->setup.lengths = LengthSource({{100, 150}}, LengthOrder::recorded);
    const auto report = run_helix(bed->setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(report->preempted, 0U);
    EXPECT_EQ(report->rejected, 0U);
    EXPECT_GT(report->finished, 20U);
    EXPECT_LE(report->kv_peak, 1.0);
}

// In vLLM's order no batch has prompts and decodes, and all the rest is as before.
class MixedBatches final : public Observer {
  public:
    void node_computed(const NodeBatch& batch) override {
        EXPECT_TRUE(batch.decodes == 0 || batch.prompt_tokens == 0);
        EXPECT_EQ(batch.prompt_tokens % 100, 0) << "prompts are whole";
        prompts += batch.prompt_tokens > 0 ? 1 : 0;
    }
    std::int64_t prompts = 0;
};

TEST(LoadedCluster, InVllmsOrderPromptsAreWholeAndAloneAndAllEnd) {
    for (const double delay : {0.0, 2.0}) {
        const auto bed = stages_of({1, 1}, 2, 3000);
        bed->setup.worker.prompts_first = core::PromptsFirst{1000, 16, delay};
        bed->setup.check_invariants = true;
        bed->setup.duration_s = 40;
        bed->setup.lengths = LengthSource({{100, 150}}, LengthOrder::recorded);
        MixedBatches batches;
        bed->setup.observer = &batches;
        const auto report = run_helix(bed->setup);
        ASSERT_TRUE(report.ok()) << report.error().message;
        EXPECT_EQ(report->rejected, 0U);
        EXPECT_EQ(report->preempted, 0U);
        EXPECT_GT(report->finished, 20U);
        EXPECT_GT(batches.prompts, 10);
    }
}

class Counter final : public Observer {
  public:
    bool request_created(std::uint64_t, base::TimePoint, std::int32_t, std::int32_t) override {
        ++created;
        return true;
    }
    void token(std::uint64_t, base::TimePoint) override { ++tokens; }
    void request_finished(std::uint64_t, base::TimePoint) override { ++finished; }
    void request_computed(const RequestWork& work) override { rows += work.tokens; }
    void node_computed(const NodeBatch& batch) override {
        rows_in_batches += batch.decodes + batch.prompt_tokens;
    }
    std::uint64_t created = 0;
    std::uint64_t tokens = 0;
    std::uint64_t finished = 0;
    std::int64_t rows = 0;
    std::int64_t rows_in_batches = 0;
};

TEST(LoadedCluster, ObserversSeeEverythingAndChangeNothing) {
    const auto bed = stages_of({1, 2}, 2, 3000);
    const auto unseen = run_helix(bed->setup);
    Counter counter;
    bed->setup.observer = &counter;
    const auto seen = run_helix(bed->setup);
    ASSERT_TRUE(unseen.ok() && seen.ok());
    EXPECT_EQ(seen->digest, unseen->digest);
    EXPECT_GE(counter.created, seen->admitted);
    EXPECT_EQ(counter.tokens, seen->iterations);
    EXPECT_EQ(counter.finished, seen->finished);
    EXPECT_GT(counter.rows, 1000);
    EXPECT_EQ(counter.rows, counter.rows_in_batches);
}

TEST(LoadedCluster, ImpossibleSetupsAreErrorsThatSayWhy) {
    const auto why = [](const HelixSetup& setup) {
        const auto report = run_helix(setup);
        return report.ok() ? std::string() : report.error().message;
    };
    auto bed = stages_of({1, 1}, 2, 1000);
    bed->cluster.links.clear();
    EXPECT_EQ(why(bed->setup), "flow -1 -> 0: the cluster has no such link");
    bed = stages_of({1, 1}, 2, 1000);
    bed->setup.placement.layers[1] = {};
    EXPECT_EQ(why(bed->setup), "flow over node 1, which holds no layers");
    bed = stages_of({1, 1}, 2, 1000);
    bed->setup.kv_tokens.pop_back();
    EXPECT_NE(why(bed->setup).find("KV memory"), std::string::npos);
    bed = stages_of({1, 1}, 2, 1000);
    bed->setup.flows.pop_back();
    EXPECT_EQ(why(bed->setup), "no pipeline runs through all layers along the flows");
    bed = stages_of({1, 1}, 2, 100);
    EXPECT_EQ(why(bed->setup), "node n0 holds 96 tokens of context; a request may need 421");
    bed = stages_of({1, 1}, 2, 1000);
    bed->setup.worker.prompts_first = core::PromptsFirst{420, 16, 0};
    EXPECT_EQ(why(bed->setup),
              "batches of whole prompts of at most 420 tokens; a request may need 421 in one");
}

TEST(LoadedCluster, LoadBeginsWhenTheSlowestMachineHasLoaded) {
    const auto bed = stages_of({1, 2}, 3, 10'000);
    const auto at_once = run_helix(bed->setup);
    ASSERT_TRUE(at_once.ok());
    EXPECT_EQ(helix_start_s(bed->setup), 1);
    EXPECT_LT(at_once->ready_s, 1);
    bed->setup.model.layer_bytes = 1'000'000'000;
    bed->setup.model.head_bytes = 500'000'000;
    bed->setup.disk_bytes_per_s = {1e9, 0, 0.5e9};  // 3 s, nothing, 3.5 GB at half a GB/s
    EXPECT_EQ(helix_start_s(bed->setup), 8);
    const auto loaded = run_helix(bed->setup);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_NEAR(loaded->ready_s, 7, 0.2);
    EXPECT_GT(loaded->decode_tokens_per_s, 0.7 * at_once->decode_tokens_per_s);
}

TEST(ModelledNetwork, MessagesQueueOnLinksAndShareNicsAndTrunks) {
    spec::ClusterSpec cluster;
    for (const char* region : {"a", "a", "b", "b"}) {
        spec::NodeSpec node;
        node.region = region;
        node.nic_out_bytes_per_s = 4000;
        cluster.nodes.push_back(node);
    }
    cluster.links = {{0, 2, 1000, 0.5}, {0, 3, 1000, 0.5}, {1, 3, 1000, 0.5}, {0, 1, 1000, 0}};
    cluster.trunks = {{"a", "b", 500, 0}};
    ModelledNetwork network(cluster);
    const auto seconds = [](const Passage& p) { return static_cast<double>(p.arrives.ns) * 1e-9; };
    EXPECT_NEAR(seconds(network.send(0, 1, 1000, {})), 1.0, 1e-9);
    EXPECT_NEAR(seconds(network.send(0, 1, 1000, {})), 2.0, 1e-9);  // behind the first
    EXPECT_NEAR(seconds(network.send(0, 2, 1000, {})), 2.5, 1e-9);  // the trunk's 500 bytes/s
    EXPECT_NEAR(seconds(network.send(1, 3, 1000, {})), 4.5, 1e-9);  // which both share
    EXPECT_EQ(network.send(2, 0, 1000, {5}).arrives, (base::TimePoint{5}));  // no link: no delay
}

// What waits for the receiver's NIC, or a trunk, keeps the link no longer: else one link would be
// busy several times over.
TEST(ModelledNetwork, ALinkIsBusyOnlyWhileItSends) {
    spec::ClusterSpec cluster;
    cluster.nodes.resize(2);
    cluster.nodes[1].nic_in_bytes_per_s = 100;
    cluster.links = {{0, 1, 1000, 0.5}};
    ModelledNetwork network(cluster);
    base::TimePoint free{};
    for (int i = 0; i < 10; ++i) {
        const Passage passage = network.send(0, 1, 1000, {});
        EXPECT_GE(passage.begin.ns, free.ns) << "two messages on one link at once";
        EXPECT_NEAR((passage.left - passage.begin).seconds(), 1.0, 1e-9);
        EXPECT_NEAR((passage.end - base::TimePoint{}).seconds(), 10.0 * (i + 1), 1e-6);
        free = passage.left;
    }
}

}  // namespace
}  // namespace helix::sim::helix_world_test
