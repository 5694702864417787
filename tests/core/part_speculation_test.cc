// What the coordinator's part that drafts tokens ahead does: it is asked directly.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/coordinator_parts.h"

namespace helix::core::part_speculation_test {
namespace {

using base::from_ms;

CoordinatorConfig drafting(std::int32_t ngram_tokens, std::int32_t draft_tokens) {
    CoordinatorConfig config = Parts::small();
    config.speculation.ngram_tokens = ngram_tokens;
    config.speculation.draft_tokens = draft_tokens;
    return config;
}

// The prompt's tokens are 1 to 7, again and again, and 5 is what follows its end: 1 2 3 4 5 6 7 1 2
// 3 4, then 5.
constexpr std::int32_t kPrompt = 11;
constexpr std::int32_t kOutput = 40;

struct SpeculationTest : testing::Test {
    void serve(const CoordinatorConfig& config) {
        parts = std::make_unique<Parts>(config);
        parts->serve(1);
    }
    RequestState& decode(std::uint64_t id = 1, std::int32_t output = kOutput) {
        return parts->decode(Parts::request_of(id, kPrompt, output), 0);
    }
    // The rows that were sent to the worker last, after those of the prompt.
    StageInput last_rows() {
        parts->out.end();
        parts->out.begin(parts->now, parts->actions);
        const auto sent = parts->sent<StageInputs>(0);
        return sent.empty() ? StageInput{} : sent.back().inputs.back();
    }
    std::unique_ptr<Parts> parts;
};

TEST_F(SpeculationTest, NothingIsDraftedWhereNobodyAskedForIt) {
    serve(Parts::small());
    const RequestState& state = decode();
    EXPECT_EQ(last_rows().tokens.size(), 1U);
    EXPECT_EQ(last_rows().drafts, 0);
    EXPECT_EQ(state.drafting, nullptr);
    EXPECT_FALSE(Speculation::runs_ahead(state));
}

TEST_F(SpeculationTest, WhatFollowedTheSameWordsIsSentWithTheLastToken) {
    serve(drafting(3, 0));
    const RequestState& state = decode();
    const StageInput rows = last_rows();
    EXPECT_EQ(rows.first_position, kPrompt);
    EXPECT_EQ(std::vector<Token>(rows.tokens.begin(), rows.tokens.end()),
              (std::vector<Token>{5, 6, 7, 1}));
    EXPECT_EQ(rows.drafts, 3);
    EXPECT_TRUE(Speculation::runs_ahead(state));
    EXPECT_EQ(parts->speculation.drafts(), 1);
    EXPECT_EQ(parts->speculation.draft_tokens(), 3);
}

TEST_F(SpeculationTest, DraftsCountAsFarAsTheyAreRight) {
    serve(drafting(3, 0));
    RequestState& state = decode();
    EXPECT_TRUE(parts->speculation.note_drawn(state, 6, false));
    EXPECT_TRUE(Speculation::runs_ahead(state)) << "more may come of the same rows";
    EXPECT_FALSE(parts->speculation.note_drawn(state, 2, true)) << "7 was drafted";
    EXPECT_FALSE(Speculation::runs_ahead(state));
    EXPECT_EQ(parts->speculation.accepted_draft_tokens(), 1);
    EXPECT_FALSE(parts->speculation.note_drawn(state, 1, true)) << "their run is over";
    EXPECT_EQ(parts->speculation.accepted_draft_tokens(), 1);
    EXPECT_LT(state.drafting->length.rate(), 0.75) << "one of three was right";
}

TEST_F(SpeculationTest, NoMoreIsDraftedThanTheRequestMayStillSay) {
    serve(drafting(3, 0));
    decode(1, 3);  // one token has come, and one more is drawn than drafted ones are right
    EXPECT_EQ(last_rows().drafts, 1);
}

TEST_F(SpeculationTest, RequestsOfOneLastStageShareTheRowsOfDrafts) {
    CoordinatorConfig config = drafting(8, 0);
    config.speculation.draft_rows = 4;
    serve(config);
    decode(1);
    EXPECT_EQ(last_rows().drafts, 4);
    decode(2);
    EXPECT_EQ(last_rows().drafts, 2);
}

TEST_F(SpeculationTest, ARequestMaySayHowManyAndNone) {
    serve(drafting(3, 0));
    Request none = Parts::request_of(1, kPrompt, kOutput);
    none.max_draft_tokens = 0;
    parts->decode(none, 0);
    EXPECT_EQ(last_rows().drafts, 0);
    Request one = Parts::request_of(2, kPrompt, kOutput);
    one.max_draft_tokens = 1;
    parts->decode(one, 0);
    EXPECT_EQ(last_rows().drafts, 1);
}

TEST_F(SpeculationTest, TheDraftModelIsToldEachTokenOnceAndWaitedFor) {
    serve(drafting(0, 4));
    RequestState& state = decode();
    auto asked = parts->said<ProposeDrafts>();
    ASSERT_EQ(asked.size(), 2U);
    EXPECT_EQ(asked[0].tokens.size(), std::size_t{kPrompt}) << "while the pipeline computes it";
    EXPECT_EQ(asked[0].count, 0);
    EXPECT_EQ(asked[1].first, kPrompt);
    EXPECT_EQ(asked[1].tokens, (std::vector<Token>{5}));
    EXPECT_EQ(asked[1].count, 4);
    EXPECT_TRUE(state.drafting->asked);
    parts->speculation.on(Drafted{{1}, kPrompt, {9}});
    EXPECT_TRUE(state.drafting->asked) << "of a text that has gone on since";
    parts->speculation.on(Drafted{{1}, kPrompt + 1, {9, 8}});
    EXPECT_FALSE(state.drafting->asked);
    EXPECT_EQ(last_rows().drafts, 2);
    parts->speculation.on(Drafted{{7}, kPrompt + 1, {9}});  // ended long ago
    EXPECT_EQ(parts->speculation.drafts(), 1);
}

TEST_F(SpeculationTest, ALateDraftModelIsPassedOverUntilItAnswers) {
    serve(drafting(0, 4));
    RequestState& state = decode();
    const Duration limit = parts->config.speculation.draft_timeout;
    parts->pass(limit + from_ms(-1));
    parts->speculation.end_late_drafts(parts->now);
    EXPECT_TRUE(state.drafting->asked) << "there is still time";
    parts->pass(from_ms(1));
    parts->speculation.end_late_drafts(parts->now);
    EXPECT_FALSE(state.drafting->asked);
    EXPECT_TRUE(state.drafting->late);
    EXPECT_EQ(last_rows().drafts, 0) << "it goes on without";
    const double rate = state.drafting->length.rate();
    EXPECT_LT(rate, 0.75) << "as if a draft had been wrong";
    const std::size_t questions = parts->said<ProposeDrafts>().size();
    parts->say_tokens(state, {3});
    EXPECT_EQ(parts->said<ProposeDrafts>().size(), questions) << "not before it has answered";
    parts->speculation.on(Drafted{{1}, kPrompt + 1, {9}});
    EXPECT_FALSE(state.drafting->late);
    parts->say_tokens(state, {3});
    EXPECT_EQ(parts->said<ProposeDrafts>().size(), questions + 1);
}

TEST_F(SpeculationTest, AnAttemptThatIsOverLeavesNoDrafts) {
    serve(drafting(3, 0));
    RequestState& state = decode();
    ASSERT_TRUE(Speculation::runs_ahead(state));
    parts->speculation.forget_drafts(state);
    EXPECT_FALSE(Speculation::runs_ahead(state));
    EXPECT_FALSE(parts->speculation.note_drawn(state, 6, true));
    EXPECT_EQ(parts->speculation.accepted_draft_tokens(), 0);
}

}  // namespace
}  // namespace helix::core::part_speculation_test
