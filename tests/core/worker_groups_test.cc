// Sequence groups on a worker: forks, draws, drafts.

#include <gtest/gtest.h>

#include "core/worker_driver.h"

namespace helix::core::worker_groups_test {
namespace {

using Driver = WorkerDriver;

RowTokens prompt(std::size_t n) {
    RowTokens tokens;
    for (std::size_t i = 0; i < n; ++i) tokens.push_back(static_cast<Token>(10 + i));
    return tokens;
}

TEST(WorkerFork, MembersShareThePromptUntilTheyWrite) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), prompt(10)));
    EXPECT_EQ(worker.report().used_pages, 6);
    worker.say(ForkSequences{Driver::key(1), 10, {1, 2}});
    EXPECT_EQ(worker.report().used_pages, 6) << "nothing is allocated";
    worker.say(StageInputs{{Driver::rows(Driver::key(1), 10, {3}),
                            Driver::rows(Driver::key(1, 1), 10, {4}, 0),
                            Driver::rows(Driver::key(1, 2), 10, {5}, 0)}});
    const BatchPlan& plan = worker.plan();
    ASSERT_EQ(plan.chunks.size(), 3U);
    EXPECT_EQ(plan.copies.size(), 4U) << "the last writer has the page to itself";
    EXPECT_EQ(worker.report().used_pages, 10);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(plan.chunks[i].key, Driver::key(1, static_cast<std::uint32_t>(i)));
        EXPECT_EQ(plan.chunks[i].pages[0], plan.chunks[0].pages[0]);
        EXPECT_EQ(plan.chunks[i].first_position, 10);
    }
    EXPECT_NE(plan.chunks[0].pages[2], plan.chunks[1].pages[2]);
    EXPECT_NE(plan.chunks[1].pages[2], plan.chunks[2].pages[2]);
    worker.finish();
    worker.say(FreeSequences{{Driver::key(1), Driver::key(1, 2)}});
    EXPECT_EQ(worker.report().used_pages, 6);
    worker.say(FreeSequences{{Driver::key(1, 1)}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerFork, RowsOfAChildMayOvertakeTheForkAndItComesTwice) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), prompt(6)));
    worker.say(StageInputs{{Driver::rows(Driver::key(1, 1), 6, {4}, 0)}});
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    EXPECT_EQ(worker.plan().chunks[0].key, Driver::key(1, 1));
    worker.finish();
    worker.say(ForkSequences{Driver::key(1), 6, {1, 2}});
    EXPECT_EQ(worker.report().held.size(), 3U);
    worker.say(FreeSequences{{Driver::key(1, 2)}});
    worker.say(ForkSequences{Driver::key(1), 6, {1, 2}});
    EXPECT_EQ(worker.report().held.size(), 2U) << "what was freed does not come back";
}

TEST(WorkerFork, WithoutItsParentThereIsNoChildAndNobodyIsTold) {
    Driver worker(40);
    worker.say(ForkSequences{Driver::key(1), 6, {1}});
    EXPECT_TRUE(worker.stuck().empty());
    worker.say(StageInputs{{Driver::rows(Driver::key(1, 1), 6, {4}, 0)}});
    EXPECT_TRUE(worker.stuck().empty());
    EXPECT_TRUE(worker.report().held.empty());
}

TEST(WorkerFork, AParentWithoutTheTokensEndsTheChildWithTheNumbers) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), prompt(6)));
    worker.say(ForkSequences{Driver::key(1), 7, {1}});
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].key, Driver::key(1, 1));
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::failed);
    EXPECT_EQ(worker.stuck()[0].reason, "member 0 has 6 tokens here, of which 7 are to be shared");
}

TEST(WorkerFork, ANewerAttemptReplacesTheWholeGroupAndItsMembersStandSideBySide) {
    Driver worker(60);
    worker.run(worker.start(Driver::key(1), prompt(6)));
    worker.say(ForkSequences{Driver::key(1), 6, {1}});
    worker.run(worker.start(Driver::key(1, 0, 2), prompt(7)));
    worker.run(worker.start(Driver::key(1, 1, 2), prompt(7)));
    EXPECT_EQ(worker.report().held,
              (std::vector<SequenceKey>{Driver::key(1, 0, 2), Driver::key(1, 1, 2)}));
}

TEST(WorkerFork, AChildOfAnOlderPlaceCopiesTheBlockThatItsParentHasFilled) {
    Driver worker(40);
    worker.run(worker.start(Driver::key(1), prompt(6)));
    for (std::int32_t p = 6; p < 9; ++p) worker.run(Driver::rows(Driver::key(1), p, {1}));
    worker.say(ForkSequences{Driver::key(1), 7, {1}});
    worker.say(StageInputs{{Driver::rows(Driver::key(1, 1), 7, {2}, 0)}});
    EXPECT_EQ(worker.plan().copies.size(), 2U);
    worker.finish();
    worker.say(StageInputs{{Driver::rows(Driver::key(1), 9, {2})}});
    EXPECT_TRUE(worker.plan().copies.empty());
}

TEST(WorkerFork, TheNextStageHearsOfTheParentWithTheFirstRowsOnly) {
    Driver worker(40, 0, Driver::small(), {{{0}, {0, 1}}, {{1}, {1, 2}}});
    worker.run(worker.start(Driver::key(1), prompt(6)));
    ASSERT_TRUE(find<SendToPeer>(worker.actions()));
    EXPECT_TRUE(find<SendToPeer>(worker.actions())->inputs.inputs[0].start.has_value());
    worker.say(ForkSequences{Driver::key(1), 6, {3}});
    worker.run(Driver::rows(Driver::key(1, 3), 6, {4}));
    const auto first = find<SendToPeer>(worker.actions())->inputs.inputs[0];
    EXPECT_EQ(first.parent, 0);
    EXPECT_FALSE(first.start.has_value());
    worker.run(Driver::rows(Driver::key(1, 3), 7, {4}));
    EXPECT_EQ(find<SendToPeer>(worker.actions())->inputs.inputs[0].parent, -1);
}

TEST(WorkerFork, WithoutAPageForTheCopyTheMemberWaits) {
    Driver worker(4);
    worker.run(worker.start(Driver::key(1), prompt(6)));
    worker.say(ForkSequences{Driver::key(1), 6, {1}});
    worker.say(StageInputs{{Driver::rows(Driver::key(1, 1), 6, {4}, 0)}});
    EXPECT_EQ(worker.plan().id, 0U);
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::out_of_pages);
    worker.say(FreeSequences{{Driver::key(1)}});
    ASSERT_EQ(worker.plan().chunks.size(), 1U) << "the page is its own now";
    EXPECT_TRUE(worker.plan().copies.empty());
}

TEST(WorkerAdmission, APromptThatNeverFitsIsRefusedWithTheNumbers) {
    Driver worker(200);
    worker.say(StageInputs{{worker.start(Driver::key(1), prompt(397))}});
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::failed);
    EXPECT_EQ(worker.stuck()[0].reason,
              "the prompt's 397 tokens need 200 KV pages on this worker, which has 200 and keeps 2 "
              "of them free");
    worker.run(worker.start(Driver::key(2), prompt(396)));
    EXPECT_EQ(worker.report().used_pages, 198);
    worker.run(Driver::rows(Driver::key(2), 396, {1}));
    EXPECT_EQ(worker.report().used_pages, 200) << "one that runs takes the last pages";
}

TEST(WorkerAdmission, ANewSequenceLeavesTheWatermarkToThoseThatRun) {
    Driver worker(200);
    worker.run(worker.start(Driver::key(1), prompt(392)));  // 196 pages
    worker.say(StageInputs{{worker.start(Driver::key(2), prompt(4))}});
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    worker.drain();
    worker.say(StageInputs{{worker.start(Driver::key(3), prompt(4))}});
    EXPECT_EQ(worker.plan().id, 0U);
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].key, Driver::key(3));
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::out_of_pages);
    worker.run(Driver::rows(Driver::key(1), 392, {1}));
    EXPECT_EQ(worker.report().used_pages, 200);
}

TEST(WorkerDraws, TheLastStageGivesATokenForEachMember) {
    Driver worker(40);
    StageInput input = worker.start(Driver::key(1), prompt(6));
    input.draws = 3;
    worker.say(StageInputs{{input}});
    EXPECT_EQ(worker.plan().chunks[0].draws, 3);
    worker.finish();
    const auto said = worker.said<TokensProduced>();
    ASSERT_EQ(said.size(), 1U);
    ASSERT_EQ(said[0].tokens.size(), 3U);
    for (std::uint32_t m = 0; m < 3; ++m) EXPECT_EQ(said[0].tokens[m].key, Driver::key(1, m));
}

class WorkerDrafts : public ::testing::Test {
  protected:
    WorkerDrafts() { worker_.run(worker_.start(Driver::key(1), prompt(6))); }

    static StageInput drafts(std::int32_t first, RowTokens tokens) {
        StageInput input = Driver::rows(Driver::key(1), first, std::move(tokens));
        input.drafts = static_cast<std::int32_t>(input.tokens.size()) - 1;
        return input;
    }
    std::vector<ProducedToken> tokens(std::int32_t first, std::int32_t count) {
        std::vector<ProducedToken> all;
        for (std::int32_t i = 0; i < count; ++i)
            all.push_back({Driver::key(1), first + i, 7, 0, {}});
        return all;
    }

    Driver worker_{40};
};

TEST_F(WorkerDrafts, TheyRunAsOneDecodeAndRightOnesGoOn) {
    worker_.say(StageInputs{{drafts(6, {1, 2, 3})}});
    ASSERT_EQ(worker_.plan().chunks.size(), 1U);
    EXPECT_EQ(worker_.plan().chunks[0].tokens.size(), 3U);
    EXPECT_EQ(worker_.plan().chunks[0].drafts, 2);
    worker_.finish(tokens(7, 3));
    EXPECT_EQ(worker_.said<TokensProduced>()[0].tokens.size(), 3U);
    worker_.say(StageInputs{{drafts(9, {4, 5})}});
    EXPECT_EQ(worker_.plan().chunks[0].first_position, 9);
}

TEST_F(WorkerDrafts, AfterAWrongOneTheSequenceGoesBackAndKeepsItsPages) {
    worker_.say(StageInputs{{drafts(6, {1, 2, 3, 4})}});
    worker_.finish(tokens(7, 2));
    EXPECT_EQ(worker_.report().used_pages, 6);
    worker_.say(StageInputs{{drafts(8, {9, 8, 7})}});
    EXPECT_EQ(worker_.plan().chunks[0].first_position, 8);
    EXPECT_EQ(worker_.report().used_pages, 6);
    worker_.finish(tokens(9, 1));
    worker_.say(StageInputs{{Driver::rows(Driver::key(1), 9, {6})}});
    EXPECT_EQ(worker_.plan().chunks[0].first_position, 9);
}

TEST_F(WorkerDrafts, RowsThatCameTwiceAreNotTakenForGoingBack) {
    worker_.say(StageInputs{{drafts(6, {1, 2, 3})}});
    worker_.say(StageInputs{{drafts(6, {1, 2, 3})}});
    worker_.finish(tokens(7, 1));
    EXPECT_EQ(worker_.plan().id, 0U);
    worker_.say(StageInputs{{drafts(6, {1, 2, 3})}});
    EXPECT_EQ(worker_.plan().id, 0U);
    EXPECT_TRUE(worker_.stuck().empty());
}

TEST_F(WorkerDrafts, RowsInPlaceOfDraftsUnderWayAreAnError) {
    worker_.say(StageInputs{{drafts(6, {1, 2, 3})}});
    worker_.say(StageInputs{{drafts(7, {2, 3})}});
    ASSERT_EQ(worker_.stuck().size(), 1U);
    EXPECT_EQ(worker_.stuck()[0].cause, StuckCause::failed);
    worker_.finish(tokens(7, 1));
    EXPECT_EQ(held_when_idle(worker_.worker()), "");
}

TEST_F(WorkerDrafts, TheHistoryGoesBackToo) {
    StageInput input = worker_.start(Driver::key(2), prompt(3));
    SequenceStart start = *input.start;
    start.sampling.frequency_penalty = 1;
    input.start = start;
    worker_.run(input);
    StageInput more = drafts(3, {1, 2, 3});
    more.key = Driver::key(2);
    worker_.say(StageInputs{{more}});
    EXPECT_EQ(worker_.plan().chunks[0].history, (std::vector<Token>{10, 11, 12, 1, 2, 3}));
    worker_.finish({{Driver::key(2), 4, 9, 0, {}}});
    worker_.say(StageInputs{{Driver::rows(Driver::key(2), 4, {9})}});
    EXPECT_EQ(worker_.plan().chunks[0].history, (std::vector<Token>{10, 11, 12, 1, 9}));
}

TEST(WorkerDraftBudget, DraftsAreNotSplitAndOnesTooLargeForABatchRunAlone) {
    WorkerConfig config = Driver::small();
    config.max_batch_rows = 4;
    Driver worker(80, 0, config);
    worker.run(worker.start(Driver::key(1), prompt(3)));
    worker.run(worker.start(Driver::key(2), prompt(3)));
    const auto drafts = [](std::uint64_t request, RowTokens tokens) {
        StageInput input = Driver::rows(Driver::key(request), 3, std::move(tokens));
        input.drafts = static_cast<std::int32_t>(input.tokens.size()) - 1;
        return input;
    };
    worker.say(StageInputs{{drafts(1, {1, 2, 3}), drafts(2, {1, 2, 3, 4, 5, 6})}});
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    EXPECT_EQ(worker.plan().chunks[0].tokens.size(), 3U);
    worker.finish();
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    EXPECT_EQ(worker.plan().chunks[0].tokens.size(), 6U);
}

TEST(WorkerDraftBudget, APromptWithDraftsAtItsEndIsCutBeforeTheRowThatIsSampledFirst) {
    WorkerConfig config = Driver::small();
    config.max_batch_rows = 6;
    Driver worker(80, 0, config);
    StageInput input = worker.start(Driver::key(1), prompt(8));
    input.drafts = 3;
    worker.say(StageInputs{{input}});
    EXPECT_EQ(worker.plan().chunks[0].tokens.size(), 4U);
    EXPECT_FALSE(worker.plan().chunks[0].sample);
    worker.finish();
    EXPECT_EQ(worker.plan().chunks[0].tokens.size(), 4U);
    EXPECT_EQ(worker.plan().chunks[0].drafts, 3);
}

}  // namespace
}  // namespace helix::core::worker_groups_test
