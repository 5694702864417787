// Workers that are asked for and stopped by load.

#include <gtest/gtest.h>

#include "core/scripted_cluster.h"

namespace helix::core::coordinator_scale_test {
namespace {

CoordinatorConfig config() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 400;
    config.block_size = 4;
    config.expected_output_tokens = 16;
    config.balance.enabled = false;
    config.scale = AutoScaleConfig{};
    config.scale->low = 64;
    config.scale->high = 300;
    config.scale->max_nodes = 3;
    return config;
}

Request request(std::uint64_t id, std::int32_t prompt) {
    Request made;
    made.id = {id};
    made.prompt.assign(static_cast<std::size_t>(prompt), 3);
    made.max_tokens = 60;
    made.stop_tokens = {99};
    return made;
}

class ScaleTest : public ::testing::Test {
  protected:
    ScaleTest() : cluster(config(), 2, 1, 400) {}
    // Lets this many seconds pass, in steps of one; returns what happened.
    template <typename T>
    int count(int seconds) {
        int found = 0;
        for (int s = 0; s < seconds; ++s) {
            cluster.wait(base::from_seconds(1));
            for (const CoordinatorAction& action : cluster.step(CoordinatorTick{})) {
                found += std::holds_alternative<T>(action) ? 1 : 0;
            }
        }
        return found;
    }
    ScriptedCluster cluster;
};

TEST_F(ScaleTest, FullMemoryAsksForOneMoreAndThenWaitsForIt) {
    for (std::uint64_t id = 1; id <= 2; ++id) {
        cluster.step(Submitted{request(id, 300)});
        cluster.tokens(id, {5});
    }
    EXPECT_EQ(count<AddWorker>(60), 0);  // (400 - 304) / 1 = 96 are free for each
    cluster.step(Submitted{request(3, 100)});
    EXPECT_FALSE(cluster.request(3).running);
    EXPECT_EQ(count<AddWorker>(8), 0);
    EXPECT_EQ(count<AddWorker>(60), 1);
    cluster.step(WorkerNotAdded{"there are no more"});
    EXPECT_EQ(count<AddWorker>(25), 0);
    EXPECT_EQ(count<AddWorker>(20), 1);
}

TEST_F(ScaleTest, AnIdleClusterDrainsOne) {
    cluster.step(Submitted{request(1, 40)});
    cluster.tokens(1, {5});
    const std::uint32_t busy = cluster.lane(1);
    EXPECT_EQ(count<PlanCluster>(50), 0);
    count<PlanCluster>(40);
    for (const WorkerView& worker : cluster.view().workers) {
        EXPECT_EQ(worker.draining, worker.worker.value != busy);
    }
}

}  // namespace
}  // namespace helix::core::coordinator_scale_test
