#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/effort.h"
#include "base/random.h"
#include "core/routing/router_catalogue.h"
#include "sim/throughput/helix_run.h"

// examples/schedulers/power_of_two.cc, as a line of router_catalogue.cc would name it.
namespace helix::core {
RouterKind power_of_two_router();
}

namespace helix::sim::schedulers_test {
namespace {

constexpr std::size_t kRequests = 80;

// Machines of type "slow" take four times as long.
class UnequalCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decode_seqs,
                   std::int32_t prefill_tokens) const override {
        const double s = prefill_tokens * 1e-5 + (decode_seqs > 0 ? 1e-3 + decode_seqs * 1e-5 : 0);
        return node.type == "slow" ? 4 * s : s;
    }
};

struct Bed {
    spec::ClusterSpec cluster;
    UnequalCost costs;
    HelixSetup setup;
};

// Six layers on machines whose ranges overlap, all linked with all; the plan uses some links. Far
// more requests arrive in two seconds than fit.
std::unique_ptr<Bed> overloaded(const core::RouterKind& kind, std::uint64_t seed = 4) {
    auto bed = std::make_unique<Bed>();
    const std::vector<spec::LayerRange> layers = {{0, 3}, {0, 2}, {2, 6}, {3, 6}, {0, 4}, {4, 6}};
    for (std::size_t n = 0; n < layers.size(); ++n) {
        spec::NodeSpec node;
        node.name = "n" + std::to_string(n);
        node.type = n == 1 || n == 3 ? "slow" : "fast";
        bed->cluster.nodes.push_back(node);
        bed->setup.placement.layers.push_back(layers[n]);
        bed->setup.kv_tokens.push_back(1500);
    }
    const auto n = static_cast<std::int32_t>(layers.size());
    constexpr std::int32_t kEnd = spec::kCoordinator;
    bed->setup.flows = {{kEnd, 0, 60}, {kEnd, 1, 20}, {kEnd, 4, 50}, {0, 2, 30},    {0, 3, 30},
                        {1, 2, 20},    {4, 5, 50},    {2, kEnd, 50}, {3, kEnd, 30}, {5, kEnd, 50}};
    const std::size_t planned = bed->setup.flows.size();
    for (std::int32_t from = kEnd; from < n; ++from) {
        for (std::int32_t to = kEnd; to < n; ++to) {
            if (from == to) continue;
            bed->cluster.links.push_back({from, to, 1e8, 0.001});
            const auto same = [&](const spec::LinkFlow& f) { return f.from == from && f.to == to; };
            const auto end = bed->setup.flows.begin() + static_cast<std::ptrdiff_t>(planned);
            if (std::none_of(bed->setup.flows.begin(), end, same)) {
                bed->setup.flows.push_back({from, to, 0});
            }
        }
    }
    bed->setup.cluster = &bed->cluster;
    bed->setup.costs = &bed->costs;
    bed->setup.model.n_layers = 6;
    bed->setup.model.activation_bytes_per_token = 1000;
    bed->setup.model.token_bytes = 2;
    bed->setup.coordinator.router = kind.make;
    bed->setup.seed = seed;
    bed->setup.check_invariants = true;
    OnlineLoad load;
    load.process = ArrivalProcess::listed;
    base::Random random(9);
    std::vector<RequestLength> lengths;
    for (std::size_t i = 0; i < kRequests; ++i) {
        const RequestLength length = {static_cast<std::int32_t>(random.between(20, 400)),
                                      static_cast<std::int32_t>(random.between(1, 60))};
        load.listed.push_back({static_cast<double>(i) * 2 / kRequests, length});
        lengths.push_back(length);
    }
    bed->setup.lengths = LengthSource(lengths, LengthOrder::sampled);
    bed->setup.online = std::move(load);
    bed->setup.warmup_s = 0;
    bed->setup.duration_s = 300;
    return bed;
}

std::vector<core::RouterKind> all_and_the_example() {
    std::vector<core::RouterKind> kinds = core::router_kinds();
    kinds.push_back(core::power_of_two_router());
    return kinds;
}

TEST(Schedulers, EachServesAnOverloadedClusterToTheEnd) {
    for (const core::RouterKind& kind : all_and_the_example()) {
        SCOPED_TRACE(kind.name);
        const auto bed = overloaded(kind);
        const auto report = run_helix(bed->setup);
        ASSERT_TRUE(report.ok()) << report.error().message;
        EXPECT_EQ(report->finished, kRequests);
        EXPECT_EQ(report->rejected, 0U);
        EXPECT_GT(report->ttft.p95, 1) << "nobody waited";
        EXPECT_GT(report->kv_peak, 0.5);
        EXPECT_GE(report->mean_depth, 2);
    }
}

TEST(Schedulers, EqualSeedsGiveEqualRunsAndTheOnesThatDrawDifferBySeed) {
    for (const core::RouterKind& kind : all_and_the_example()) {
        SCOPED_TRACE(kind.name);
        const auto digest = [&](std::uint64_t seed) {
            const auto bed = overloaded(kind, seed);
            return run_helix(bed->setup).value().digest;
        };
        const std::uint64_t first = digest(4);
        EXPECT_EQ(digest(4), first);
        if (kSanitized) continue;
        const bool draws =
            kind.name == "random" || kind.name == "shortest-queue" || kind.name == "power-of-two";
        EXPECT_EQ(digest(5) != first, draws);
    }
}

// What each is for shows in where it sends: the plan's shares, everywhere, or around slow machines.
TEST(Schedulers, SlowMachinesAreUsedByThePlanEvenlyOrLess) {
    // Over several seeds, and with pauses in which queues of fast machines empty.
    const auto slow_share = [](const core::RouterKind& kind) {
        double slow = 0;
        double all = 0;
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
            const auto bed = overloaded(kind, seed);
            for (Arrival& arrival : bed->setup.online->listed) arrival.at_s *= 4;
            bed->setup.coordinator.balance.enabled = false;  // what is sent where, and stays there
            // Time says how much that is only where batches are not smaller when there is less.
            bed->setup.coordinator.pipeline_groups = 1;
            bed->setup.check_invariants = false;
            const SimReport report = run_helix(bed->setup).value();
            for (const double busy : report.node_busy) all += busy;
            slow += report.node_busy[1] + report.node_busy[3];
        }
        return slow / all;
    };
    const double evenly = slow_share(core::random_router());
    EXPECT_LT(slow_share(core::swarm_router()), evenly);
    EXPECT_LT(slow_share(core::shortest_queue_router()), evenly);
    EXPECT_LT(slow_share(core::max_flow_router()), evenly);
}

TEST(Schedulers, APlacementThatASchedulerCannotServeIsAnError) {
    const auto bed = overloaded(core::separate_router());
    for (spec::LinkFlow& flow : bed->setup.flows) flow.tokens_per_s = 0;
    EXPECT_FALSE(run_helix(bed->setup).ok());
    bed->setup.coordinator.router = core::random_router().make;
    EXPECT_TRUE(run_helix(bed->setup).ok());
}

}  // namespace
}  // namespace helix::sim::schedulers_test
