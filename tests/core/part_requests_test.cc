// What the coordinator's parts do with requests that run: each part is asked directly.

#include <gtest/gtest.h>

#include <memory>

#include "core/coordinator/failed_moves.h"
#include "core/coordinator_parts.h"

namespace helix::core::part_requests_test {
namespace {

using base::from_ms;
using base::from_seconds;
using spec::NodeRole;

CoordinatorConfig with(Preemption preemption) {
    CoordinatorConfig config = Parts::small();
    config.preemption = preemption;
    return config;
}

// ---- Suspects
// -------------------------------------------------------------------------------------

struct SuspectsTest : testing::Test {
    SuspectsTest() {
        parts.serve(2);
        state = &parts.decode(Parts::request_of(1, 8, 40), 0);
    }
    void die(int times) {
        for (int i = 0; i < times; ++i) parts.suspects.note_death(parts.now, *state, {0});
    }
    Parts parts;
    RequestState* state = nullptr;
};

TEST_F(SuspectsTest, OnlyDeathsWithRowsThereCount) {
    parts.suspects.note_death(parts.now, *state, {1});
    EXPECT_EQ(state->deaths, 0) << "it does not run there";
    state->rows_going = 0;
    die(1);
    EXPECT_EQ(state->deaths, 0) << "nothing of it was there";
}

TEST_F(SuspectsTest, AfterTwoDeathsARequestRunsAloneAndATokenClearsIt) {
    die(1);
    EXPECT_FALSE(is_suspect(*state));
    die(1);
    ASSERT_TRUE(is_suspect(*state));
    ASSERT_TRUE(parts.suspects.set_apart(parts.now, *state));
    ASSERT_EQ(parts.suspects.quarantine()->workers.size(), 1U);
    const WorkerId alone = *parts.suspects.quarantine()->workers.begin();
    const RequestState& other = parts.wait(Parts::request_of(2));
    EXPECT_FALSE(parts.suspects.keeps_apart(other, alone));
    EXPECT_TRUE(parts.suspects.keeps_apart(other, {1 - alone.value}));
    EXPECT_FALSE(parts.suspects.keeps_apart(*state, {1 - alone.value}));
    parts.suspects.note_progress(*state);
    EXPECT_FALSE(is_suspect(*state));
    EXPECT_FALSE(parts.suspects.quarantine().has_value());
}

TEST_F(SuspectsTest, AfterTheThirdItIsGuiltyUnlessAnotherWorkerDiesMeanwhile) {
    die(kMostDeaths);
    EXPECT_FALSE(parts.suspects.set_apart(parts.now, *state)) << "it waits for its verdict";
    EXPECT_TRUE(parts.suspects.guilty(parts.now + from_seconds(2)).empty());
    EXPECT_EQ(parts.suspects.guilty(parts.now + from_seconds(4)).size(), 1U);
    parts.suspects.acquit({1});
    EXPECT_TRUE(parts.suspects.guilty(parts.now + from_seconds(4)).empty());
    EXPECT_EQ(state->deaths, kDeathsBeforeAlone) << "it is run alone again";
}

// ---- Swaps
// ----------------------------------------------------------------------------------------

TEST(Swaps, HostMemoryIsTakenForWhatARequestHasAndGivenBack) {
    Parts parts(with(Preemption::swap));
    parts.serve(1, 100, 20);
    RequestState& state = parts.decode(Parts::request_of(1, 8, 40), 0);
    ASSERT_TRUE(parts.swaps.can_swap_out(state));
    parts.swaps.swap_out(state);
    EXPECT_EQ(parts.fleet.at({0}).swap_used, 3 * 4) << "nine tokens are three blocks";
    EXPECT_EQ(parts.charged(0), 0);
    ASSERT_EQ(parts.sent<SwapSequences>(0).size(), 1U);
    EXPECT_TRUE(parts.sent<SwapSequences>(0)[0].out);
    EXPECT_EQ(parts.swaps.check(), "");
    parts.swaps.end_swap(state);
    EXPECT_EQ(parts.fleet.at({0}).swap_used, 0);
    EXPECT_TRUE(parts.swaps.all().empty());
}

TEST(Swaps, WithoutRoomOrBeforeItsFirstTokenNothingIsSwapped) {
    Parts parts(with(Preemption::swap));
    parts.serve(1, 100, 20);
    EXPECT_FALSE(parts.swaps.can_swap_out(parts.run(Parts::request_of(1), 0)));
    EXPECT_FALSE(parts.swaps.can_swap_out(parts.decode(Parts::request_of(2, 24), 0)));
}

TEST(Swaps, AMessageThatBringsItBackIsRepeated) {
    Parts parts(with(Preemption::swap));
    parts.serve(1, 100, 20);
    RequestState& state = parts.decode(Parts::request_of(1, 8, 40), 0);
    parts.swaps.swap_out(state);
    parts.swaps.end_swap(state);
    parts.swaps.tell_back(parts.now, state);
    parts.swaps.repeat_swap_in(parts.now + from_seconds(4));
    EXPECT_EQ(parts.sent<SwapSequences>(0).size(), 2U) << "out, and in";
    parts.swaps.repeat_swap_in(parts.now + from_seconds(6));
    EXPECT_EQ(parts.sent<SwapSequences>(0).size(), 3U);
}

// ---- Preempter
// ------------------------------------------------------------------------------------

struct PreempterTest : testing::Test {
    void stuck(const RequestState& state) {
        parts.preempter.on_stuck(
            parts.now, {0},
            {{state.request.id, state.attempt}, StuckCause::out_of_pages, "no pages"});
    }
    Parts parts;
};

TEST_F(PreempterTest, TheLatestOfTheLowestPriorityGivesItsPagesBack) {
    parts.serve(1);
    const RequestState& first = parts.decode(Parts::request_of(1), 0);
    const RequestState& second = parts.decode(Parts::request_of(2), 0);
    Request urgent = Parts::request_of(3);
    urgent.priority = 1;
    const RequestState& third = parts.decode(urgent, 0);
    stuck(first);
    EXPECT_TRUE(first.running && third.running);
    EXPECT_FALSE(second.running);
    EXPECT_TRUE(parts.preempter.preempted_in_step());
    EXPECT_EQ(parts.preempter.last_at({0}), parts.now);
    EXPECT_EQ(parts.preempter.preemptions(), 1);
}

TEST_F(PreempterTest, FreedPagesHaveTimeToArriveBeforeTheNextIsPreempted) {
    parts.serve(1);
    const RequestState& first = parts.decode(Parts::request_of(1), 0);
    parts.decode(Parts::request_of(2), 0);
    parts.decode(Parts::request_of(3), 0);
    stuck(first);
    parts.pass(from_ms(90));
    stuck(first);
    EXPECT_EQ(parts.preempter.preemptions(), 1);
    parts.pass(from_ms(20));
    stuck(first);
    EXPECT_EQ(parts.preempter.preemptions(), 2);
}

TEST_F(PreempterTest, ARequestThatIsAloneStays) {
    parts.serve(1);
    const RequestState& only = parts.decode(Parts::request_of(1), 0);
    stuck(only);
    EXPECT_TRUE(only.running);
    EXPECT_EQ(parts.preempter.preemptions(), 0);
}

TEST_F(PreempterTest, WhatCannotBeComputedFailsAndSaysWhere) {
    parts.serve(1);
    const RequestState& state = parts.decode(Parts::request_of(1), 0);
    parts.preempter.on_stuck(
        parts.now, {0}, {{{1}, state.attempt}, StuckCause::invalid_request, "no token follows"});
    const auto end = parts.said<FinishRequest>();
    ASSERT_EQ(end.size(), 1U);
    EXPECT_EQ(end[0].reason, FinishReason::invalid_request);
    EXPECT_EQ(end[0].cause, FailureCause::worker_failed);
    EXPECT_EQ(end[0].error, "worker w0: no token follows");
}

// ---- Migrations, StageSender
// ----------------------------------------------------------------------

struct MigrationsTest : testing::Test {
    MigrationsTest() {
        parts.serve(2);
        state = &parts.decode(Parts::request_of(1, 20, 60), 0);
    }
    bool begin() {
        const Path path = parts.way({{{1}, {0, 4}}});
        return parts.migrations.begin_migration(parts.now, *state, path, MigrationReason::asked);
    }
    SequenceKey key() const { return {{1}, state->migration->attempt}; }
    MigrationEnded end() const {
        const auto ended = parts.said<MigrationEnded>();
        EXPECT_EQ(ended.size(), 1U);
        return ended.empty() ? MigrationEnded{} : ended.back();
    }
    Parts parts;
    RequestState* state = nullptr;
};

TEST_F(MigrationsTest, ReservesAtTheNewStagesAndChargesThem) {
    ASSERT_TRUE(begin());
    ASSERT_EQ(parts.sent<ReserveKv>(1).size(), 1U);
    EXPECT_EQ(parts.sent<ReserveKv>(1)[0].layers, (LayerRange{0, 4}));
    EXPECT_GT(parts.charged(1), 0);
    EXPECT_EQ(parts.migrations.migrations_at({1}, false), 1);
    EXPECT_EQ(parts.migrations.extra_charges(), 1U);
    EXPECT_EQ(parts.migrations.check(), "");
    EXPECT_FALSE(begin()) << "it is on its way already";
}

TEST_F(MigrationsTest, CopiesWhatIsSureHoldsTheRequestAndCommits) {
    ASSERT_TRUE(begin());
    parts.migrations.on_reserved(parts.now, {1}, {key()});
    ASSERT_EQ(parts.sent<SendKv>(0).size(), 1U);
    EXPECT_EQ(parts.sent<SendKv>(0)[0].spans, (std::vector<KvSpan>{{0, 0, 20}}));
    parts.migrations.on_arrived(parts.now, {1}, {key(), 1, {0, 4}});
    EXPECT_EQ(state->migration->phase, MigrationPhase::last_round);
    EXPECT_FALSE(Migrations::is_held(*state)) << "a row is under way";
    EXPECT_EQ(parts.say_tokens(*state, {6}), "");
    ASSERT_TRUE(Migrations::is_held(*state));
    parts.migrations.on_arrived(parts.now, {1}, {key(), 2, {0, 4}});
    EXPECT_EQ(end().cause, MigrationCause::committed);
    EXPECT_EQ(state->pipeline.front().worker, WorkerId{1});
    EXPECT_EQ(parts.charged(0), 0);
    EXPECT_EQ(parts.migrations.counts().committed(), 1);
}

TEST_F(MigrationsTest, GivenUpTheRequestGoesOnAndTheNewStageIsFreed) {
    ASSERT_TRUE(begin());
    const SequenceKey moved = key();
    parts.migrations.on_refused(parts.now, {1}, {moved, KvRefusal::impossible, "full"});
    EXPECT_EQ(end().cause, MigrationCause::refused);
    EXPECT_EQ(end().reason, "worker 1: full");
    EXPECT_EQ(parts.charged(1), 0);
    ASSERT_EQ(parts.sent<FreeSequences>(1).size(), 1U);
    EXPECT_EQ(parts.sent<FreeSequences>(1)[0].keys, (std::vector<SequenceKey>{moved}));
    EXPECT_TRUE(state->running);
    EXPECT_FALSE(parts.migrations.moves_now(*state)) << "it pauses";
    forget_failed_moves(parts.fleet, parts.requests);
    EXPECT_TRUE(parts.migrations.moves_now(*state));
}

TEST_F(MigrationsTest, EachWayToGiveUpHasItsCause) {
    const auto cause_of = [&](const auto& give_up) {
        EXPECT_TRUE(begin());
        parts.actions.clear();
        give_up();
        parts.pass(from_seconds(100));
        return end().cause;
    };
    EXPECT_EQ(cause_of([&] { parts.migrations.fail_migrations_over(parts.now, {1}, {0}); }),
              MigrationCause::link_broke);
    EXPECT_EQ(cause_of([&] { EXPECT_TRUE(parts.migrations.give_up_move_to(parts.now, {1})); }),
              MigrationCause::pages_needed);
    EXPECT_EQ(cause_of([&] {
                  parts.pass(from_seconds(21));
                  parts.migrations.end_late_migrations(parts.now);
              }),
              MigrationCause::unanswered);
    EXPECT_EQ(cause_of([&] { parts.life.restart(*state, RouteReason::preempted); }),
              MigrationCause::left_pipeline);
}

TEST_F(MigrationsTest, NothingMovesWhereItDoesNotFit) {
    const Stage there = {{1}, {0, 4}};
    const auto why = [&] {
        return parts.migrations.why_not_at(*state, there, MigrationReason::asked);
    };
    EXPECT_EQ(why(), "");
    parts.fleet.set_draining({1}, true);
    EXPECT_EQ(why(), "worker 1 is being emptied");
    parts.fleet.set_draining({1}, false);
    parts.links.hear(parts.now, {0}, {1}, true);
    EXPECT_EQ(why(), "worker 0 does not reach worker 1");
    parts.links.hear(parts.now, {0}, {1}, false);
    parts.load({1}, {0, 4}, 20);
    EXPECT_EQ(why(), "worker 1 has too little KV memory");
}

TEST(StageSender, NothingIsSaidToAWorkerThatIsBeingTakenOut) {
    Parts parts;
    for (std::uint32_t id = 0; id < 4; ++id) parts.join(id);
    parts.put_in_force(parts.in_a_row());
    RequestState& state = parts.wait(Parts::request_of(1));
    parts.life.start(parts.now, state,
                     parts.way({{{0}, {0, 1}}, {{1}, {1, 2}}, {{2}, {2, 3}}, {{3}, {3, 4}}}));
    parts.fleet.at({2}).gone = true;
    parts.stages.to_stages(state, FreeSequences{StageSender::keys_at_workers(state)});
    EXPECT_EQ(parts.sent<FreeSequences>(1).size(), 1U);
    EXPECT_EQ(parts.sent<FreeSequences>(2).size(), 0U);
}

// ---- Handover
// -------------------------------------------------------------------------------------

TEST(Handover, ARequestGoesToThoseThatDecodeOnceItHasAToken) {
    Parts parts;
    parts.join(0, NodeRole::prefill);
    parts.join(1, NodeRole::decode);
    parts.put_in_force(parts.side_by_side());
    RequestState& state = parts.run(Parts::request_of(1, 8, 40), 0);
    parts.handover.hand_over(parts.now);
    EXPECT_FALSE(state.migration) << "its prompt is being computed";
    EXPECT_EQ(parts.say_tokens(state, {5}), "");
    EXPECT_EQ(parts.handover.waiting(), (std::vector<RequestId>{{1}}));
    parts.handover.hand_over(parts.now);
    ASSERT_TRUE(state.migration);
    EXPECT_EQ(state.migration->begun_for, MigrationReason::handover);
    EXPECT_EQ(state.migration->pipeline.front().worker, WorkerId{1});
}

TEST(Handover, AnAnswerThatIsAboutToEndStays) {
    Parts parts;
    parts.join(0, NodeRole::prefill);
    parts.join(1, NodeRole::decode);
    parts.put_in_force(parts.side_by_side());
    const RequestState& state = parts.decode(Parts::request_of(1, 8, 2), 0);
    parts.handover.hand_over(parts.now);
    EXPECT_FALSE(state.migration);
}

// ---- TokenFlow, RequestLife
// -----------------------------------------------------------------------

TEST(TokenFlow, OnlyTheNextPositionOfTheRunningAttemptIsTaken) {
    Parts parts;
    parts.serve(1);
    const RequestState& state = parts.decode(Parts::request_of(1), 0);
    const auto say = [&](std::uint32_t attempt, std::int32_t position) {
        TokensProduced message;
        message.tokens.push_back({{{1}, attempt}, position, 6, 0, {}});
        return parts.tokens.on_tokens(parts.now, {0}, message);
    };
    ASSERT_EQ(state.output.size(), 1U);
    EXPECT_EQ(say(state.attempt, 8), "");
    EXPECT_EQ(say(state.attempt + 1, 9), "");
    EXPECT_EQ(state.output.size(), 1U) << "it came twice, or of another attempt";
    EXPECT_NE(say(state.attempt, 10), "") << "nobody asked for it";
    EXPECT_EQ(say(state.attempt, 9), "");
    EXPECT_EQ(state.output.size(), 2U);
}

TEST(RequestLife, ARequestThatEndsLeavesNothingBehind) {
    Parts parts;
    parts.serve(1);
    parts.decode(Parts::request_of(1), 0);
    EXPECT_GT(parts.charged(0), 0);
    parts.life.finish({1}, FinishReason::cancelled);
    EXPECT_EQ(parts.charged(0), 0);
    EXPECT_TRUE(parts.requests.empty());
    EXPECT_EQ(parts.queue.sequences_running(), 0);
    EXPECT_EQ(parts.sent<FreeSequences>(0).size(), 1U);
    EXPECT_EQ(parts.life.finished() + parts.life.failed(), 0) << "it was cancelled";
}

TEST(RequestLife, ARequestThatFailsOverKeepsItsTokensAndItsPlace) {
    Parts parts;
    parts.serve(1);
    RequestState& state = parts.decode(Parts::request_of(1), 0);
    parts.wait(Parts::request_of(2));
    parts.life.fail_over(parts.now, state, RouteReason::worker_lost);
    EXPECT_EQ(parts.life.failovers(), 1);
    EXPECT_EQ(parts.queue.waiting().begin()->second, RequestId{1});
    EXPECT_EQ(state.output, (std::vector<Token>{5}));
    EXPECT_TRUE(state.pipeline.empty());
}

// ---- RequestLoads
// ----------------------------------------------------------------------------------

TEST(RequestLoads, WhatIsOnlyLookedAtIsAsIfItWereCountedAnew) {
    Parts parts;
    parts.serve(2);
    RequestLoads loads;
    const auto check = [&] {
        const PipelineGraph& graph = parts.placements.router()->graph();
        RequestLoads anew;
        for (RequestLoads* one : {&loads, &anew}) {
            one->update(graph, parts.placements.routers_made(), parts.requests, parts.demand);
        }
        for (std::size_t n = 0; n < 2; ++n) {
            EXPECT_EQ(loads.nodes()[n].used(), anew.nodes()[n].used());
            EXPECT_EQ(loads.nodes()[n].batch(), anew.nodes()[n].batch());
        }
        return std::pair(loads.nodes()[0].used(), loads.nodes()[1].used());
    };
    for (std::uint64_t id = 1; id <= 3; ++id) parts.decode(Parts::request_of(id, 8, 40), 0);
    RequestState& grows = parts.decode(Parts::request_of(4, 8, 40), 1);
    const auto first = check();
    EXPECT_GT(first.first, first.second);
    EXPECT_EQ(check(), first);
    grows.output.resize(20, 1);
    EXPECT_GT(check().second, first.second);
    parts.life.finish({2}, FinishReason::cancelled);
    parts.decode(Parts::request_of(5, 8, 40), 1);
    EXPECT_LT(check().first, first.first);
    parts.life.finish({4}, FinishReason::cancelled);
    parts.decode(Parts::request_of(4, 8, 40), 0);
    EXPECT_EQ(check(), first) << "another request of the same id";
}

// ---- PathChoice, Dispatcher, Stalls, PrefixRouting
// -----------------------------------------------------------------------------------------

TEST(PathChoice, MemoryIsKeptFreeBesideRequestsOfHighPriority) {
    Parts parts;
    parts.serve(1);
    EXPECT_EQ(parts.paths.headroom_pages({0}), 0);
    Request urgent = Parts::request_of(1);
    urgent.priority = 1;
    parts.run(urgent, 0);
    EXPECT_EQ(parts.paths.headroom_pages({0}), 10);
}

TEST(PathChoice, AWorkerThatIsFullGetsNothing) {
    Parts parts;
    parts.serve(2);
    const RequestState& state = parts.wait(Parts::request_of(9, 8, 12));
    EXPECT_TRUE(parts.paths.fits_for(state)({0}, {0, 4}));
    for (std::uint64_t id = 1; id <= 5; ++id) parts.run(Parts::request_of(id, 8, 12), 0);
    EXPECT_FALSE(parts.paths.fits_for(state)({0}, {0, 4}));
    EXPECT_TRUE(parts.paths.fits_for(state)({1}, {0, 4}));
}

// The usual router, which counts how often it is asked for a way.
class CountedRouter final : public RequestRouter {
  public:
    CountedRouter(const RouterSetup& setup, int& asked)
        : RequestRouter(setup.graph), asked_(asked), usual_(max_flow_router().make(setup)) {}
    Path route(const RoutedRequest& request, const StageFits& fits,
               const WorkerLoads& loads) override {
        ++asked_;
        return usual_->route(request, fits, loads);
    }

  private:
    int& asked_;
    std::unique_ptr<RequestRouter> usual_;
};

TEST(Dispatcher, ARequestThatWaitsIsTriedAgainOnlyWhenSomethingHasChanged) {
    int asked = 0;
    CoordinatorConfig config = Parts::small();
    config.router = [&](const RouterSetup& setup) {
        return std::make_unique<CountedRouter>(setup, asked);
    };
    Parts parts(config);
    parts.serve(1);
    for (std::uint64_t id = 1; id <= 4; ++id) parts.run(Parts::request_of(id, 8, 12), 0);
    const RequestState& large = parts.wait(Parts::request_of(5, 80, 8));
    for (int i = 0; i < 10; ++i) parts.dispatcher.dispatch(parts.now);
    EXPECT_EQ(asked, 1);
    parts.fleet.at({0}).kv.set_reported(1);
    for (int i = 0; i < 10; ++i) parts.dispatcher.dispatch(parts.now);
    EXPECT_EQ(asked, 2) << "a worker has said what it holds";
    parts.life.finish({1}, FinishReason::cancelled);
    for (int i = 0; i < 10; ++i) parts.dispatcher.dispatch(parts.now);
    EXPECT_EQ(asked, 3) << "another has ended, but that is not enough";
    for (std::uint64_t id = 2; id <= 4; ++id) parts.life.finish({id}, FinishReason::cancelled);
    parts.dispatcher.dispatch(parts.now);
    EXPECT_TRUE(large.running);
}

TEST(Dispatcher, ASmallRequestDoesNotOvertakeALargeOne) {
    Parts parts;
    parts.serve(1);
    for (std::uint64_t id = 1; id <= 4; ++id) parts.run(Parts::request_of(id, 8, 12), 0);
    const RequestState& large = parts.wait(Parts::request_of(5, 80, 8));
    const RequestState& small = parts.wait(Parts::request_of(6, 1, 1));
    parts.dispatcher.dispatch(parts.now);
    EXPECT_FALSE(large.running || small.running);
    for (std::uint64_t id = 1; id <= 4; ++id) parts.life.finish({id}, FinishReason::cancelled);
    parts.dispatcher.dispatch(parts.now);
    EXPECT_TRUE(large.running);
}

TEST(Dispatcher, WhatNoPlacementCouldHoldIsRefusedAtItsFirstTurn) {
    Parts parts;
    parts.serve(1);
    parts.dispatcher.on(parts.now, Submitted{Parts::request_of(1, 250, 10)});
    parts.dispatcher.on(parts.now, Submitted{Parts::request_of(2, 90, 10)});
    parts.dispatcher.dispatch(parts.now);
    const auto refused = parts.said<RejectRequest>();
    ASSERT_EQ(refused.size(), 2U);
    EXPECT_EQ(refused[0].reason, RejectReason::too_long);
    EXPECT_EQ(refused[1].reason, RejectReason::never_fits);
    EXPECT_TRUE(parts.requests.empty());
}

TEST(Stalls, AStalledRequestIsTriedAgainAndThenFails) {
    Parts parts;
    parts.serve(1);
    RequestState& state = parts.decode(Parts::request_of(1), 0);
    parts.pass(parts.config.stall_timeout + from_seconds(1));
    parts.stalls.end_stalled(parts.now);
    EXPECT_FALSE(state.running);
    EXPECT_EQ(parts.life.failovers(), 1);
    parts.life.start(parts.now, state, parts.way({{{0}, {0, 4}}}));
    parts.pass(parts.config.stall_timeout + from_seconds(1));
    parts.stalls.end_stalled(parts.now);
    ASSERT_EQ(parts.said<FinishRequest>().size(), 1U);
    EXPECT_EQ(parts.said<FinishRequest>()[0].cause, FailureCause::stalled);
}

TEST(PrefixRouting, ARequestFindsThePathThatComputedItsBeginning) {
    CoordinatorConfig config = Parts::small();
    config.prefix_cache = true;
    Parts parts(config);
    parts.serve(2);
    parts.decode(Parts::request_of(1, 12), 1);
    RequestState& state = parts.wait(Parts::request_of(2, 11));
    const auto hits = parts.prefixes.prefix_hits(state);
    ASSERT_EQ(hits.size(), 1U);
    EXPECT_EQ(hits[0].path, parts.way({{{1}, {0, 4}}}));
    EXPECT_EQ(hits[0].blocks, 2);
    parts.prefixes.clear();
    EXPECT_TRUE(parts.prefixes.prefix_hits(state).empty());
}

}  // namespace
}  // namespace helix::core::part_requests_test
