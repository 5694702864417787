#include <gtest/gtest.h>

#include "core/scripted_cluster.h"

namespace helix::core::speculation_test {
namespace {

CoordinatorConfig config(std::int32_t ngram_tokens = 4) {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 512;
    config.block_size = 4;
    config.speculation.ngram_tokens = ngram_tokens;
    return config;
}

// The text has "1 2 3 4" twice, so after "5 1 2" the draft is "3 4 5 1".
Request repetitive(std::uint64_t id, std::int32_t max_tokens = 20) {
    Request made;
    made.id = {id};
    made.prompt = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1};
    made.max_tokens = max_tokens;
    made.stop_tokens = {99};
    return made;
}

std::vector<Token> tokens_of(const StageInput& input) {
    return {input.tokens.begin(), input.tokens.end()};
}

std::vector<Token> streamed(const ScriptedCluster::Actions& actions) {
    std::vector<Token> all;
    for (const CoordinatorAction& action : actions) {
        const auto* token = std::get_if<StreamToken>(&action);
        if (token != nullptr) all.push_back(token->token.token);
    }
    return all;
}

TEST(CoordinatorSpeculation, TheNextRowsCarryWhatFollowedTheSameWordsBefore) {
    ScriptedCluster cluster(config(), 1, 2);
    cluster.step(Submitted{repetitive(1)});
    const auto rows = ScriptedCluster::rows(cluster.tokens(1, {2}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].first_position, 11);
    EXPECT_EQ(tokens_of(rows[0]), (std::vector<Token>{2, 3, 4, 5, 1}));
    EXPECT_EQ(rows[0].drafts, 4);
    EXPECT_TRUE(rows[0].sample);
    EXPECT_EQ(cluster.request(1).rows_going, 5);
}

TEST(CoordinatorSpeculation, TheNextRowsGoOutAfterTheLastTokenOfTheRun) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{repetitive(1)});
    cluster.tokens(1, {2});  // the draft is 3 4 5 1
    const auto actions = cluster.tokens(1, {3, 4, 7});
    EXPECT_EQ(streamed(actions), (std::vector<Token>{3, 4, 7}));
    const auto rows = ScriptedCluster::rows(actions);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].first_position, 14) << "back to behind the last right one";
    EXPECT_EQ(tokens_of(rows[0]), (std::vector<Token>{7})) << "7 was not seen before";
    EXPECT_EQ(rows[0].drafts, 0);
    EXPECT_EQ(cluster.view().drafts, 1);
    EXPECT_EQ(cluster.view().draft_tokens, 4);
    EXPECT_EQ(cluster.view().accepted_draft_tokens, 2);
}

TEST(CoordinatorSpeculation, WhenAllDraftsAreRightOneTokenMoreComesThanWereDrafted) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{repetitive(1)});
    cluster.tokens(1, {2});
    const auto rows = ScriptedCluster::rows(cluster.tokens(1, {3, 4, 5, 1, 2}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].first_position, 16);
    EXPECT_EQ(cluster.view().accepted_draft_tokens, 4);
}

// What cannot be drawn (no token fits the grammar) says so when it is drawn alone.
TEST(CoordinatorSpeculation, ARunThatEndsOnARightDraftIsGoneOnFrom) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{repetitive(1)});
    cluster.tokens(1, {2});
    const auto rows = ScriptedCluster::rows(cluster.tokens(1, {3, 4}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].first_position, 13);
    EXPECT_EQ(rows[0].tokens.front(), 4);
}

TEST(CoordinatorSpeculation, AStopTokenInsideARunEndsItThere) {
    Request stops = repetitive(1);
    stops.stop_tokens = {4};
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{stops});
    cluster.tokens(1, {2});
    const auto actions = cluster.tokens(1, {3, 4, 5, 1, 2});
    EXPECT_EQ(streamed(actions), (std::vector<Token>{3, 4}));
    EXPECT_EQ(find<FinishRequest>(actions)->reason, FinishReason::stop);
    EXPECT_TRUE(ScriptedCluster::rows(actions).empty());
    EXPECT_EQ(held_when_idle(cluster.coordinator()), "");
}

TEST(CoordinatorSpeculation, NeverMoreIsDraftedThanMayBeSaid) {
    ScriptedCluster cluster(config(8), 1, 1);
    cluster.step(Submitted{repetitive(1, 4)});
    const auto rows = ScriptedCluster::rows(cluster.tokens(1, {2}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(tokens_of(rows[0]), (std::vector<Token>{2, 3, 4})) << "and one more is drawn: four";
    const auto end = cluster.tokens(1, {3, 4, 5});
    EXPECT_EQ(streamed(end), (std::vector<Token>{3, 4, 5}));
    EXPECT_EQ(find<FinishRequest>(end)->reason, FinishReason::length);
    cluster.step(Submitted{repetitive(2, 2)});
    EXPECT_EQ(ScriptedCluster::rows(cluster.tokens(2, {2}))[0].drafts, 0);
}

TEST(CoordinatorSpeculation, ARequestMayAskForItOrNot) {
    ScriptedCluster off(config(0), 1, 1);
    Request asks = repetitive(1);
    asks.max_draft_tokens = 2;
    off.step(Submitted{asks});
    EXPECT_EQ(ScriptedCluster::rows(off.tokens(1, {2}))[0].drafts, 2);
    off.step(Submitted{repetitive(2)});
    EXPECT_EQ(ScriptedCluster::rows(off.tokens(2, {2}))[0].drafts, 0);
    ScriptedCluster on(config(4), 1, 1);
    asks.max_draft_tokens = 0;
    on.step(Submitted{asks});
    EXPECT_EQ(ScriptedCluster::rows(on.tokens(1, {2}))[0].drafts, 0);
}

TEST(CoordinatorSpeculation, APredictionOfTheAnswerIsLookedUpToo) {
    ScriptedCluster cluster(config(0), 1, 1);
    Request asked = repetitive(1);
    asked.prompt = {60, 61};
    asked.prediction = {70, 71, 72, 73, 74};
    cluster.step(Submitted{asked});
    EXPECT_EQ(ScriptedCluster::rows(cluster.tokens(1, {70}))[0].drafts, 0)
        << "one token is not enough";
    EXPECT_EQ(tokens_of(ScriptedCluster::rows(cluster.tokens(1, {71}))[0]),
              (std::vector<Token>{71, 72, 73, 74, 60}));
    asked.id = {2};
    asked.max_draft_tokens = 0;
    cluster.step(Submitted{asked});
    cluster.tokens(2, {70});
    EXPECT_EQ(ScriptedCluster::rows(cluster.tokens(2, {71}))[0].drafts, 0);
}

TEST(CoordinatorSpeculation, TheMoreShareABatchTheLessIsDrafted) {
    CoordinatorConfig few = config(8);
    few.speculation.draft_rows = 6;
    ScriptedCluster cluster(few, 1, 1);
    for (std::uint64_t id = 1; id <= 3; ++id) cluster.step(Submitted{repetitive(id)});
    EXPECT_EQ(ScriptedCluster::rows(cluster.tokens(1, {2}))[0].drafts, 2);
    for (std::uint64_t id = 4; id <= 7; ++id) cluster.step(Submitted{repetitive(id)});
    EXPECT_EQ(ScriptedCluster::rows(cluster.tokens(2, {2}))[0].drafts, 0);
}

TEST(CoordinatorSpeculation, APreemptionWhileDraftsAreOnTheirWayForgetsThem) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{repetitive(1)});
    cluster.step(Submitted{repetitive(2)});
    EXPECT_GT(ScriptedCluster::rows(cluster.tokens(2, {2}))[0].drafts, 0);
    const std::uint32_t old = cluster.request(2).attempt;
    cluster.stuck(2, StuckCause::out_of_pages);
    const auto again = ScriptedCluster::rows(cluster.step(CoordinatorTick{}));
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].first_position, 0);
    EXPECT_EQ(again[0].tokens.size(), 12U);
    EXPECT_EQ(again[0].drafts, 0);
    const auto late = cluster.step(
        FromWorker{{0}, TokensProduced{{{{{2}, old}, 12, 3, 0, {}}, {{{2}, old}, 13, 4, 0, {}}}}});
    EXPECT_TRUE(late.empty());
    EXPECT_EQ(cluster.view().accepted_draft_tokens, 0);
    const auto rows = ScriptedCluster::rows(cluster.tokens(2, {3}));
    ASSERT_EQ(rows.size(), 1U) << "a token of the new attempt is none of the old run";
    EXPECT_EQ(rows[0].first_position, 12);
    EXPECT_GT(rows[0].drafts, 0);
    EXPECT_EQ(cluster.view().accepted_draft_tokens, 0);
}

// Whatever is drafted, the client gets what the model says. Here the model says a function of the
// text so far, and the worker is played as the last stage: it draws up to the first wrong token of
// the draft.
TEST(CoordinatorSpeculation, TheAnswerIsThatOfPlainDecoding) {
    const auto model = [](const std::vector<Token>& so_far) {
        // The model mostly repeats what it said eight tokens before, with a slip now and then.
        const std::size_t n = so_far.size();
        const Token before = n >= 8 ? so_far[n - 8] : static_cast<Token>(n);
        return n % 13 == 0 ? static_cast<Token>(n % 7) : before;
    };
    std::map<std::int32_t, std::int64_t> steps;
    std::map<std::int32_t, std::vector<Token>> answers;
    for (const std::int32_t drafts : {0, 1, 3, 8}) {
        ScriptedCluster cluster(config(drafts), 1, 1);
        Request asked = repetitive(1, 200);
        auto rows = ScriptedCluster::rows(cluster.step(Submitted{asked}));
        std::vector<Token> held;  // what the worker has
        while (cluster.open(1)) {
            ASSERT_EQ(rows.size(), 1U);
            const StageInput& input = rows[0];
            ASSERT_LE(static_cast<std::size_t>(input.first_position), held.size());
            held.resize(static_cast<std::size_t>(input.first_position));
            held.insert(held.end(), input.tokens.begin(), input.tokens.end());
            ++steps[drafts];
            TokensProduced drawn;
            for (auto at = held.size() - static_cast<std::size_t>(input.drafts);; ++at) {
                const Token token = model({held.begin(), held.begin() + static_cast<long>(at)});
                drawn.tokens.push_back({input.key, static_cast<std::int32_t>(at), token, 0, {}});
                if (at == held.size() || held[at] != token) break;
            }
            const auto actions = cluster.step(FromWorker{{0}, drawn});
            for (const Token token : streamed(actions)) answers[drafts].push_back(token);
            rows = ScriptedCluster::rows(actions);
        }
        EXPECT_EQ(answers[drafts].size(), 200U);
        EXPECT_EQ(answers[drafts], answers[0]) << drafts << " drafts";
    }
    EXPECT_EQ(steps[0], 200);
    EXPECT_LT(steps[1], 150);
    EXPECT_LT(steps[8], 80);
}

// ---- the draft model
// --------------------------------------------------------------------------------------

CoordinatorConfig with_draft_model() {
    CoordinatorConfig made = config(0);
    made.speculation.draft_tokens = 4;
    return made;
}

TEST(CoordinatorSpeculation, TheDraftModelIsAskedAndItsAnswerSent) {
    ScriptedCluster cluster(with_draft_model(), 1, 1);
    auto question = find<ProposeDrafts>(cluster.step(Submitted{repetitive(1)}));
    ASSERT_TRUE(question) << "while the pipeline computes the prompt it can do so, too";
    EXPECT_EQ(question->first, 0);
    EXPECT_EQ(question->tokens, repetitive(1).prompt);
    EXPECT_EQ(question->count, 0);
    auto actions = cluster.tokens(1, {60});
    EXPECT_TRUE(ScriptedCluster::rows(actions).empty()) << "it waits for the drafts";
    question = find<ProposeDrafts>(actions);
    ASSERT_TRUE(question);
    EXPECT_EQ(question->first, 11);
    EXPECT_EQ(question->tokens, (std::vector<Token>{60}));
    EXPECT_EQ(question->count, 4);
    const auto rows = ScriptedCluster::rows(cluster.step(Drafted{{1}, 12, {61, 62}}));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(tokens_of(rows[0]), (std::vector<Token>{60, 61, 62}));
    EXPECT_EQ(rows[0].drafts, 2);
    EXPECT_TRUE(cluster.step(Drafted{{1}, 12, {61}}).empty()) << "once";
    actions = cluster.tokens(1, {61, 62, 63});
    question = find<ProposeDrafts>(actions);
    ASSERT_TRUE(question);
    EXPECT_EQ(question->first, 12);
    EXPECT_EQ(question->tokens, (std::vector<Token>{61, 62, 63}));
    EXPECT_EQ(ScriptedCluster::rows(cluster.step(Drafted{{1}, 15, {}})).size(), 1U)
        << "no drafts is an answer, too";
    const auto end = cluster.step(Ended{{1}, FinishReason::cancelled});
    EXPECT_EQ(find<ForgetDrafts>(end)->id, RequestId{1});
}

TEST(CoordinatorSpeculation, WhatTheTextSaysIsPreferredToTheDraftModel) {
    CoordinatorConfig both = with_draft_model();
    both.speculation.ngram_tokens = 2;
    ScriptedCluster cluster(both, 1, 1);
    cluster.step(Submitted{repetitive(1)});
    const auto first = cluster.tokens(1, {2});
    EXPECT_FALSE(find<ProposeDrafts>(first));
    EXPECT_EQ(ScriptedCluster::rows(first)[0].drafts, 2);
    EXPECT_TRUE(find<ProposeDrafts>(cluster.tokens(1, {60})));
}

TEST(CoordinatorSpeculation, ADraftModelThatDoesNotAnswerIsNotWaitedForLong) {
    const CoordinatorConfig how = with_draft_model();
    ScriptedCluster cluster(how, 1, 1);
    cluster.step(Submitted{repetitive(1, 60)});
    int asked = 0;
    bool owes = false;
    std::vector<StageInput> rows;
    for (std::int32_t n = 0; n < 40; ++n) {
        const auto actions = cluster.tokens(1, {100 + n});
        rows = ScriptedCluster::rows(actions);
        if (const auto question = find<ProposeDrafts>(actions)) {
            ++asked;
            EXPECT_FALSE(owes) << "it has not answered the last time";
            owes = true;
            EXPECT_TRUE(rows.empty());
            cluster.wait(how.speculation.draft_timeout);
            rows = ScriptedCluster::rows(cluster.step(CoordinatorTick{}));
        } else if (std::exchange(owes, false)) {
            EXPECT_TRUE(cluster.step(Drafted{{1}, 11 + n, {1}}).empty()) << "too late";
        }
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_EQ(rows[0].drafts, 0);
    }
    EXPECT_LT(asked, 12) << "it is tried less and less";
    EXPECT_GT(asked, 5);
}

TEST(CoordinatorSpeculation, ARequestThatIsPreemptedWhileItWaitsForDraftsGoesOn) {
    ScriptedCluster cluster(with_draft_model(), 1, 1);
    cluster.step(Submitted{repetitive(1)});
    cluster.step(Submitted{repetitive(2)});
    ASSERT_TRUE(find<ProposeDrafts>(cluster.tokens(2, {60})));
    cluster.stuck(2, StuckCause::out_of_pages);
    const auto again = ScriptedCluster::rows(cluster.step(CoordinatorTick{}));
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].tokens.size(), 12U);
    EXPECT_TRUE(cluster.step(Drafted{{2}, 12, {61}}).empty()) << "its rows are under way already";
    const auto question = find<ProposeDrafts>(cluster.tokens(2, {61}));
    ASSERT_TRUE(question);
    EXPECT_EQ(question->first, 12) << "the text is the same";
    EXPECT_EQ(question->tokens, (std::vector<Token>{61}));
    cluster.step(Ended{{2}, FinishReason::cancelled});
    EXPECT_TRUE(cluster.step(Drafted{{2}, 13, {1}}).empty());
}

}  // namespace
}  // namespace helix::core::speculation_test
