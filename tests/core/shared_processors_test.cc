// How many batches of decodes are under way in a pipeline: as many as there are machines in it, or
// devices of a machine, that compute at the same time.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/find_action.h"

namespace helix::core::shared_processors_test {
namespace {

using Place = std::pair<std::string, std::string>;  // host and device

// Of a pipeline of three workers.
std::int32_t groups_of(const std::vector<Place>& places,
                       const std::vector<double>& core_shares = {1, 1, 1},
                       double groups_per_machine = 1) {
    CoordinatorConfig config;
    config.policy.groups_per_machine = groups_per_machine;
    config.n_layers = 3;
    config.context_length = 128;
    config.block_size = 4;
    config.min_workers = 3;
    Coordinator coordinator(config);
    TimePoint now;
    std::vector<CoordinatorAction> actions;
    for (std::uint32_t i = 0; i < 3; ++i) {
        WorkerJoined joined;
        joined.worker = {i};
        joined.incarnation = 1;
        joined.node.name = std::string(1, static_cast<char>('a' + i));
        joined.node.host = places[i].first;
        joined.node.device = places[i].second;
        joined.node.core_share = core_shares[i];
        coordinator.step(now, joined, actions);
    }
    now = now + base::from_seconds(1);
    coordinator.step(now, CoordinatorTick{}, actions);
    const auto question = find<PlanCluster>(actions);
    if (!question) return -1;
    Planned planned;
    planned.plan = question->plan;
    planned.placement.layers = {{0, 1}, {1, 2}, {2, 3}};
    planned.flows = {{spec::kCoordinator, 0, 5}, {0, 1, 5}, {1, 2, 5}, {2, spec::kCoordinator, 5}};
    actions.clear();
    coordinator.step(now, planned, actions);
    const auto sent = find<SendToWorker>(actions);
    const auto* assigned = sent ? std::get_if<AssignLayers>(&sent->message) : nullptr;
    if (assigned != nullptr) {
        EXPECT_EQ(assigned->prefill_share, config.policy.prefill_share);
    }
    return assigned == nullptr ? -1 : assigned->pipeline_groups;
}

TEST(SharedProcessors, AHostsDevicesWithProcessorsOfTheirOwnComputeAtTheSameTime) {
    EXPECT_EQ(groups_of({{"", ""}, {"", ""}, {"", ""}}), 3);
    EXPECT_EQ(groups_of({{"den", ""}, {"den", ""}, {"den", ""}}), 1);
    EXPECT_EQ(groups_of({{"den", "c0"}, {"den", "c1"}, {"den", ""}}), 3);
    EXPECT_EQ(groups_of({{"den", "c0"}, {"den", "c0"}, {"den", ""}}), 2);
    EXPECT_EQ(groups_of({{"den", "c0"}, {"attic", "c0"}, {"attic", ""}}), 3);
}

TEST(SharedProcessors, WorkersThatLeaveEachOtherCoresComputeAtTheSameTime) {
    const std::vector<Place> den = {{"den", ""}, {"den", ""}, {"den", ""}};
    EXPECT_EQ(groups_of(den, {0.25, 0.25, 0.25}), 3);
    EXPECT_EQ(groups_of(den, {0.5, 0.5, 0.5}), 2) << "three halves";
    EXPECT_EQ(groups_of(den, {1.0 / 3, 1.0 / 3, 1.0 / 3}), 3);
    EXPECT_EQ(groups_of(den, {1, 1, 0.5}), 1);
    EXPECT_EQ(groups_of({{"den", ""}, {"den", ""}, {"attic", ""}}, {0.5, 0.5, 1}), 3);
}

TEST(SharedProcessors, ThePolicySaysHowManyBatchesAMachineHas) {
    const std::vector<Place> apart = {{"", ""}, {"", ""}, {"", ""}};
    const std::vector<Place> den = {{"den", ""}, {"den", ""}, {"den", ""}};
    EXPECT_EQ(groups_of(apart, {1, 1, 1}, 2), 6);
    EXPECT_EQ(groups_of(apart, {1, 1, 1}, 0.5), 2) << "1.5, rounded";
    EXPECT_EQ(groups_of(den, {1, 1, 1}, 3), 3);
    EXPECT_EQ(groups_of(den, {1, 1, 1}, 0.1), 1) << "never none";
}

}  // namespace
}  // namespace helix::core::shared_processors_test
