#include "core/worker/worker.h"

#include <gtest/gtest.h>

#include "core/find_action.h"
#include "core/invariants.h"
#include "core/protocol/describe.h"

namespace helix::core::worker_test {
namespace {

// A worker with layers [2, 4) of 6 in the middle of a pipeline, driven by hand.
class WorkerTest : public ::testing::Test {
  protected:
    WorkerTest() : worker_({1}, config()) {
        step(MessageArrived{AssignLayers{1, {2, 4}, 1, {}}});
        step(LayersLoaded{1, 40});
    }

    static WorkerConfig config() {
        WorkerConfig config;
        config.n_layers = 6;
        config.block_size = 4;
        config.max_batch_rows = 8;
        config.mixed_prefill_rows = 2;
        return config;
    }

    std::vector<WorkerAction> step(const WorkerEvent& event) {
        std::vector<WorkerAction> actions;
        worker_.step(now_, event, actions);
        EXPECT_EQ(broken_invariant(worker_), "");
        return actions;
    }

    static StageInput rows(std::uint64_t request, std::uint32_t attempt, std::int32_t first,
                           std::size_t count, std::uint64_t buffer) {
        StageInput input;
        input.key = {{request}, attempt};
        input.first_position = first;
        input.tokens.assign(count, 5);
        input.sample = true;
        input.payload = {buffer, 0, static_cast<std::uint32_t>(count)};
        if (first == 0) {
            input.start = SequenceStart{{{{0}, {0, 2}}, {{1}, {2, 4}}, {{2}, {4, 6}}},
                                        static_cast<std::int32_t>(count),
                                        {}};
        }
        return input;
    }

    static bool released(const std::vector<WorkerAction>& actions, std::uint64_t buffer) {
        for (const WorkerAction& action : actions) {
            const auto* release = std::get_if<ReleaseBuffer>(&action);
            if (release != nullptr && release->buffer == buffer) return true;
        }
        return false;
    }

    WorkerReport report() {
        now_ = now_ + base::from_seconds(1);
        const auto actions = step(WorkerTick{});
        const auto out = find<SendToCoordinator>(actions);
        EXPECT_TRUE(out);
        return std::get<WorkerReport>(out->message);
    }

    TimePoint now_;
    Worker worker_;
};

TEST_F(WorkerTest, RowsPassThroughInPiecesAndTheFrameIsReleasedAfterTheLast) {
    auto actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 11, 77)}}});
    const auto batch = find<RunBatch>(actions);
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->plan.chunks.size(), 1U);
    EXPECT_EQ(batch->plan.chunks[0].tokens.size(), 8U);
    EXPECT_EQ(batch->plan.chunks[0].pages.size(), 4U);  // 2 layers x 2 blocks
    EXPECT_EQ(batch->plan.output_rows, 8);

    actions = step(BatchFinished{batch->plan.id, {}, {}});
    const auto sent = find<SendToPeer>(actions);
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->peer, WorkerId{2});
    EXPECT_TRUE(sent->inputs.inputs[0].start.has_value());
    EXPECT_FALSE(sent->inputs.inputs[0].sample) << "the last row is not among these";
    EXPECT_FALSE(released(actions, 77));

    const auto second = find<RunBatch>(actions);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->plan.chunks[0].first_position, 8);
    EXPECT_EQ(second->plan.chunks[0].input.first_row, 8U);
    actions = step(BatchFinished{second->plan.id, {}, {}});
    EXPECT_TRUE(find<SendToPeer>(actions)->inputs.inputs[0].sample);
    EXPECT_TRUE(released(actions, 77));
    EXPECT_TRUE(released(actions, second->plan.id));
}

TEST_F(WorkerTest, FreedInTheMiddleOfABatchItGoesWhenTheBatchEnds) {
    auto actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 7)}}});
    const std::uint64_t batch = find<RunBatch>(actions)->plan.id;
    actions = step(MessageArrived{FreeSequences{{{{1}, 1}}}});
    EXPECT_FALSE(released(actions, 7)) << "the engine still reads it";
    actions = step(BatchFinished{batch, {}, {}});
    EXPECT_FALSE(find<SendToPeer>(actions));
    EXPECT_TRUE(released(actions, 7));
    EXPECT_EQ(report().used_pages, 0);
}

TEST_F(WorkerTest, LateAndDuplicateRowsAreDroppedAndTheirFramesReleased) {
    auto actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 7)}}});
    const std::uint64_t batch = find<RunBatch>(actions)->plan.id;
    actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 8)}}});
    EXPECT_TRUE(released(actions, 8)) << "a duplicate";
    actions = step(MessageArrived{StageInputs{{rows(9, 1, 3, 1, 9)}}});
    EXPECT_TRUE(released(actions, 9)) << "rows of a sequence nobody knows";
    step(BatchFinished{batch, {}, {}});
    step(MessageArrived{FreeSequences{{{{1}, 1}}}});
    actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 10)}}});
    EXPECT_TRUE(released(actions, 10)) << "rows after the end";
    EXPECT_TRUE(report().held.empty());
}

TEST_F(WorkerTest, ANewAttemptReplacesTheOldAndTheOldIsNotTakenBack) {
    auto actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 7)}}});
    step(BatchFinished{find<RunBatch>(actions)->plan.id, {}, {}});
    actions = step(MessageArrived{StageInputs{{rows(1, 2, 0, 4, 8)}}});
    step(BatchFinished{find<RunBatch>(actions)->plan.id, {}, {}});
    EXPECT_EQ(report().held, (std::vector<SequenceKey>{{{1}, 2}}));
    actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 9)}}});
    EXPECT_TRUE(released(actions, 9));
    EXPECT_EQ(report().held, (std::vector<SequenceKey>{{{1}, 2}}));
}

TEST_F(WorkerTest, RowsForLayersItDoesNotHoldAreAnsweredWithTheReason) {
    StageInput input = rows(1, 1, 0, 4, 7);
    SequenceStart start = *input.start;
    start.pipeline = {{{0}, {0, 2}}, {{1}, {2, 6}}};
    input.start = start;
    const auto actions = step(MessageArrived{StageInputs{{input}}});
    EXPECT_TRUE(released(actions, 7));
    const auto stuck = std::get<SequenceStuck>(find<SendToCoordinator>(actions)->message);
    EXPECT_EQ(stuck.cause, StuckCause::failed);
    EXPECT_EQ(stuck.reason, "this worker does not hold the pipeline's layers");
}

TEST_F(WorkerTest, AFailedBatchEndsItsSequencesWithTheReason) {
    auto actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 7), rows(2, 1, 0, 4, 7)}}});
    actions = step(BatchFailed{find<RunBatch>(actions)->plan.id, "logits are not finite"});
    int stuck = 0;
    for (const auto& action : actions) {
        const auto* out = std::get_if<SendToCoordinator>(&action);
        if (out == nullptr) continue;
        EXPECT_EQ(std::get<SequenceStuck>(out->message).reason, "logits are not finite");
        ++stuck;
    }
    EXPECT_EQ(stuck, 2);
    EXPECT_TRUE(released(actions, 7));
    EXPECT_EQ(report().used_pages, 0);
}

TEST_F(WorkerTest, ASequenceWithoutATokenEndsAloneWithTheReason) {
    StageInput bad = rows(1, 1, 0, 4, 7);
    StageInput good = rows(2, 1, 0, 4, 7);
    for (StageInput* input : {&bad, &good}) {
        SequenceStart start = *input->start;
        start.pipeline = {{{0}, {0, 2}}, {{1}, {2, 6}}};
        input->start = std::move(start);
    }
    Worker last({1}, config());
    std::vector<WorkerAction> actions;
    const auto act = [&](const WorkerEvent& event) {
        actions.clear();
        last.step(now_, event, actions);
        EXPECT_EQ(broken_invariant(last), "");
    };
    act(MessageArrived{AssignLayers{1, {2, 6}, 1, {}}});
    act(LayersLoaded{1, 40});
    act(MessageArrived{StageInputs{{bad, good}}});
    const auto batch = find<RunBatch>(actions);
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->plan.chunks.size(), 2U);
    BatchFinished finished{batch->plan.id, {}, {}};
    for (const BatchChunk& chunk : batch->plan.chunks) {
        ProducedToken token;
        token.key = chunk.key;
        token.position = 4;
        finished.tokens.push_back(token);
    }
    finished.failed = {{bad.key, "no token follows", StuckCause::invalid_request}};
    act(finished);
    int stuck = 0;
    int produced = 0;
    for (const auto& action : actions) {
        const auto* out = std::get_if<SendToCoordinator>(&action);
        if (out == nullptr) continue;
        if (const auto* one = std::get_if<SequenceStuck>(&out->message)) {
            EXPECT_EQ(one->key, bad.key);
            EXPECT_EQ(one->cause, StuckCause::invalid_request);
            EXPECT_EQ(one->reason, "no token follows");
            ++stuck;
        } else if (const auto* tokens = std::get_if<TokensProduced>(&out->message)) {
            ASSERT_EQ(tokens->tokens.size(), 1U);
            EXPECT_EQ(tokens->tokens[0].key, good.key);
            ++produced;
        }
    }
    EXPECT_EQ(stuck, 1);
    EXPECT_EQ(produced, 1);
}

TEST_F(WorkerTest, RenewedPeersDisturbNothingButOtherLayersDropEverything) {
    auto actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 7)}}});
    step(BatchFinished{find<RunBatch>(actions)->plan.id, {}, {}});
    actions = step(MessageArrived{AssignLayers{2, {2, 4}, 1, {{{9}, "tcp://x:1", ""}}}});
    EXPECT_FALSE(find<LoadLayers>(actions));
    EXPECT_EQ(report().used_pages, 2);
    actions = step(MessageArrived{AssignLayers{3, {0, 3}, 1, {}}});
    ASSERT_TRUE(find<LoadLayers>(actions));
    step(LayersLoaded{2, 99});  // an answer to an older question
    step(LayersLoaded{3, 50});
    EXPECT_EQ(report().total_pages, 50);
    EXPECT_EQ(report().used_pages, 0);
}

TEST_F(WorkerTest, TwoGroupsSplitTheDecodes) {
    step(MessageArrived{AssignLayers{2, {2, 4}, 2, {}}});
    StageInputs prompts;
    for (std::uint64_t r = 1; r <= 4; ++r) prompts.inputs.push_back(rows(r, 1, 0, 2, 7));
    auto actions = step(MessageArrived{prompts});
    actions = step(BatchFinished{find<RunBatch>(actions)->plan.id, {}, {}});
    EXPECT_FALSE(find<RunBatch>(actions));
    StageInputs decodes;
    for (std::uint64_t r = 1; r <= 4; ++r) decodes.inputs.push_back(rows(r, 1, 2, 1, 8));
    actions = step(MessageArrived{decodes});
    EXPECT_EQ(find<RunBatch>(actions)->plan.chunks.size(), 2U);
}

TEST_F(WorkerTest, ARepeatedOrLateAssignmentDisturbsNothing) {
    auto actions = step(MessageArrived{AssignLayers{3, {0, 3}, 1, {}}});
    ASSERT_TRUE(find<LoadLayers>(actions));
    EXPECT_TRUE(step(MessageArrived{AssignLayers{3, {0, 3}, 1, {}}}).empty()) << "being loaded";
    EXPECT_TRUE(step(MessageArrived{AssignLayers{2, {2, 4}, 1, {}}}).empty()) << "superseded";
    step(LayersLoaded{3, 50});
    actions = step(MessageArrived{AssignLayers{3, {0, 3}, 1, {}}});
    EXPECT_FALSE(find<LoadLayers>(actions));
    ASSERT_TRUE(find<SendToCoordinator>(actions)) << "the answer was lost, so it is given again";
    EXPECT_TRUE(step(MessageArrived{AssignLayers{2, {2, 4}, 1, {}}}).empty()) << "superseded";
    EXPECT_EQ(report().total_pages, 50);
}

TEST_F(WorkerTest, LayersOfAModelThatItDoesNotServeAreRefusedAndNothingChanges) {
    WorkerConfig of_model_3 = config();
    of_model_3.model = {3};
    worker_ = Worker({1}, of_model_3);
    EXPECT_TRUE(find<LoadLayers>(step(MessageArrived{AssignLayers{1, {2, 4}, 1, {}, {3}}})));
    step(LayersLoaded{1, 40});
    auto actions = step(MessageArrived{StageInputs{{rows(1, 1, 0, 4, 7)}}});
    const auto batch = find<RunBatch>(actions);
    ASSERT_TRUE(batch);
    for (const ModelId other : {ModelId{7}, ModelId{}}) {  // while the batch runs
        actions = step(MessageArrived{AssignLayers{2, {0, 3}, 1, {{{9}, "tcp://x:1", ""}}, other}});
        ASSERT_EQ(actions.size(), 1U);
        const LayersFailed failed =
            std::get<LayersFailed>(find<SendToCoordinator>(actions).value().message);
        EXPECT_EQ(failed.epoch, 2U);
        EXPECT_EQ(failed.reason, "assigned layers of model " + std::to_string(other.value) +
                                     ", but it serves model 3");
    }
    EXPECT_FALSE(find<LoadLayers>(step(BatchFinished{batch->plan.id, {}, {}})));
    EXPECT_EQ(report().total_pages, 40);
    EXPECT_EQ(report().used_pages, 2);
    actions = step(MessageArrived{AssignLayers{2, {2, 4}, 1, {}, {3}}});
    const auto answer = find<SendToCoordinator>(actions);
    ASSERT_TRUE(answer);
    EXPECT_EQ(std::get<LayersReady>(answer->message).epoch, 2U) << "it holds what it held";
}

}  // namespace
}  // namespace helix::core::worker_test
