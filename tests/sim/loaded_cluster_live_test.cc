#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "sim/plain_cost.h"
#include "sim/throughput/helix_run.h"

namespace helix::sim::helix_world_live_test {
namespace {

constexpr std::int32_t kLayers = 4;
constexpr double kKvTokens = 2000;

struct Bed {
    spec::ClusterSpec cluster;
    PlainCost costs;
    HelixSetup setup;
};

// Machines that hold the whole model each.
std::unique_ptr<Bed> whole_models(std::int32_t machines) {
    auto bed = std::make_unique<Bed>();
    for (std::int32_t n = 0; n < machines; ++n) {
        spec::NodeSpec node;
        node.name = "n" + std::to_string(n);
        bed->cluster.nodes.push_back(node);
        bed->setup.placement.layers.push_back({0, kLayers});
        bed->setup.kv_tokens.push_back(kKvTokens);
        bed->setup.flows.push_back({spec::kCoordinator, n, 1});
        bed->setup.flows.push_back({n, spec::kCoordinator, 1});
    }
    for (std::int32_t from = spec::kCoordinator; from < machines; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < machines; ++to) {
            if (from != to) bed->cluster.links.push_back({from, to, 1e9, 1e-4});
        }
    }
    bed->setup.cluster = &bed->cluster;
    bed->setup.costs = &bed->costs;
    bed->setup.model.n_layers = kLayers;
    bed->setup.model.activation_bytes_per_token = 1000;
    bed->setup.model.kv_bytes_per_token_layer = 1000;
    bed->setup.model.token_bytes = 2;
    bed->setup.warmup_s = 0;
    bed->setup.until_done = true;
    bed->setup.check_invariants = true;
    return bed;
}

// So many requests from begin_s on.
void add_load(Bed& bed, double begin_s, int count, double per_s, RequestLength length,
              std::int32_t priority = 0) {
    if (!bed.setup.online) {
        bed.setup.online = OnlineLoad{};
        bed.setup.online->process = ArrivalProcess::listed;
        bed.setup.online->tokens_per_s = 1;
    }
    for (int i = 0; i < count; ++i) {
        bed.setup.online->listed.push_back({begin_s + i / per_s, length, priority});
    }
    bed.setup.lengths = LengthSource({length}, LengthOrder::recorded);
}

// What became of the requests and of the machines.
class Watch final : public Observer {
  public:
    bool request_created(std::uint64_t request, base::TimePoint at, std::int32_t,
                         std::int32_t) override {
        created[request] = at;
        return false;
    }
    void token(std::uint64_t request, base::TimePoint at) override {
        first_token.emplace(request, at);
    }
    void request_preempted(std::uint64_t, base::TimePoint) override { ++preempted; }
    void request_migrated(std::uint64_t, base::TimePoint, std::span<const PipelineStage>) override {
        ++migrated;
    }
    void node_rented(std::int32_t node, base::TimePoint at, bool on) override {
        rented += on ? 1 : -1;
        most_rented = std::max(most_rented, rented);
        last_node = node;
        changes.push_back({at, on});
    }

    std::map<std::uint64_t, base::TimePoint> created;
    std::map<std::uint64_t, base::TimePoint> first_token;
    std::uint64_t preempted = 0;
    std::uint64_t migrated = 0;
    std::int32_t rented = 0;
    std::int32_t most_rented = 0;
    std::int32_t last_node = -1;
    std::vector<std::pair<base::TimePoint, bool>> changes;
};

TEST(LoadedClusterLive, MovesAreToldAndAreNoPreemptions) {
    const auto bed = whole_models(2);
    // Two long ones come to one machine, which they fill.
    bed->setup.kv_tokens = {1700, 1700};
    for (int i = 0; i < 6; ++i) {
        const RequestLength length = i % 2 == 0 ? RequestLength{40, 900} : RequestLength{40, 20};
        add_load(*bed, 0.1 * i, 1, 1, length);
    }
    bed->setup.lengths = LengthSource({{40, 900}}, LengthOrder::recorded);
    bed->setup.duration_s = 600;
    Watch watch;
    bed->setup.observer = &watch;
    const auto report = run_helix(bed->setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->finished, 6U);
    EXPECT_GT(report->migrated, 0U);
    EXPECT_EQ(report->migrated, watch.migrated);
    EXPECT_EQ(report->preempted, watch.preempted);
    bed->setup.coordinator.balance.enabled = false;
    bed->setup.observer = nullptr;
    const auto still = run_helix(bed->setup);
    ASSERT_TRUE(still.ok()) << still.error().message;
    EXPECT_EQ(still->finished, 6U);
    EXPECT_EQ(still->migrated, 0U);
    EXPECT_GE(still->preempted, report->preempted);
}

TEST(LoadedClusterLive, ListedArrivalsHaveTheirPriority) {
    const auto bed = whole_models(1);
    add_load(*bed, 0, 80, 40, {300, 30});
    add_load(*bed, 2, 1, 1, {300, 30}, 1);
    bed->setup.duration_s = 600;
    Watch watch;
    bed->setup.observer = &watch;
    const auto report = run_helix(bed->setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    ASSERT_EQ(report->finished, 81U);
    // It came last and goes first: those that came just before it wait longer.
    const double high = (watch.first_token.at(80) - watch.created.at(80)).seconds();
    const double normal = (watch.first_token.at(79) - watch.created.at(79)).seconds();
    EXPECT_LT(high, normal / 2);
}

TEST(LoadedClusterLive, NodesComeWithTheLoadAndGoWithItAndNoRequestIsLost) {
    const auto bed = whole_models(4);
    HelixSetup& setup = bed->setup;
    setup.spares = {1, 2, 3};
    setup.start_delay_s = 3;
    setup.disk_bytes_per_s.assign(4, 1e9);
    setup.model.layer_bytes = 250'000'000;  // a second for all
    core::AutoScaleConfig scale;
    scale.low = 40;
    scale.high = 400;
    scale.hold = base::from_seconds(1);
    scale.hold_down = base::from_seconds(3);
    scale.cool_down = base::from_seconds(2);
    scale.max_nodes = 4;
    setup.coordinator.scale = scale;
    setup.coordinator.empty_timeout = base::from_seconds(5);
    add_load(*bed, 0, 10, 0.5, {100, 100});
    add_load(*bed, 20, 320, 8, {100, 200});
    add_load(*bed, 60, 40, 0.5, {100, 100});
    setup.lengths = LengthSource({{100, 200}}, LengthOrder::recorded);
    setup.duration_s = 140;
    setup.until_done = false;
    Watch watch;
    setup.observer = &watch;
    const auto report = run_helix(setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->rejected, 0U);
    EXPECT_EQ(report->admitted, setup.online->listed.size());
    EXPECT_GE(report->finished + 3, report->admitted);
    EXPECT_GT(watch.most_rented, 1);
    EXPECT_EQ(watch.rented, 1) << "after the rush one machine is enough";
    EXPECT_GT(report->node_s, setup.duration_s);
    EXPECT_LT(report->node_s, 4 * setup.duration_s);
    // Up, then down: no machine is dismissed and another one asked for in its place.
    bool down = false;
    for (const auto& [at, on] : watch.changes) {
        EXPECT_FALSE(on && down) << "a node came at " << base::Duration{at.ns}.seconds() << " s";
        down = down || !on;
    }
}

TEST(LoadedClusterLive, WithoutASpareNodeTheOthersGoOn) {
    const auto bed = whole_models(1);
    core::AutoScaleConfig scale;
    scale.hold = base::from_seconds(1);
    scale.max_nodes = 4;
    bed->setup.coordinator.scale = scale;
    add_load(*bed, 0, 80, 4, {100, 300});
    bed->setup.duration_s = 600;
    Watch watch;
    bed->setup.observer = &watch;
    const auto report = run_helix(bed->setup);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->finished, 80U);
    EXPECT_EQ(watch.most_rented, 1);
    bed->setup.spares = {7};
    const auto refused = run_helix(bed->setup);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message, "spare node 7, which holds no layers");
}

}  // namespace
}  // namespace helix::sim::helix_world_live_test
