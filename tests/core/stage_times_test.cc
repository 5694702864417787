// What stages say of requests that are timed, and why requests run anew.

#include <gtest/gtest.h>

#include "core/find_action.h"
#include "core/protocol/describe.h"
#include "core/scripted_cluster.h"
#include "core/worker_driver.h"

namespace helix::core::stage_times_test {
namespace {

using base::from_ms;
using base::from_seconds;

// ---- the worker's side

class StageTimesOfWorker : public testing::Test {
  protected:
    void begin(SequenceKey key, std::int32_t draws = 1, bool timed = true) {
        StageInput input = driver_.start(key, {1, 2, 3});
        SequenceStart start = *input.start;
        start.timed = timed;
        input.start = start;
        input.draws = draws;
        driver_.say(StageInputs{{input}});
    }
    // Ends the batch under way, which took so long, with these sequences' tokens.
    void finish(Duration took, const std::vector<SequenceKey>& keys, std::int32_t position) {
        BatchFinished finished{driver_.plan().id, {}, took};
        for (const SequenceKey& key : keys) finished.tokens.push_back({key, position, 7, 0, {}});
        driver_.end(finished);
    }
    std::vector<StageTimes> free(const std::vector<SequenceKey>& keys) {
        driver_.say(FreeSequences{keys});
        return driver_.said<StageTimes>();
    }

    WorkerDriver driver_{40};
};

TEST_F(StageTimesOfWorker, ATimedAttemptsBatchesAreToldWhenItIsFreed) {
    const SequenceKey key = WorkerDriver::key(1);
    begin(key);
    finish(from_ms(30), {key}, 3);
    driver_.report();  // a second passes
    driver_.say(StageInputs{{WorkerDriver::rows(key, 3, {7})}});
    finish(from_ms(5), {key}, 4);
    driver_.report();
    EXPECT_EQ(free({key}),
              (std::vector<StageTimes>{
                  {key, 2, 4, from_ms(35), from_seconds(2) + from_ms(30), from_seconds(1)}}));
    EXPECT_TRUE(free({key}).empty()) << "once";
}

TEST_F(StageTimesOfWorker, NothingIsToldOfOthersNorOfWhatHasNotRun) {
    const SequenceKey untimed = WorkerDriver::key(1);
    begin(untimed, 1, false);
    finish(from_ms(30), {untimed}, 3);
    EXPECT_TRUE(free({untimed}).empty());
    const SequenceKey fresh = WorkerDriver::key(2);
    begin(fresh);
    driver_.say(FreeSequences{{fresh}});  // while its first batch runs
    EXPECT_TRUE(driver_.said<StageTimes>().empty());
    finish(from_ms(30), {fresh}, 3);
    EXPECT_EQ(driver_.said<StageTimes>(),
              (std::vector<StageTimes>{{fresh, 1, 3, from_ms(30), from_ms(30), {}}}))
        << "the batch was computed all the same";
}

TEST_F(StageTimesOfWorker, SequencesOfOneAttemptAreToldTogetherWithTheLast) {
    const SequenceKey first = WorkerDriver::key(1, 0);
    const SequenceKey second = WorkerDriver::key(1, 1);
    begin(first, 2);
    finish(from_ms(30), {first, second}, 3);
    driver_.say(ForkSequences{first, 3, {1}});
    driver_.say(
        StageInputs{{WorkerDriver::rows(first, 3, {7}), WorkerDriver::rows(second, 3, {7})}});
    finish(from_ms(8), {first, second}, 4);
    EXPECT_TRUE(free({first}).empty()) << "the other one is still here";
    const auto times = free({second});
    ASSERT_EQ(times.size(), 1U);
    EXPECT_EQ(times[0].key, first);
    EXPECT_EQ(times[0].rows, 5);
    EXPECT_EQ(times[0].batches, 2);
    EXPECT_EQ(times[0].busy, from_ms(38)) << "a batch that has both counts once";
}

// ---- the coordinator's side

CoordinatorConfig plain() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 4096;
    config.balance.enabled = false;
    return config;
}
Request request_of(std::uint64_t id, bool timed) {
    Request request;
    request.id = {id};
    request.prompt = {1, 2, 3};
    request.max_tokens = 20;
    request.timed = timed;
    return request;
}

TEST(StageTimesAtCoordinator, StagesOfATimedRequestAreAskedAndTheirTimesAreOnItsClock) {
    ScriptedCluster cluster(plain(), 1, 2);
    const auto rows = ScriptedCluster::rows(cluster.step(Submitted{request_of(1, true)}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_TRUE(rows[0].start->timed);
    const WorkerId last = cluster.request(1).pipeline.back().worker;
    const SequenceKey key = rows[0].key;
    cluster.step(Ended{{1}, FinishReason::stop, {}});
    cluster.wait(from_seconds(10));
    const StageTimes said = {key, 2, 4, from_ms(35), from_seconds(3), from_seconds(2)};
    const auto timed = find<StageTimed>(cluster.step(FromWorker{last, said}));
    ASSERT_TRUE(timed) << "although the request is over";
    EXPECT_EQ(timed->id, RequestId{1});
    EXPECT_EQ(timed->attempt, key.attempt);
    EXPECT_EQ(timed->worker, last);
    EXPECT_EQ(timed->rows, 4);
    EXPECT_EQ(timed->batches, 2);
    EXPECT_EQ(timed->busy, from_ms(35));
    EXPECT_EQ(timed->first, (TimePoint{} + from_seconds(1 + 10 - 3)));
    EXPECT_EQ(timed->last, (TimePoint{} + from_seconds(1 + 10 - 2)));
}

TEST(StageTimesAtCoordinator, WhoeverTimesWhatNobodyAskedForOrCannotBeIsCutOff) {
    for (const bool asked : {false, true}) {
        ScriptedCluster cluster(plain(), 1, 2);
        const auto rows = ScriptedCluster::rows(cluster.step(Submitted{request_of(1, asked)}));
        EXPECT_EQ(rows[0].start->timed, asked);
        const Duration later = asked ? from_seconds(1) : Duration{};
        const StageTimes lie = {rows[0].key, 1, 1, {}, {}, later};
        EXPECT_TRUE(find<CutOffWorker>(cluster.step(FromWorker{{0}, lie})));
    }
}

// ---- why it runs anew

TEST(RouteReason, EachRoutingSaysWhyTheRequestLeftItsPipeline) {
    ScriptedCluster cluster(plain(), 2, 2);
    const auto first = find<RequestRouted>(cluster.step(Submitted{request_of(1, false)}));
    ASSERT_TRUE(first);
    EXPECT_EQ(first->reason, RouteReason::first);
    const WorkerId dies = cluster.request(1).pipeline.back().worker;
    const auto again = find<RequestRouted>(cluster.step(WorkerLost{dies, "died"}));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->reason, RouteReason::worker_lost);
    EXPECT_EQ(name_of(again->reason), "worker_lost");
}

}  // namespace
}  // namespace helix::core::stage_times_test
