// A coordinator that takes over: requests go on where their KV is, or are computed anew, and what
// nobody claims is freed.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/coordinator/coordinator_impl.h"
#include "core/find_action.h"
#include "core/invariants.h"

namespace helix::core::coordinator_adoption_test {
namespace {

constexpr std::int32_t kLayers = 4;
constexpr std::uint64_t kEpochBefore = 5;  // of the coordinator that is gone
constexpr std::uint32_t kAttemptsBefore = 100;
const Pipeline kPipeline = {{{0}, {0, 2}}, {{1}, {2, 4}}};

RememberedPlacement chain() {
    RememberedPlacement placement;
    placement.holders = {{"w0", {0, 2}, 100}, {"w1", {2, 4}, 100}};
    placement.flows = {{"", "w0", 7}, {"w0", "w1", 7}, {"w1", "", 7}};
    return placement;
}

SequenceKey key(std::uint32_t attempt = 3, std::uint32_t member = 0) {
    return {{1}, attempt, member};
}

ProducedToken drawn(std::int32_t position, Token token, std::uint32_t attempt = 3) {
    return {key(attempt), position, token, 0, {}};
}

// Two workers in a chain, each with what it has kept, and a client that has got something. The
// prompt is 10 11 12, and the answer goes on with 20 21 22 ...
class Takeover {
  public:
    std::vector<SequenceHeld> kept[2] = {
        {{key(), kPipeline, 5, 5, false, false, {}}},
        {{key(), kPipeline, 5, 5, false, false, {drawn(3, 20), drawn(4, 21), drawn(5, 22)}}}};
    Begun begun = {{{{20, 21, 22}, false}}, 0, kAttemptsBefore};
    Request request;

    Takeover() : coordinator_(config()) {
        request.id = {1};
        request.prompt = {10, 11, 12};
        request.max_tokens = 20;
        request.stop_tokens = {0};
    }

    static CoordinatorConfig config() {
        CoordinatorConfig config;
        config.n_layers = kLayers;
        config.context_length = 128;
        config.vocab_size = 100;
        config.block_size = 4;
        config.claim_wait = base::from_seconds(3);
        return config;
    }

    void join(std::uint32_t id, LayerRange layers) {
        WorkerJoined joined;
        joined.worker = {id};
        joined.incarnation = 1;
        joined.node.name = "w" + std::to_string(id);
        joined.node.memory_bytes = 100;
        joined.holding = Holding{kEpochBefore, layers, chain(), kept[id]};
        step(joined);
    }
    void join_all() {
        join(0, {0, 2});
        join(1, {2, 4});
        tick();
    }
    void submit() { step(Submitted{request, begun}); }
    void tick(Duration time = base::from_ms(50)) {
        now_ = now_ + time;
        step(CoordinatorTick{});
    }
    void report(std::uint32_t worker, std::vector<SequenceKey> held) {
        WorkerReport message;
        message.total_pages = 100;
        message.held = std::move(held);
        step(FromWorker{{worker}, message});
    }
    void token(std::int32_t position, Token token, std::uint32_t attempt = 3) {
        step(FromWorker{{1}, TokensProduced{{drawn(position, token, attempt)}}});
    }

    void step(const CoordinatorEvent& event) {
        std::vector<CoordinatorAction> actions;
        coordinator_.step(now_, event, actions);
        EXPECT_EQ(broken_invariant(coordinator_), "");
        for (const CoordinatorAction& action : actions) note(action);
    }

    std::vector<Token> streamed;
    std::optional<RequestRouted> routed;
    std::optional<FinishRequest> finished;
    std::vector<std::int32_t> choices_ended;
    std::vector<StageInput> rows;
    std::vector<SequenceKey> freed;
    std::vector<ForkSequences> forks;
    std::vector<SwapSequences> swaps;
    std::int64_t swap_pages = 0;  // of each worker
    std::vector<std::string> cut_off;
    bool planned = false;

  private:
    void note(const CoordinatorAction& action) {
        if (const auto* token = std::get_if<StreamToken>(&action)) {
            streamed.push_back(token->token.token);
        } else if (const auto* way = std::get_if<RequestRouted>(&action)) {
            routed = *way;
        } else if (const auto* end = std::get_if<FinishRequest>(&action)) {
            finished = *end;
        } else if (const auto* choice = std::get_if<FinishChoice>(&action)) {
            choices_ended.push_back(choice->choice);
        } else if (const auto* liar = std::get_if<CutOffWorker>(&action)) {
            cut_off.push_back(liar->reason);
        } else if (std::holds_alternative<PlanCluster>(action)) {
            planned = true;
        }
        const auto* sent = std::get_if<SendToWorker>(&action);
        if (sent == nullptr) return;
        if (const auto* assign = std::get_if<AssignLayers>(&sent->message)) {
            // A worker takes up no assignment that is older than what it knows.
            EXPECT_GT(assign->epoch, kEpochBefore);
            step(FromWorker{sent->worker,
                            LayersReady{assign->epoch, assign->layers, 100, swap_pages}});
        } else if (const auto* inputs = std::get_if<StageInputs>(&sent->message)) {
            rows.insert(rows.end(), inputs->inputs.begin(), inputs->inputs.end());
        } else if (const auto* free = std::get_if<FreeSequences>(&sent->message)) {
            freed.insert(freed.end(), free->keys.begin(), free->keys.end());
        } else if (const auto* fork = std::get_if<ForkSequences>(&sent->message)) {
            forks.push_back(*fork);
        } else if (const auto* swap = std::get_if<SwapSequences>(&sent->message)) {
            swaps.push_back(*swap);
        }
    }

    TimePoint now_;
    Coordinator coordinator_;
};

TEST(CoordinatorAdoption, ARequestGoesOnWhereItRanWithItsNextRow) {
    Takeover takeover;
    takeover.join_all();
    takeover.submit();
    EXPECT_FALSE(takeover.planned);  // the workers know what was in force
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::adopted);
    EXPECT_EQ(takeover.routed->attempt, 3U);
    EXPECT_EQ(takeover.routed->pipeline, kPipeline);
    EXPECT_TRUE(takeover.streamed.empty());
    ASSERT_EQ(takeover.rows.size(), 1U);
    EXPECT_EQ(takeover.rows[0].key, key());
    EXPECT_EQ(takeover.rows[0].first_position, 5);
    ASSERT_EQ(takeover.rows[0].tokens.size(), 1U);
    EXPECT_EQ(takeover.rows[0].tokens[0], 22);
    EXPECT_TRUE(takeover.freed.empty());
    takeover.token(6, 23);
    EXPECT_EQ(takeover.streamed, std::vector<Token>{23});
    EXPECT_EQ(takeover.rows.size(), 2U);
}

TEST(CoordinatorAdoption, ARequestThatComesBeforeItsWorkersIsAdoptedWhenTheyAreThere) {
    Takeover takeover;
    takeover.submit();
    takeover.join_all();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::adopted);
}

TEST(CoordinatorAdoption, TokensThatNobodyPassedOnArePassedOnFirst) {
    Takeover takeover;
    takeover.begun.choices[0].output = {20};
    takeover.join_all();
    takeover.submit();
    EXPECT_EQ(takeover.streamed, (std::vector<Token>{21, 22}));
    ASSERT_EQ(takeover.rows.size(), 1U);
    EXPECT_EQ(takeover.rows[0].first_position, 5);
}

TEST(CoordinatorAdoption, ATokenThatIsUnderWayIsWaitedForAndNotAskedForAgain) {
    Takeover takeover;
    for (auto& kept : takeover.kept) kept[0].arrived = kept[0].certain = 6;
    takeover.join_all();
    takeover.submit();
    ASSERT_TRUE(takeover.routed);
    EXPECT_TRUE(takeover.rows.empty());
    takeover.token(6, 23);
    EXPECT_EQ(takeover.streamed, std::vector<Token>{23});
    ASSERT_EQ(takeover.rows.size(), 1U);
    EXPECT_EQ(takeover.rows[0].first_position, 6);
}

// The row of its last token was under way when the first stage told what it has; what came of it is
// said before the gateway comes with the request.
TEST(CoordinatorAdoption, ATokenThatIsSaidBeforeItsRequestIsClaimedIsNotLost) {
    Takeover takeover;
    for (auto& kept : takeover.kept) kept[0].arrived = kept[0].certain = 6;
    takeover.join_all();
    takeover.token(6, 23);
    takeover.submit();
    ASSERT_TRUE(takeover.routed.has_value());
    EXPECT_EQ(takeover.routed->reason, RouteReason::adopted);
    EXPECT_EQ(takeover.streamed, std::vector<Token>{23});
    ASSERT_EQ(takeover.rows.size(), 1U);
    EXPECT_EQ(takeover.rows[0].first_position, 6);
    EXPECT_EQ(takeover.rows[0].tokens[0], 23);
    takeover.token(7, 24);
    EXPECT_EQ(takeover.streamed, (std::vector<Token>{23, 24}));
    EXPECT_TRUE(takeover.cut_off.empty());
}

TEST(CoordinatorAdoption, APromptThatIsBeingComputedIsWaitedFor) {
    Takeover takeover;
    takeover.begun.choices[0].output.clear();
    for (auto& kept : takeover.kept) {
        kept[0].arrived = kept[0].certain = 3;
        kept[0].drawn.clear();
    }
    takeover.join_all();
    takeover.submit();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::adopted);
    EXPECT_TRUE(takeover.rows.empty());
    takeover.token(3, 20);
    EXPECT_EQ(takeover.streamed, std::vector<Token>{20});
}

TEST(CoordinatorAdoption, AfterADraftTheNextRowGoesBackToWhatWasDrawn) {
    Takeover takeover;
    for (auto& kept : takeover.kept) kept[0].arrived = 9;  // four drafted rows, all wrong
    takeover.join_all();
    takeover.submit();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::adopted);
    ASSERT_EQ(takeover.rows.size(), 1U);
    EXPECT_EQ(takeover.rows[0].first_position, 5);
}

TEST(CoordinatorAdoption, ARequestThatHadEndedThereEnds) {
    Takeover takeover;
    takeover.kept[1][0].drawn.back().token = 0;
    takeover.begun.choices[0].output = {20, 21};
    takeover.join_all();
    takeover.submit();
    EXPECT_EQ(takeover.streamed, std::vector<Token>{0});
    ASSERT_TRUE(takeover.finished);
    EXPECT_EQ(takeover.finished->reason, FinishReason::stop);
    EXPECT_TRUE(takeover.rows.empty());
    EXPECT_EQ(takeover.freed, (std::vector<SequenceKey>{key(), key()}));
}

// What cannot be adopted is computed anew as an attempt that there never was, and what is left of
// it is freed.
void expect_computed_anew(Takeover& takeover, std::int32_t tokens) {
    takeover.join_all();
    takeover.submit();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::first);
    EXPECT_GT(takeover.routed->attempt, kAttemptsBefore);
    ASSERT_EQ(takeover.rows.size(), 1U);
    EXPECT_EQ(takeover.rows[0].first_position, 0);
    EXPECT_EQ(takeover.rows[0].tokens.size(), static_cast<std::size_t>(tokens));
    EXPECT_NE(std::find(takeover.freed.begin(), takeover.freed.end(), key()), takeover.freed.end());
}

TEST(CoordinatorAdoption, WhereAStageHasLostItTheRequestIsComputedAnew) {
    Takeover takeover;
    takeover.kept[1].clear();
    expect_computed_anew(takeover, 6);
}

TEST(CoordinatorAdoption, WhereALinkBrokeTheRequestIsComputedAnew) {
    Takeover takeover;
    takeover.kept[0][0].rows_lost = true;
    expect_computed_anew(takeover, 6);
}

TEST(CoordinatorAdoption, WhatWasSwappedOutComesBackInItsTurn) {
    Takeover takeover;
    takeover.swap_pages = 50;
    takeover.begun.choices[0].output = {20, 21};
    for (auto& kept : takeover.kept) kept[0].swapped = true;
    takeover.join_all();
    takeover.submit();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::adopted);
    EXPECT_EQ(takeover.streamed, std::vector<Token>{22});
    ASSERT_EQ(takeover.swaps.size(), 2U);  // to both: one may not have been told
    EXPECT_TRUE(takeover.swaps[0].out && takeover.swaps[1].out);
    EXPECT_TRUE(takeover.rows.empty());
    takeover.tick();
    ASSERT_EQ(takeover.swaps.size(), 4U);
    EXPECT_FALSE(takeover.swaps[2].out || takeover.swaps[3].out);
    ASSERT_EQ(takeover.rows.size(), 1U);
    EXPECT_EQ(takeover.rows[0].first_position, 5);
    EXPECT_TRUE(takeover.freed.empty());
}

TEST(CoordinatorAdoption, WhatWasSwappedOutIsComputedAnewWhereNobodyHasRoomForIt) {
    Takeover takeover;
    takeover.kept[1][0].swapped = true;
    expect_computed_anew(takeover, 6);
}

TEST(CoordinatorAdoption, WhereTooManyTokensAreForgottenTheRequestIsComputedAnew) {
    Takeover takeover;
    takeover.begun.choices[0].output.clear();
    takeover.kept[1][0].drawn.erase(takeover.kept[1][0].drawn.begin());
    expect_computed_anew(takeover, 3);
}

TEST(CoordinatorAdoption, OfTwoAttemptsTheOneThatTheClientIsAheadOfIsNotTaken) {
    Takeover takeover;
    takeover.begun.choices[0].output = {20, 21, 22, 23, 24};
    expect_computed_anew(takeover, 8);
}

TEST(CoordinatorAdoption, TokensThatAreNotTheClientsAreNotBelieved) {
    Takeover takeover;
    takeover.kept[1][0].drawn[1].token = 77;
    expect_computed_anew(takeover, 6);
}

TEST(CoordinatorAdoption, WhatNobodyClaimsIsFreedAfterAWhileAndNotBefore) {
    Takeover takeover;
    takeover.join_all();
    takeover.report(0, {key()});
    EXPECT_TRUE(takeover.freed.empty());
    takeover.tick();
    takeover.tick(base::from_seconds(3));
    takeover.report(0, {key()});
    EXPECT_EQ(takeover.freed, std::vector<SequenceKey>{key()});
    takeover.submit();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::first);
}

TEST(CoordinatorAdoption, AWorkerThatIsLostAgainTakesItsPartWithIt) {
    Takeover takeover;
    takeover.join(0, {0, 2});
    takeover.join(1, {2, 4});
    takeover.step(WorkerLost{{1}, "died"});
    takeover.kept[1].clear();
    takeover.join(1, {2, 4});
    takeover.tick();
    takeover.submit();
    EXPECT_FALSE(takeover.routed && takeover.routed->reason == RouteReason::adopted);
}

TEST(CoordinatorAdoption, AnAnswerThatWasWholeEndsAtOnce) {
    Takeover takeover;
    takeover.begun.choices[0].output = {20, 0};
    takeover.submit();
    ASSERT_TRUE(takeover.finished);
    EXPECT_EQ(takeover.finished->reason, FinishReason::stop);
}

TEST(CoordinatorAdoption, OfSeveralAnswersOnlyThoseThatHaveNotEndedGoOn) {
    Takeover takeover;
    takeover.request.n = 3;
    takeover.begun.choices = {{{20, 0}, true}, {{30}, false}, {{40, 0}, false}};
    takeover.join_all();
    takeover.submit();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::first);
    EXPECT_FALSE(takeover.finished);
    TokensProduced first;
    for (std::uint32_t member = 0; member < 3; ++member) {
        const std::vector<Token> said = {20, 30, 40};
        first.tokens.push_back({{{1}, takeover.routed->attempt, member}, 3, said[member], 0, {}});
    }
    takeover.step(FromWorker{{1}, first});
    takeover.step(
        FromWorker{{1}, TokensProduced{{{{{1}, takeover.routed->attempt, 1}, 4, 0, 0, {}}}}});
    EXPECT_EQ(takeover.streamed, std::vector<Token>{0});
    ASSERT_TRUE(takeover.finished);
}

// Three answers to the prompt 10 11 12: 20 21 22, 30 31 and 40, of which the client lacks the last
// token of the second. The row of the last token of each is due.
class GroupTakeover : public Takeover {
  public:
    GroupTakeover() {
        request.n = 3;
        begun.choices = {{{20, 21, 22}, false}, {{30}, false}, {{40}, false}};
        kept[0] = {held(0, 5), held(1, 4), held(2, 3)};
        kept[1] = kept[0];
        kept[1][0].drawn = {of(0, 3, 20), of(1, 3, 30), of(2, 3, 40), of(0, 4, 21), of(0, 5, 22)};
        kept[1][1].drawn = {of(1, 4, 31)};
    }
    static SequenceHeld held(std::uint32_t member, std::int32_t rows) {
        return {key(3, member), kPipeline, rows, rows, false, false, {}};
    }
    static ProducedToken of(std::uint32_t member, std::int32_t position, Token token) {
        return {key(3, member), position, token, 0, {}};
    }
    // Only the prompt's sequence is there.
    void keep_prompt(std::vector<ProducedToken> drawn) {
        begun.choices = {{{}, false}, {{}, false}, {{}, false}};
        kept[0] = {held(0, 3)};
        kept[1] = kept[0];
        kept[1][0].drawn = std::move(drawn);
    }
    void take_over() {
        join_all();
        submit();
    }
    bool adopted() const { return routed && routed->reason == RouteReason::adopted; }
    // Expects a row of each of these members, at the position of its last token.
    void expect_rows(const std::map<std::uint32_t, std::int32_t>& positions) const {
        std::map<std::uint32_t, std::int32_t> sent;
        for (const StageInput& input : rows) {
            EXPECT_EQ(input.tokens.size(), 1U);
            sent[input.key.member] = input.first_position;
        }
        EXPECT_EQ(sent, positions);
    }
};

TEST(CoordinatorAdoption, SeveralAnswersGoOnEachWithItsNextRow) {
    GroupTakeover takeover;
    takeover.take_over();
    ASSERT_TRUE(takeover.adopted());
    EXPECT_EQ(takeover.routed->attempt, 3U);
    EXPECT_EQ(takeover.streamed, std::vector<Token>{31});
    takeover.expect_rows({{0, 5}, {1, 4}, {2, 3}});
    for (const StageInput& input : takeover.rows) EXPECT_EQ(input.parent, -1);
    EXPECT_TRUE(takeover.freed.empty());
    EXPECT_TRUE(takeover.forks.empty());
    takeover.step(FromWorker{
        {1}, TokensProduced{{GroupTakeover::of(1, 5, 32), GroupTakeover::of(2, 4, 41)}}});
    EXPECT_EQ(takeover.streamed, (std::vector<Token>{31, 32, 41}));
    EXPECT_TRUE(takeover.cut_off.empty());
}

TEST(CoordinatorAdoption, OfSeveralAnswersARowThatIsUnderWayIsNotSentAgain) {
    GroupTakeover takeover;
    for (auto& kept : takeover.kept) kept[2].arrived = kept[2].certain = 4;
    takeover.take_over();
    ASSERT_TRUE(takeover.adopted());
    takeover.expect_rows({{0, 5}, {1, 4}});
    takeover.step(FromWorker{{1}, TokensProduced{{GroupTakeover::of(2, 4, 41)}}});
    EXPECT_EQ(takeover.streamed, (std::vector<Token>{31, 41}));
    EXPECT_TRUE(takeover.cut_off.empty());
}

TEST(CoordinatorAdoption, AnAnswerThatHasEndedIsFreedAndTheOthersGoOn) {
    GroupTakeover takeover;
    takeover.begun.choices[0] = {{20, 0}, true};
    takeover.kept[1][0].drawn[3].token = 0;
    takeover.kept[1][0].drawn.pop_back();
    takeover.take_over();
    ASSERT_TRUE(takeover.adopted());
    EXPECT_EQ(takeover.freed, (std::vector<SequenceKey>{key(), key()}));
    takeover.expect_rows({{1, 4}, {2, 3}});
}

TEST(CoordinatorAdoption, AnAnswerThatEndsWithWhatWasNotSaidEnds) {
    GroupTakeover takeover;
    takeover.kept[1][1].drawn[0].token = 0;
    takeover.take_over();
    ASSERT_TRUE(takeover.adopted());
    EXPECT_EQ(takeover.streamed, std::vector<Token>{0});
    EXPECT_EQ(takeover.choices_ended, std::vector<std::int32_t>{1});
    EXPECT_EQ(takeover.freed, (std::vector<SequenceKey>{key(3, 1), key(3, 1)}));
    takeover.expect_rows({{0, 5}, {2, 3}});
}

TEST(CoordinatorAdoption, WhereAStageHasLostOneOfSeveralAnswersAllAreComputedAnew) {
    GroupTakeover takeover;
    takeover.kept[1].pop_back();
    takeover.take_over();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::first);
    EXPECT_TRUE(takeover.streamed.empty());
    EXPECT_EQ(takeover.freed.size(), 5U);
    ASSERT_EQ(takeover.rows.size(), 1U);
    EXPECT_EQ(takeover.rows[0].draws, 3);
}

TEST(CoordinatorAdoption, APromptOfSeveralAnswersThatIsBeingComputedIsWaitedFor) {
    GroupTakeover takeover;
    takeover.keep_prompt({});
    takeover.take_over();
    ASSERT_TRUE(takeover.adopted());
    EXPECT_TRUE(takeover.rows.empty());
    EXPECT_TRUE(takeover.forks.empty());
    takeover.step(
        FromWorker{{1},
                   TokensProduced{{GroupTakeover::of(0, 3, 20), GroupTakeover::of(1, 3, 30),
                                   GroupTakeover::of(2, 3, 40)}}});
    EXPECT_EQ(takeover.streamed, (std::vector<Token>{20, 30, 40}));
    EXPECT_EQ(takeover.forks.size(), 2U);
    takeover.expect_rows({{0, 3}, {1, 3}, {2, 3}});
}

TEST(CoordinatorAdoption, SeveralAnswersOfWhichOnlyTheFirstTokensAreThereAreMadeOfThePrompt) {
    GroupTakeover takeover;
    takeover.keep_prompt(
        {GroupTakeover::of(0, 3, 20), GroupTakeover::of(1, 3, 30), GroupTakeover::of(2, 3, 40)});
    takeover.begun.choices[1].output = {30};                // the others were not said
    takeover.kept[0].push_back(GroupTakeover::held(1, 3));  // the first stage had heard
    takeover.take_over();
    ASSERT_TRUE(takeover.adopted());
    EXPECT_EQ(takeover.streamed, (std::vector<Token>{20, 40}));
    ASSERT_EQ(takeover.forks.size(), 2U);
    EXPECT_EQ(takeover.forks[0].parent, key());
    EXPECT_EQ(takeover.forks[0].members, (std::vector<std::uint32_t>{1, 2}));
    EXPECT_EQ(takeover.rows.size(), 3U);
    EXPECT_TRUE(takeover.freed.empty());
}

TEST(CoordinatorAdoption, FirstTokensThatAreNotTheClientsAreNotBelieved) {
    GroupTakeover takeover;
    takeover.keep_prompt(
        {GroupTakeover::of(0, 3, 20), GroupTakeover::of(1, 3, 30), GroupTakeover::of(2, 3, 40)});
    takeover.begun.choices[1].output = {31};
    takeover.take_over();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::first);
}

TEST(CoordinatorAdoption, BeamsAreSearchedForAnew) {
    GroupTakeover takeover;
    takeover.keep_prompt({});
    takeover.request.beam = BeamSearch{3, 1, EarlyStopping::no};
    takeover.take_over();
    ASSERT_TRUE(takeover.routed);
    EXPECT_EQ(takeover.routed->reason, RouteReason::first);
}

TEST(CoordinatorAdoption, AHoldingThatCannotBeEndsTheSession) {
    Takeover takeover;
    takeover.kept[0][0].certain = 50;  // of five
    takeover.join(0, {0, 2});
    ASSERT_EQ(takeover.cut_off.size(), 1U);
    takeover.join(1, {2, 5});
    EXPECT_EQ(takeover.cut_off.size(), 2U);
}

}  // namespace
}  // namespace helix::core::coordinator_adoption_test
